"""Plays an episode with a program: it is started for each turn of the user, and is an agent by what it prints.

What a program gets: the user's sentence on standard input; `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `HOMERL_MCP_URL`, by
which it reaches the model and the world's tools; and `HOMERL_FOLDER`, a folder that it may write to and that stays for the
episode. The file `messages.json` there has the dialogue so far, as a policy sees it.

Invariants:
- Of the run's environment a program gets what a program needs to start, and what the recipe names. It gets no other keys.
- What a program prints until it ends with code 0 is what it says to the user. Another code, a turn that takes too long, and
  an output that is too long or no text are the agent's failure.
- A fault of the engine or the world counts first, whatever the program made of it.
- When a turn is over, no process that it started is left, unless it left the group of its own accord.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakKeyDictionary

from homerl.envs.core.messages import replace_surrogates, text_message
from homerl.play.episode import Episode
from homerl.play.faults import EPISODE_ERRORS, AgentFault, InfraError, fault_from_error
from homerl.play.loop import User, let_user_speak
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory
from homerl.train.agents.capture_proxy import CaptureProxy
from homerl.train.agents.captured_dialogues import CapturedDialogues
from homerl.train.agents.program_session import ProgramSession
from homerl.train.agents.program_settings import ProgramSettings

NAME = "program"  # as trajectories name the agent
MOST_OUTPUT = 100_000  # bytes that a program may print
LOOK = 0.2  # seconds between looks whether a program has ended
KEPT_ERRORS = 2_000  # bytes of its errors that are kept, the last ones
PASSED = re.compile(  # names of variables that every program gets
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|TZ|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP|XDG_\w+|PYTHON\w*|VIRTUAL_ENV|CONDA_PREFIX"
    r"|CONDA_DEFAULT_ENV|(DY)?LD_LIBRARY_PATH|CUDA_\w+|(NVIDIA|HIP|ROCR)_VISIBLE_DEVICES|(OMP|MKL|OPENBLAS)_NUM_THREADS"
    r"|(?i:https?|all|no)_(?i:proxy)|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE"
)
_running: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()  # groups share its places


async def play_program(
    episode: Episode, program: ProgramSettings, proxy: CaptureProxy, dialogues: CapturedDialogues, user: User, seed: int = 0
) -> Trajectory:
    """Play an episode from its start to its end; return the trajectory. Errors end it with a fault."""
    session = ProgramSession(episode, dialogues)
    with TemporaryDirectory(prefix="homerl_program_") as folder:
        async with proxy.open_session(session) as url:
            try:
                while session.episode.outcome is None:
                    await let_user_speak(session.episode, user)
                    if session.episode.outcome is None:
                        await _play_turn(session, program, url, Path(folder))
            except EPISODE_ERRORS as error:
                session.episode.end_with_fault(fault_from_error(error))
    return session.episode.to_trajectory(NAME, user.name, seed)


async def _play_turn(session: ProgramSession, program: ProgramSettings, url: str, folder: Path) -> None:
    """Start the program for a turn, and let it act until it has spoken."""
    messages = session.episode.observation.messages
    (folder / "messages.json").write_text(json.dumps(messages, ensure_ascii=False), encoding="utf-8")
    servers = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "homerl", "HOMERL_MCP_URL": f"{url}/mcp"}
    passed = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name) or name in program.pass_env}
    environment = {**passed, **servers, "HOMERL_FOLDER": str(folder), **program.env}
    fault: AgentFault | None = None
    session.begin_turn()
    try:
        async with _running.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(program.at_once)):
            words = await _run_until_over(program, environment, messages[-1]["content"], session.over)
    except AgentFault as error:
        fault = error
    finally:
        await session.end_turn()
    if session.failure is not None:
        raise session.failure
    if session.episode.outcome is not None:
        return
    if fault is not None:
        raise fault
    await session.episode.apply_reply_async(Reply(text_message(words), calls=()))


async def _run_until_over(program: ProgramSettings, env: Mapping[str, str], sentence: str, over: asyncio.Event) -> str:
    """Run a program and return what it printed; or nothing, if the episode was over before."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *program.command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
    except OSError as error:
        raise InfraError(f"the agent's program cannot be started: {error}") from error
    assert process.stdin and process.stdout and process.stderr
    printed = asyncio.create_task(_read_at_most(process.stdout, MOST_OUTPUT))
    errors = asyncio.create_task(_read_last(process.stderr, KEPT_ERRORS))
    ended, ends = asyncio.create_task(process.wait()), asyncio.create_task(over.wait())
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it is told
            process.stdin.write(sentence.encode() + b"\n")
            process.stdin.close()
        async with asyncio.timeout(program.seconds):
            while process.returncode is None and not ends.done():  # its end is told later where another holds its pipes
                waits = {ended, ends} if printed.done() else {ended, ends, printed}
                await asyncio.wait(waits, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
                if printed.done():
                    printed.result()
            _kill_group(process.pid)
            text, complaint = (b"", b"") if ends.done() else (await printed, await errors)
        if ends.done():
            return ""
    except TimeoutError:
        raise AgentFault(f"the program took more than {program.seconds:g} seconds for a turn") from None
    finally:
        _kill_group(process.pid)
        for task in (tasks := (printed, errors, ended, ends)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while process.returncode is None:
            await asyncio.sleep(0.01)
    if process.returncode:
        why = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing of an error"]
        raise AgentFault(f"the program ended with code {process.returncode}: {replace_surrogates(why[0])}")
    try:
        return text.decode().strip()
    except UnicodeDecodeError:
        raise AgentFault("the program printed what is no text in UTF-8") from None


def _kill_group(pid: int) -> None:
    """End a program and what it has started, where it still runs."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _read_at_most(stream: asyncio.StreamReader, most: int) -> bytes:
    """What a program prints. Raises `AgentFault` if that is more than `most` bytes."""
    read = b""
    while part := await stream.read(1 << 16):
        read += part
        if len(read) > most:
            raise AgentFault(f"the program printed more than {most} bytes")
    return read


async def _read_last(stream: asyncio.StreamReader, most: int) -> bytes:
    """The last `most` bytes of what a program writes."""
    read = b""
    while part := await stream.read(1 << 16):
        read = (read + part)[-most:]
    return read
