"""`homerl chat` as people start it: a script of sentences on its input, or a terminal in which answers are stopped."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from command import homerl
from rich.console import Console
from scripted_server import Faults, ScriptedServer

from homerl.app.chat.chat_terminal import print_part
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home_file import save_home

COMMAND = [sys.executable, "-m", "homerl", "chat"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    file = tmp_path / "home.json"
    save_home(make_home(3, HomeRecipe(devices=(2, 2), categories=("light",))), file)
    return file


def test_a_script_of_sentences_is_played_in_plain_text(home: Path, tmp_path: Path) -> None:
    said = "turn on the light\n/undo\n/home\n\nturn on the light\n/save talk.jsonl\n/save talk.jsonl\n"
    said += "/nonsense\n/quit\nnever\n"
    done = subprocess.run(
        [*COMMAND, "keywords", "--home", str(home)], input=said, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout and "[bold" not in done.stdout and not re.search(r" +$", done.stdout, re.M)
    assert done.stdout.count("you: turn on the light") == 2 and "never" not in done.stdout
    assert ".turn_on()" in done.stdout and "→ ok" in done.stdout
    assert "taken back: turn on the light" in done.stdout and "there is no such command" in done.stdout
    assert "not saved: talk.jsonl" in done.stdout and (tmp_path / "talk.jsonl").is_file()
    assert homerl("reverify", tmp_path / "talk.jsonl").code == 0


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        self.pid, self.master = pty.fork()  # so that Ctrl-C reaches it, as the foreground of its terminal
        if self.pid == 0:
            os.execvpe(COMMAND[0], [*COMMAND, *arguments], environment)
        self.text = ""

    def end(self) -> int:
        """The exit code, within some seconds."""
        for _ in range(200):
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.1)
        raise AssertionError("it did not end")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.master)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def interrupt(self, text: str) -> None:
        """Press Ctrl-C until a text comes: readline misses one that arrives as it begins to wait."""
        for _ in range(20):
            self.type("\x03")
            with suppress(AssertionError):
                return self.wait_for(text, 3)
        raise AssertionError(f"'{text}' did not come: {self.text}")

    def wait_for(self, text: str, seconds: float = 180) -> None:
        until = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < until, f"'{text}' did not come: {self.text}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 4096).decode(errors="replace")
                except OSError:  # the other end is closed
                    assert text in self.text, self.text
        self.text = self.text.partition(text)[2]


def test_ctrl_c_stops_an_answer_and_the_session_goes_on(home: Path) -> None:
    with ScriptedServer(faults=Faults(stalls=1.0)) as server:
        terminal = Terminal(server.url, "--home", str(home))
        try:
            terminal.wait_for("you: ")
            terminal.interrupt("/quit leaves")
            terminal.wait_for("you: ")
            terminal.type("turn on the light\n")
            while not server.requests:
                time.sleep(0.02)
            terminal.interrupt("stopped")
            server.faults = Faults()
            terminal.wait_for("you: ")
            terminal.type("hello\n")
            terminal.wait_for("Done.")
            terminal.wait_for("you: ")
            terminal.type("\x04")
            assert terminal.end() == 0
        finally:
            terminal.kill()


# What cannot be talked with


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    (tmp_path / "run/sft/checkpoints").mkdir(parents=True)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs/none"], "there is no such run or model"),
        (["keyword"], "did you mean keywords?"),
        (["expert"], "understands no words"),
        (["EMPTY"], "there is no trained model here"),
        (["UNFINISHED"], "training has not finished"),
        (["http://127.0.0.1:9/v1"], "does not answer"),
        (["http://127.0.0.1:9/v1", "--served", "x"], "does not answer"),
        (["keywords", "--home", "none.json"], "none.json"),
        (["keywords", "--home", "EMPTY/no_home.json"], "no_home.json"),
        (["keywords", "--world", "simuhome"], "nobody can visit the world 'simuhome'"),
        (["keywords", "--world", "nowhere"], "there are no homes of 'nowhere'"),
        (["keywords", "--like", "EMPTY"], "there is no trained model here"),
    ],
)
def test_whatever_is_not_there_ends_with_one_message(arguments: list[str], words: str, tmp_path, unfinished) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "no_home.json").write_text('{"rooms": 1}')
    given = [one.replace("EMPTY", str(empty)).replace("UNFINISHED", str(unfinished)) for one in arguments]
    done = homerl("chat", *given)
    assert done.code == 2 and done.err.startswith("homerl: ") and words in done.err and not done.out


def test_a_model_that_is_not_there_is_not_served() -> None:
    done = homerl("serve", "runs/none")
    assert done.code == 2 and "there is no such run or model" in done.err


@pytest.mark.long
def test_a_talk_is_drawn_with_the_names_and_states_of_devices_whole(tmp_path: Path) -> None:
    home, file = make_home(1, HomeRecipe(devices=(8, 8), catalogue=("homeassistant",))), tmp_path / "home.json"
    save_home(home, file)
    picture, said = tmp_path / "talk.svg", f"turn on the light and {'do ' * 40}nothing else"
    words = ["keywords", "--home", str(file), "--picture", str(picture)]
    done = subprocess.run([*COMMAND, *words], input=f"{said}\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    drawn = " ".join(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text())).replace("&#160;", " ").split())
    assert all(device.name in drawn for device in home.plan.devices) and "…" not in drawn
    assert drawn.count("do do") > 10 and "nothing else" in drawn, "long lines are broken, not cut"


def test_a_long_line_goes_on_below_its_beginning() -> None:
    seen = Console(file=StringIO(), width=40, record=True)
    print_part(seen, f"    → {'much ' * 20}\n  less")
    lines = [line.rstrip() for line in seen.export_text().splitlines()]
    assert len(lines) > 3 and all(line.startswith("    ") for line in lines[:-1]) and lines[-1] == "  less"
