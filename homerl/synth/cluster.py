"""A synthesis over a Ray cluster: the same workers as on one machine, one for each CPU.

Invariants:
- A worker returns its shards in the order in which it got them, so Ray can restart it on another machine.
- Only the run that waits for the shards writes them, so the machines need no shared disk.
- Folders of plug-ins must have the same path on every machine.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from homerl.envs.core.documents import InputError
from homerl.envs.core.plugins import plugin_folder_variables
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.work import Shard, assign_shards, synthesise_shards

ROOT = Path(__file__).parents[2]
HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
ANSWER = 10.0  # seconds in which a cluster must answer
TRIES = 3  # restarts of a worker whose machine fails


def synthesise_on_ray(
    config: SynthesisConfig, todo: Sequence[range], address: str, workers: int | None = None
) -> Iterator[Shard]:
    """Yield shards as they are completed; `local` starts a cluster on this machine until the run ends.

    Raises `InputError` if Ray is missing or does not answer, and the worker's own error if a worker fails.
    """
    ray = _connected(address, workers, {settings.key for settings in config.model_endpoints.values()})
    try:
        from ray.exceptions import RayTaskError

        count = workers or int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(num_cpus=1, num_returns="streaming", max_retries=TRIES)(synthesise_shards)
        streams = [task.remote(config, part, at_once) for part, at_once in assign_shards(config, todo, count)]
        while streams:
            (stream,), _ = ray.wait(streams, num_returns=1, fetch_local=False)
            try:
                yield ray.get(next(stream))
            except StopIteration:
                streams.remove(stream)
            except RayTaskError as error:
                raise error.cause from None
    finally:
        ray.shutdown()


def check_ray_cluster(config: SynthesisConfig, address: str) -> None:
    """Raise `InputError` for what could only fail or hang later on the other machines."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    alone = address in ("local", "auto") or host in HERE
    for part, settings in config.model_endpoints.items():
        if not alone and (settings.serve or any(urlsplit(url).hostname in HERE for url in settings.urls)):
            raise InputError(
                "a model on this machine alone cannot be asked from the others",
                f"synth.{part}",
                "serve it where all of them reach it (homerl serve-user), and give its `url`",
            )
    if not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER).close()
    except OSError as error:
        raise _silent(address, error) from None


def _silent(address: str, error: Exception) -> InputError:
    return InputError(f"no Ray cluster answers at {address}: {error}", "--ray", "`ray start --head` prints one")


def _connected(address: str, workers: int | None, keys: Iterable[str]) -> Any:
    """The package ray, connected; workers import this code as installed, or from the source tree."""
    try:
        import ray
    except ImportError:
        raise InputError("the package ray is not installed", "--ray", "pip install 'homerl[ray]'") from None
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    here = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    keys = {name: os.environ[name] for name in keys if name in os.environ}  # in the cluster's memory, written to no file
    variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | plugin_folder_variables() | keys
    settings = {"runtime_env": {"env_vars": variables}, "log_to_driver": False}
    try:
        ray.init(address=address, **settings, **here)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _silent(address, error) from None
    return ray
