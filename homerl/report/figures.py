"""What reports show of figures: estimates with their intervals, tables, and charts as inline SVG.

A table is described once (`FigureTable`). It is drawn from this in the terminal, on a page, in Markdown and as CSV.

Invariants:
- Tables and charts are pure functions of their figures, so equal data give equal bytes.
- All text is escaped.
- Colours are CSS classes, so that a page's light and dark mode apply.
- A chart without data is empty. matplotlib's SVG would hold text as outlines and fixed colours, in 50 times the bytes.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression
from typing import Any

from markupsafe import Markup, escape
from rich.table import Table
from rich.text import Text

from homerl.play.metrics.contract import format_percent

Point = tuple[float, float]
Axis = Callable[[float], float]  # from a value to its place in the picture
WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 42, 350, 10, 174
BINS, ROWS = 48, 8  # of heat maps, at most
MOST = 400  # points of a curve


def with_minus_sign(number: str) -> str:
    """A printed number whose sign is a minus, which is as wide as a plus."""
    return number.replace("-", "\N{MINUS SIGN}", 1) if number.startswith("-") else number


def format_signed(value: float) -> str:
    """A number of two digits with its sign, such as a reward."""
    return with_minus_sign(f"{value:+.2f}")


def format_points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return with_minus_sign(f"{100 * share:+.1f}")


@dataclass(frozen=True)
class Estimate:
    """A share of successes over `n` tasks, or a gain (a difference of two shares), with its 95 % interval."""

    value: float
    interval: tuple[float, float] | None
    n: int = 0
    is_gain: bool = False

    @classmethod
    def of_score(cls, score: Mapping[str, Any]) -> Estimate:
        """The success in a score, or in a part of one. The success of a family has no interval."""
        return cls(score["success"], score.get("interval"), score.get("n", 0))

    @classmethod
    def of_gain(cls, gain: Mapping[str, Any]) -> Estimate:
        """The gain that `paired_difference` computes."""
        low, high = gain["interval"]
        return cls(gain["gain"], (low, high), gain["n"], is_gain=True)

    def __str__(self) -> str:
        """`71.2 %`, or `+3.5` for a gain in points."""
        return format_points(self.value) if self.is_gain else format_percent(self.value)

    def bounds_text(self, between: str = " to ") -> str:
        """`67.4 to 75.0`, in percent or points; empty without an interval."""
        write = format_points if self.is_gain else lambda share: f"{100 * share:.1f}"
        return between.join(map(write, self.interval or ()))

    def to_html(self, kind: str, name: str = "", note: str = "") -> Markup:
        """The share with its interval and its bar, whose colour is that of the CSS class `kind`."""
        low, high = self.interval or (self.value, self.value)
        bar = interval_bar(f"{name}success {self}", low, self.value, high, kind)
        return Markup("<b>{}</b> <span>{}{}</span>\n{}").format(str(self), self.bounds_text(), note, bar)


@dataclass(frozen=True)
class FigureColumn:
    """A column of a table.

    Args:
        heading: The heading in the terminal, on pages and in Markdown; None for a column of files alone.
        key: The heading in files; empty for a column that files leave out. Estimates have the keys `low` and `high`, too.
        write: Writes a value as text.
        html: Writes a value on a page, where that differs from `write`.
        html_heading: The heading on a page, where that differs.
        interval_heading: The heading of a column of the estimates' intervals, which follows this one in the terminal.
        right: Whether values stand to the right, as figures do.
        is_name: Whether a page takes the value for the heading of its row.
    """

    heading: str | None
    key: str = ""
    write: Callable[[Any], str | Text] = str
    html: Callable[[Any], str | Markup] | None = None
    html_heading: str | Markup | None = None
    interval_heading: str = ""
    right: bool = True
    is_name: bool = False


@dataclass(frozen=True)
class FigureTable:
    """A table of figures. A row has a value for each column, or None.

    The terminal draws a rule between `sections`. The row whose first value is `strong` stands out.

    Example:
        columns = FigureColumn("suite", right=False), FigureColumn("success", "success", interval_heading="95 %")
        table = FigureTable(columns, [[("heldout", Estimate(0.5, (0.4, 0.6), 100))]])
        console.print(table.to_rich(title="scores"))
    """

    columns: tuple[FigureColumn, ...]
    sections: Sequence[Sequence[Sequence[Any]]]
    strong: Any = None

    def _shown_cells(self) -> Iterator[tuple[bool, list[tuple[FigureColumn, Any]]]]:
        """(whether the row stands out, its columns and values) of each row, without the columns of files."""
        for row in itertools.chain(*self.sections):
            cells = [(column, value) for column, value in zip(self.columns, row, strict=True) if column.heading is not None]
            yield self.strong is not None and row[0] == self.strong, cells

    def to_rich(self, **settings: Any) -> Table:
        """The table for the terminal; `settings` are those of rich."""
        table = Table(**settings)
        for column in self.columns:
            for heading in (column.heading, column.interval_heading or None):
                if heading is not None:
                    table.add_column(Text(heading), justify="right" if column.right else "left", overflow="fold")
        ends = set(itertools.accumulate(map(len, self.sections)))
        for number, (strong, cells) in enumerate(self._shown_cells(), 1):
            shown: list[str | Text] = []
            for column, value in cells:
                # A `Text` has styles of its own.
                shown.append("" if value is None else value if isinstance(value, Text) else column.write(value))
                if column.interval_heading:
                    shown.append(value.bounds_text() if isinstance(value, Estimate) else "")
            # As `Text`, since rich reads brackets in a string as markup.
            texts = (Text(cell) if isinstance(cell, str) else cell for cell in shown)
            table.add_row(*texts, style="bold" if strong else "", end_section=number in ends)
        return table

    def to_html(self) -> Markup:
        """Head and body of the table for a page."""

        def cell(name: str, text: object, column: FigureColumn) -> Markup:
            return svg_element(name, text, class_="n") if column.right else svg_element(name, text)

        shown = [column for column in self.columns if column.heading is not None]
        heads = [cell("th", column.html_heading or column.heading, column) for column in shown]
        body = Markup("")
        for strong, cells in self._shown_cells():
            row = []
            for column, value in cells:
                text = "" if value is None else (column.html or column.write)(value)
                row.append(cell("th" if column.is_name else "td", text, column))
            body += (svg_element("tr", *row, class_="ours") if strong else svg_element("tr", *row)) + Markup("\n")
        return Markup("<thead>{}</thead>\n<tbody>{}</tbody>").format(svg_element("tr", *heads), body)

    def to_markdown(self) -> str:
        """The table for a card."""
        rules = ["---:" if column.right else "---" for column in self.columns]
        rows = [
            ["" if value is None else str(column.write(value)) for column, value in cells]
            for _, cells in self._shown_cells()
        ]
        headings = [column.heading or "" for column in self.columns]
        return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rules, *rows))

    @property
    def file_keys(self) -> list[str]:
        """The headings in files."""
        keys = ([column.key, "low", "high"] if column.interval_heading else [column.key] for column in self.columns)
        return [key for names in keys if names[0] for key in names]

    def file_rows(self) -> Iterator[list[Any]]:
        """The rows in files, of plain values; an estimate is three numbers."""
        for row in itertools.chain(*self.sections):
            cells = [value for column, value in zip(self.columns, row, strict=True) if column.key]
            parts = ((cell.value, *(cell.interval or ())) if isinstance(cell, Estimate) else (cell,) for cell in cells)
            yield list(itertools.chain(*parts))

    def to_csv(self) -> str:
        """The table as CSV, with six decimals of each share."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.file_keys)
        writer.writerows([f"{cell:.6f}" if isinstance(cell, float) else cell for cell in row] for row in self.file_rows())
        return text.getvalue()


