"""`homerl serve-agent` as a person meets it: what is wrong is one message and code 2."""

from __future__ import annotations

import socket

import pytest

from tests.homerl.homeassistant.replay import TOKEN, Replay
from tests.homerl.test_cli import homerl


@pytest.mark.parametrize(
    ("token", "reachable", "says"),
    [("", True, "HA_TOKEN holds no token"), ("wrong", True, "refused the token"), (TOKEN, False, "cannot be reached")],
)
def test_a_home_assistant_that_cannot_be_asked_is_one_message(tmp_path, token, reachable, says):
    with Replay() as home, socket.create_server(("127.0.0.1", 0)) as nobody:
        url = home.url if reachable else f"http://127.0.0.1:{nobody.getsockname()[1]}"
        nobody.close()
        command = ("serve-agent", "--model", "http://127.0.0.1:9/v1", "--ha", url, "--log", str(tmp_path / "agent.jsonl"))
        done = homerl(*command, HA_TOKEN=token)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
