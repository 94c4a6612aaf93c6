# Sourced by scripts/check_homeassistant. Installs Home Assistant once, and runs a fresh one, as root (debootstrap, chroot).
# It lives in $HOMERL_HA or the user's cache, about 2 GB: Home Assistant wants a newer Python than the systems that we support
# have, so it comes with a Debian of its own.

ha_version=${HOMERL_HA_VERSION:-2026.11.0}
ha_home=${HOMERL_HA:-${XDG_CACHE_HOME:-$HOME/.cache}/homerl/homeassistant}
ha_port=${HOMERL_HA_PORT:-8123}
ha_debian=$ha_home/debian
ha_pid=
ha_tests=0.13.375  # pytest-homeassistant-custom-component, which brings the Home Assistant that it is made for

# Installs into a folder that gets its name when it is whole: killed half-way, the next start begins anew.
ha_install() {
    local new=$ha_home/new wanted
    wanted="$ha_version $(cksum <"$root/scripts/ha/requirements.py")"
    [ "$(id -u)" = 0 ] || { say "a real Home Assistant needs root (debootstrap, chroot)."; return 1; }
    mkdir -p "$ha_home"
    exec 9>"$ha_home/lock"  # what is started keeps it open, so the lock lasts as long as the server
    flock --nonblock 9 || { say "$ha_home is in use. Stop the other check, or set HOMERL_HA and HOMERL_HA_PORT."; return 1; }
    [ "$(cat "$ha_debian/.homerl" 2>/dev/null)" = "$wanted" ] && return
    command -v debootstrap >/dev/null || { say "debootstrap is missing. Try: apt install debootstrap"; return 1; }
    say "installing Home Assistant $ha_version into $ha_home (2 GB, some minutes)"
    ha_clear "$new" && ha_clear "$ha_debian"
    # the script `sid` serves each newer Debian, also one that an older debootstrap does not know; two packages want a compiler
    debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,g++,ca-certificates \
        forky "$new" "${HOMERL_HA_DEBIAN:-http://deb.debian.org/debian}" /usr/share/debootstrap/scripts/sid >"$ha_home/install.log"
    cp -L /etc/resolv.conf "$new/etc/resolv.conf"
    cp -L "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$new/etc/ssl/certs/ca-certificates.crt"
    chroot "$new" python3 -m venv /ha
    ha_pip "$new" "homeassistant==$ha_version"
    cp "$root/scripts/ha/requirements.py" "$new/tmp/requirements.py"
    chroot "$new" /ha/bin/python /tmp/requirements.py >"$new/tmp/requirements.txt"
    ha_pip "$new" -r /tmp/requirements.txt
    : >"$new/etc/resolv.conf"  # a home of the tests asks nobody
    printf '%s\n' "$wanted" >"$new/.homerl"
    mv "$new" "$ha_debian"
}

# Removes an installation. debootstrap that was killed leaves /proc mounted in it.
ha_clear() {
    local point
    for point in "$1/proc" "$1/sys"; do
        ! mountpoint --quiet "$point" || umount "$point"
    done
    rm -rf --one-file-system "$1"
}

# By uv, which needs two minutes for Home Assistant's packages; pip needs many times that.
ha_pip() {
    local where=$1 programs=${ha_venv:-/ha}/bin inside=(env -u PIP_FIND_LINKS -u VIRTUAL_ENV)
    local certificates=/etc/ssl/certs/ca-certificates.crt
    shift
    inside+=("PIP_CERT=$certificates" "SSL_CERT_FILE=$certificates" UV_SYSTEM_CERTS=1)
    [ -e "$where$programs/uv" ] ||
        chroot "$where" "${inside[@]}" "$programs/pip" install --quiet --disable-pip-version-check uv >>"$ha_home/install.log"
    chroot "$where" "${inside[@]}" "$programs/uv" pip install --quiet --python "$programs/python" "$@" >>"$ha_home/install.log"
}

# Tests the component as Home Assistant's own tests test integrations, in an environment of its own.
ha_component() {
    local ha_venv=/component-tests
    if [ "$(cat "$ha_debian$ha_venv/.homerl" 2>/dev/null)" != "$ha_tests" ]; then
        say "installing Home Assistant's fixtures for tests ($ha_tests)"
        rm -rf "$ha_debian$ha_venv"
        chroot "$ha_debian" python3 -m venv "$ha_venv"
        cp -L /etc/resolv.conf "$ha_debian/etc/resolv.conf"
        ha_pip "$ha_debian" "pytest-homeassistant-custom-component==$ha_tests"
        chroot "$ha_debian" "$ha_venv/bin/python" /tmp/requirements.py >"$ha_debian/tmp/component.txt"
        ha_pip "$ha_debian" -r /tmp/component.txt
        : >"$ha_debian/etc/resolv.conf"
        printf '%s\n' "$ha_tests" >"$ha_debian$ha_venv/.homerl"
    fi
    rm -rf "$ha_debian/component" && cp -r "$root/envs/assistant/app" "$ha_debian/component"
    chroot "$ha_debian" sh -c "cd /component/tests && $ha_venv/bin/python -m pytest -p no:cacheprovider \"\$@\"" sh "$@"
}

# Starts a Home Assistant without a past, on the loopback only, and furnishes it: with the demo, or with `ha_casa` as the home of
# scripts/ha/casa. Sets HOMERL_HA_URL and HA_TOKEN.
ha_start() {
    local config=$ha_debian/config
    rm -rf "$config" && mkdir -p "$config/.storage"
    cp "$root/scripts/ha/${ha_casa:+casa/}"*configuration.yaml "$config/"
    [ -z "${ha_casa-}" ] || cp "$root/scripts/ha/casa/automations.yaml" "$config/"
    cp -r "$root/envs/assistant/app/custom_components" "$config/"
    # `http:` in the YAML would be undone after five minutes
    printf '{"version": 1, "minor_version": 1, "key": "http", "data": {"server_host": ["127.0.0.1"], "server_port": %s}}' \
        "$ha_port" >"$config/.storage/http"
    # with another hash seed, the words of an enum in a tool's schema come in another order
    PYTHONHASHSEED=0 setsid python -m homerl.host.child_server $$ \
        chroot "$ha_debian" /ha/bin/hass --config /config --skip-pip >"$ha_home/homeassistant.log" 2>&1 &
    ha_pid=$!
    trap ha_stop EXIT
    export HOMERL_HA_URL=http://127.0.0.1:$ha_port
    PYTHONPATH=$root/scripts${PYTHONPATH:+:$PYTHONPATH} python -m "ha.${ha_casa:-household}" "$HOMERL_HA_URL" "$ha_home/token"
    HA_TOKEN=$(cat "$ha_home/token")
    export HA_TOKEN
}

ha_stop() {
    kill -- "-$ha_pid" 2>/dev/null && wait "$ha_pid" 2>/dev/null  # the guard's group
    rm -f "$ha_home/token"
}