# Charts


def svg_element(name: str, *children: object, **attributes: object) -> Markup:
    """An element; children and attributes are escaped. `class_` becomes `class`, `stroke_width` becomes `stroke-width`."""
    named = {key.rstrip("_").replace("_", "-"): _short_number(value) for key, value in attributes.items()}
    said = "".join(f' {key}="{escape(value)}"' for key, value in named.items())
    return Markup(f"<{name}{said}>{''.join(escape(child) for child in children)}</{name}>")


def line_chart(label: str, points: Sequence[Point], percent: bool = False, other: Sequence[Point] = ()) -> Markup:
    """One curve above zero: faint as measured, strong as its trend. With `percent` the axis goes from 0 to 1.

    A curve of another run, `other`, is drawn in the same axes, in another colour.
    """
    curves = {"": thin_points(points), " other": thin_points(other)}
    curves = {kind: curve for kind, curve in curves.items() if len(curve) > 1}
    if not curves:
        return Markup("")
    ys = [y for curve in curves.values() for _, y in curve]
    first, last = min(curve[0][0] for curve in curves.values()), max(curve[-1][0] for curve in curves.values())
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if percent else nice_ticks(min(0.0, *ys), max(0.0, *ys))
    x, y = _linear_scale(first, last, LEFT, RIGHT), _linear_scale(ticks[0], ticks[-1], BOTTOM, TOP)
    lines = []
    for kind, curve in curves.items():
        trend = local_trend([value for _, value in curve], len(curve) // 10)
        smooth = [y(min(max(value, ticks[0]), ticks[-1])) for value in trend]  # a trend may leave the axis
        lines.append(svg_element("path", d=_svg_path((x(a), y(b)) for a, b in curve), class_=f"raw{kind}"))
        path = _svg_path(zip((x(a) for a, _ in curve), smooth, strict=True))
        lines.append(svg_element("path", d=path, class_=f"curve{kind}"))
    return _svg_picture(label, *_axis_lines(ticks, y, percent), *_step_labels(first, last, x), *lines)


def stacked_area(label: str, steps: Sequence[float], shares: Mapping[str, Sequence[float]]) -> Markup:
    """Shares that sum to 1, stacked in the given order; the CSS class of each area is its name."""
    if len(steps) < 2:
        return Markup("")
    x, y = _linear_scale(steps[0], steps[-1], LEFT, RIGHT), _linear_scale(0.0, 1.0, BOTTOM, TOP)
    curves = {name: thin_points(list(zip(steps, values, strict=True))) for name, values in shares.items()}
    steps = [step for step, _ in next(iter(curves.values()))]
    floor, areas = [0.0] * len(steps), []
    for name, points in curves.items():
        values, reach = [value for _, value in points], len(steps) // 24
        # Running means: shares that sum to 1 still do.
        smooth = [fmean(values[max(0, i - reach) : i + reach + 1]) for i in range(len(values))]
        top = [low + value for low, value in zip(floor, smooth, strict=True)]
        there, back = zip(steps, top, strict=True), zip(reversed(steps), reversed(floor), strict=True)
        edge = _svg_path((x(a), y(b)) for a, b in (*there, *back))
        areas.append(svg_element("path", svg_element("title", name), d=edge + "Z", class_=f"area {name}"))
        floor = top
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    return _svg_picture(label, *_axis_lines(ticks, y, percent=True), *areas, *_step_labels(steps[0], steps[-1], x))


def heat_map(label: str, curves: Mapping[int, Sequence[Point]]) -> Markup:
    """One row for each step index (the first on top), updates to the right.

    The colour shows the sign and the opacity the magnitude; a note gives the scale.
    """
    curves = {index: points for index, points in list(curves.items())[:ROWS] if points}
    times = sorted({step for points in curves.values() for step, _ in points})
    if len(times) < 2:
        return Markup("")
    count = min(BINS, len(times))
    column_of = _linear_scale(times[0], times[-1], 0, count)
    rows: dict[int, dict[int, float]] = {}  # the mean value of each column, by step index
    for index, points in curves.items():
        found: dict[int, list[float]] = {}
        for step, value in points:
            found.setdefault(min(count - 1, int(column_of(step))), []).append(value)
        rows[index] = {column: sum(values) / len(values) for column, values in found.items()}
    most = max(abs(value) for row in rows.values() for value in row.values()) or 1.0
    high, wide = min(26.0, (BOTTOM - TOP) / len(rows)), (RIGHT - LEFT) / count
    drawn: list[Markup] = []
    for top, (index, row) in zip(itertools.count(TOP, high), rows.items(), strict=False):
        drawn.append(_svg_text(LEFT - 6, top + high / 2 + 4, str(index + 1), "end"))
        for column, value in row.items():
            hover = svg_element("title", f"step {index + 1}: {value:.3g}")
            # Cells overlap by 0.3, since browsers would show hairlines between them.
            place = {"x": LEFT + wide * column, "y": top, "width": wide + 0.3, "height": high - 1}
            hue = "negative" if value < 0 else "positive"
            drawn.append(svg_element("rect", hover, **place, opacity=f"{abs(value) / most:.2f}", class_=hue))
    bottom = TOP + high * len(rows)
    steps = _step_labels(times[0], times[-1], _linear_scale(times[0], times[-1], LEFT, RIGHT), bottom)
    scale = _svg_text(RIGHT, bottom + 34, f"full colour: {most:.3g}", "end")
    return _svg_picture(label, *drawn, *steps, scale, height=bottom + 40)


def histogram_chart(label: str, values: Sequence[float], bins: int = 10) -> Markup:
    """Counts of values in [0, 1], in equal bins; the last bin includes 1.0."""
    if not values:
        return Markup("")
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(value * bins + 1e-9))] += 1  # 1 - 4 / 5 is a little below 0.2, and belongs to its bin
    ticks = nice_ticks(0.0, max(counts))
    x, y = _linear_scale(0.0, 1.0, LEFT, RIGHT), _linear_scale(ticks[0], ticks[-1], BOTTOM, TOP)
    bars = []
    for i, n in enumerate(counts):
        hover = svg_element("title", f"{i / bins:.1f} to {(i + 1) / bins:.1f}: {n}")
        place = {"x": x(i / bins) + 1, "y": y(n), "width": x(1 / bins) - x(0) - 2, "height": BOTTOM - y(n)}
        bars.append(svg_element("rect", hover, **place, class_="bar"))
    edges = [_svg_text(x(share), BOTTOM + 16, f"{100 * share:.0f} %") for share in (0, 0.25, 0.5, 0.75, 1)]
    return _svg_picture(label, *_axis_lines(ticks, y, percent=False), *bars, *edges)


