"""Draws learning curves of runs side by side in one SVG file, as the page of a run draws them:

python tests/benchmarks/curves.py curves.svg 'SFT: loss' runs/mine/sft/metrics.jsonl loss 'RLVE: success' ...
"""

from __future__ import annotations

import argparse
from pathlib import Path

from homerl.envs.core.documents import write_atomic
from homerl.play.trajectory import read_rows
from homerl.report.figures import HEIGHT, WIDTH, line_chart, svg_element
from homerl.report.pages.flywheel_report import metric_curve

TITLE = 30  # the height of a title
STYLE = """
text { font: 11.5px system-ui, sans-serif; fill: #59636e } .title { font-size: 14px; fill: #1c2128 }
.grid { stroke: #d8dee4 } .raw, .curve { fill: none; stroke: #0a7c86; stroke-linejoin: round }
.raw { opacity: .3 } .curve { stroke-width: 2.2 }
"""


def main() -> None:
    """Read the files of metrics, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("curves", nargs="+", help="for each: a title, a file of metrics, and the key of a metric")
    asked = parser.parse_args()
    triples = list(zip(*[iter(asked.curves)] * 3, strict=True))
    width, height = WIDTH * len(triples), HEIGHT + TITLE
    parts = [svg_element("style", STYLE), svg_element("rect", width=width, height=height, fill="#fff")]
    for at, (title, file, key) in enumerate(triples):
        chart = line_chart(title, metric_curve([*read_rows(file)], key))
        parts.append(svg_element("text", title, x=at * WIDTH + 12, y=19, class_="title"))
        parts.append(svg_element("svg", chart, x=at * WIDTH, y=TITLE, width=WIDTH, height=HEIGHT))
    svg = svg_element("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}")
    write_atomic(asked.out, f"{svg}\n")


if __name__ == "__main__":
    main()
