"""A Python that starts at once: it has `preloaded.py` run homerl's commands, recipes and scripts, as if they ran here.

All else, and programs whose environment sets what is read while libraries load, get the real Python. `forked.python` puts
this file beside the sockets of that server, as a program of `python -IS`, which starts in a few milliseconds.
"""

import json
import os
import signal
import socket
import struct
import sys
import zlib

FOLDER = os.path.dirname(os.path.realpath(__file__))
with open(os.path.join(FOLDER, "settings.json")) as file:
    PYTHON, ROOT, BEFORE, OURS = json.load(file)
MODULES = ("homerl.cli", "accelerate.commands.launch", "accelerate.commands.accelerate_cli", "torch.distributed.run")


def server(words, environment):
    """Which process forks for a program, by the name of its socket; None if none does."""
    match words:
        case ["-m", module, *_]:
            known = module in MODULES
        case ["-c", code, *_]:
            known = "multiprocessing" not in code  # whose pipes would be lost
        case [first, *_]:
            known = not first.startswith("-")
        case _:
            known = False
    changed = {name for name in BEFORE.keys() | environment.keys() if BEFORE.get(name) != environment.get(name)}
    changed -= {"HF_HUB_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS"}  # no program of a test is to reach the hub
    if environment.get("PYTHONPATH") in (None, ROOT):
        changed.discard("PYTHONPATH")
    if environment.get("COLUMNS", "80") == BEFORE.get("COLUMNS", "80"):  # the width without a terminal
        changed.discard("COLUMNS")
    elsewhere = os.path.isdir("homerl") and not os.path.samefile(".", ROOT)
    if not known or elsewhere or any(name.startswith(("PYTHON", "HF_")) for name in changed):
        return None
    read = {name: environment.get(name, "") for name in sorted(changed.intersection(OURS))}
    if any(name.startswith("HOMERL_") and not value.startswith(ROOT + os.sep) for name, value in read.items()):
        return "libraries"  # files of a test's own may be others for its next program
    return f"homerl-{zlib.crc32(repr(read).encode())}" if read else "homerl"


def connected(name):
    """A connection to a server; None if there is none of this name."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(os.path.join(FOLDER, name))
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    return line


def main(words):
    """Run a program, and end as it ends."""
    environment = dict(os.environ)
    if not (name := server(words, environment)):
        os.execv(PYTHON, [PYTHON, *words])
    if not (line := connected(name) or connected("libraries")):
        os.execv(PYTHON, [PYTHON, *words])
    program = {
        "words": words, "folder": os.getcwd(), "environment": environment, "python": os.path.abspath(sys.argv[0]),
        "server": name, "read": {key: value for key, value in environment.items() if key in OURS},
    }  # fmt: skip
    text = json.dumps(program).encode()
    socket.send_fds(line, [struct.pack("!I", len(text))], [0, 1, 2])
    line.sendall(text)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: line.send(bytes([number])))
    code = int(line.recv(10) or 1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main(sys.argv[1:])