def interval_bar(label: str, low: float, value: float, high: float, kind: str) -> Markup:
    """A bar from 0 to `value` with a whisker from `low` to `high`; all are shares, the full width is 1."""

    def at(share: float) -> str:
        return f"{100 * share:.2f}%"

    return svg_element(
        "svg",
        svg_element("rect", x=0, y=4, width="100%", height=6, rx=3, class_="track"),
        svg_element("rect", x=0, y=4, width=at(value), height=6, rx=3, class_=f"value {kind}"),
        svg_element("line", x1=at(low), x2=at(high), y1=7, y2=7, class_="whisker"),
        *(svg_element("line", x1=at(end), x2=at(end), y1=2, y2=12, class_="whisker") for end in (low, high)),
        class_="interval",
        height=14,
        role="img",
        aria_label=label,
    )


def nice_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Evenly spaced round numbers that enclose [low, high]."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
    # 0.999 leaves room for rounding, which may put a step just below what is wanted.
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= span / about * 0.999)
    first, count = math.floor(low / step), math.ceil(high / step - 1e-9) - math.floor(low / step)
    return [step * (first + i) for i in range(max(1, count) + 1)]


def thin_points(points: Sequence[Point], most: int = MOST) -> Sequence[Point]:
    """At most `most` points: the first, then means of equally many, so that the page of a long run stays small."""
    size = math.ceil((len(points) - 1) / (most - 1))
    if size <= 1:
        return points
    groups = [points[i : i + size] for i in range(1, len(points), size)]
    return [points[0], *((group[-1][0], fmean(value for _, value in group)) for group in groups)]


