"""The server of the environment. The variable HOMERL_TASKS names a suite, a recipe or a world."""

import os
import sys

import uvicorn

from homerl.tasks.load_tasks import load_splits
from homerl.tasks.openenv.server import build_task_app

app = build_task_app(
    load_splits(os.environ.get("HOMERL_TASKS", "smarthome-bench")), int(os.environ.get("HOMERL_SESSIONS", "256"))
)


def main(host: str = "0.0.0.0", port: int = 8000) -> None:
    """Serve until the process is stopped. Who reaches the port can play: keep it within your cluster."""
    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    main(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
