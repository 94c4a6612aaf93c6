"""The notebooks run as they stand, hold no outputs, and link to what there is."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_SECONDS = 7200  # of a cell: two minutes on an idle machine, and far more where ten processes wait for each core


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {"quickstart", "own_device_and_reward"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    """Else a change of a figure, a time or a path would be a change of the file."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert all(cell["metadata"] == {} for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose)
    assert links
    missing = [link for link in links if not re.match(r"\w+:", link) and not (path.parent / link).is_file()]
    assert not missing, f"{path.name} links to {missing}"


@pytest.mark.long
@pytest.mark.timeout(2 * MOST_SECONDS)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_a_fresh_kernel(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # there the notebook makes its folder
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=MOST_SECONDS, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # a cell that fails, or a command in one, is an error
    for seconds, source in sorted(map(seconds_of_cell, notebook.cells), reverse=True)[:5]:
        print(f"{seconds:6.1f} s  {source}")
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output for output in shown if "iframe" in output.get("data", {}).get("text/html", "")]
    assert len(pages) == notebook_pages(path), "not every page of the notebook was shown"


def seconds_of_cell(cell: dict[str, Any]) -> tuple[float, str]:
    """How long a cell ran, and its first line; 0 for prose."""
    times = cell["metadata"].get("execution", {})
    begun, done = (times.get(f"iopub.status.{state}", "1970-01-01T00:00:00") for state in ("busy", "idle"))
    took = datetime.fromisoformat(done) - datetime.fromisoformat(begun)
    return took.total_seconds(), cell["source"].partition("\n")[0]


def notebook_pages(path: Path) -> int:
    """The number of pages that a notebook shows."""
    return len(re.findall(r"^ *\"show_page\(", path.read_text("utf-8"), re.M))
