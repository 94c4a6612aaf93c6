"""A suite played against an endpoint that answers at once, in another process: episodes a second, CPU and memory.

Run with: scripts/bench_throughput. The endpoint makes one query, then says that it is done, every turn: what is measured
is the runner (dialogue, HTTP, home, scoring, journal), not a model.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from scripted_server import ScriptedServer

QUERY = {"type": "function", "function": {"name": "query_device", "arguments": '{"did": "no such device"}'}}


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """A query after the user's words, words after the answer to it."""
    return {"content": "", "tool_calls": [QUERY]} if request["messages"][-1]["role"] == "user" else {"content": "Done."}


def serve(pipe: Any) -> None:
    """The endpoint, until the pipe is closed."""
    with ScriptedServer(answer=answer, keep=False) as server:
        pipe.send(server.url)
        pipe.recv()
        pipe.send(sum(server.served.values()))


def watch(process: subprocess.Popen, seen: list[tuple[float, float]]) -> None:
    """Resident MiB and CPU seconds of the runner, once a second."""
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        try:
            stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        seen.append((int(stat[21]) * page / 2**20, (int(stat[11]) + int(stat[12])) / tick))
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", default="smh-bench")
    parser.add_argument("--runs", default="10")
    parser.add_argument("--at-once", default="64")
    asked = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url, seen = ours.recv(), []
    with tempfile.TemporaryDirectory() as out:
        options = ["--runs", asked.runs, "--at-once", asked.at_once, "--out", out]
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "homerl", "bench", "run", asked.suite, "--model", url, *options],
            stdout=subprocess.DEVNULL,
        )
        watcher = threading.Thread(target=watch, args=(process, seen))
        watcher.start()
        process.wait()
        wall = time.perf_counter() - start
        watcher.join()
        score = json.loads((Path(out) / "score.json").read_text())
    ours.send(None)
    requests, episodes = ours.recv(), sum(score["outcomes"].values())
    memory = [rss for rss, _ in seen]
    print(f"{episodes} episodes of {requests / episodes:.1f} requests in {wall:.0f} s: {episodes / wall:.1f} a second")
    print(f"runner: {1000 * seen[-1][1] / episodes:.1f} ms of CPU an episode, report included")
    parts = [memory[len(memory) * share // 10 - 1] for share in (3, 6, 9)]
    print("resident: " + ", ".join(f"{rss:.0f} MiB" for rss in parts) + " after 30, 60 and 90 % of the time")


if __name__ == "__main__":
    main()