def local_trend(values: Sequence[float], reach: int) -> list[float]:
    """At each value, the straight line fitted to the values within `reach`; it does not lag at the ends."""
    fitted = []  # local linear regression without weights; a running mean would pull the ends towards the middle
    for i in range(len(values)):
        near = range(max(0, i - reach), min(len(values), i + reach + 1))
        slope = 0.0 if len(near) < 3 else linear_regression(near, [values[j] for j in near]).slope
        fitted.append(fmean(values[j] for j in near) + slope * (i - fmean(near)))
    return fitted


def _linear_scale(low: float, high: float, start: float, end: float) -> Axis:
    """The linear map of [low, high] to [start, end]."""
    return lambda value: start + (end - start) * (value - low) / ((high - low) or 1.0)


def _svg_picture(label: str, *parts: Markup, height: float = HEIGHT) -> Markup:
    return svg_element("svg", *parts, viewBox=f"0 0 {WIDTH} {_short_number(height)}", role="img", aria_label=label)


def _axis_lines(ticks: Sequence[float], y: Axis, percent: bool) -> Iterable[Markup]:
    for tick in ticks:
        yield svg_element("line", x1=LEFT, x2=RIGHT, y1=y(tick), y2=y(tick), class_="grid")
        yield _svg_text(LEFT - 6, y(tick) + 4, f"{100 * tick:.0f} %" if percent else _compact_number(tick), "end")


def _step_labels(first: float, last: float, x: Axis, bottom: float = BOTTOM) -> Iterable[Markup]:
    """Round step numbers under the plot, integers only."""
    inner = [tick for tick in nice_ticks(first, last) if first <= tick <= last and tick == int(tick)]
    for tick in inner:
        yield _svg_text(x(tick), bottom + 16, _compact_number(tick), "end" if x(tick) > RIGHT - 10 else "middle")


def _svg_text(x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    return svg_element("text", text, x=x, y=y, text_anchor=anchor)


def _svg_path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{_short_number(x)} {_short_number(y)}" for x, y in points)


def _compact_number(value: float) -> str:
    return with_minus_sign(f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{round(value, 10):g}")


def _short_number(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
