#!/bin/sh
# Starts the agent of the app. /data is root's, so its files are handed over, and then the user `agent` goes on.
set -eu
if [ "$(id -u)" = 0 ] && id agent >/dev/null 2>&1; then
    mkdir -p /data/agent
    install -m 600 -o agent /data/options.json /data/agent/options.json
    chown -R agent /data/agent
    exec setpriv --reuid=agent --regid=agent --clear-groups "$0"
fi
exec "${PYTHON:-/homerl/bin/python}" "$(dirname "$0")/start.py" "${AGENT_FOLDER:-/data/agent}"
