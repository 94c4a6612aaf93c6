"""Charts as inline SVG.

Invariants:
- Charts are pure functions of their figures, so equal data give equal bytes.
- All text is escaped.
- Colours are CSS classes, so that a page's light and dark mode apply.
- A chart without data is empty. matplotlib's SVG would hold text as outlines and fixed colours, in 50 times the bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, linear_regression

from markupsafe import Markup, escape

Point = tuple[float, float]
Axis = Callable[[float], float]  # from a value to its place in the picture
WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 42, 350, 10, 174
BINS, ROWS = 48, 8  # of heat maps, at most
MOST = 400  # points of a curve


def svg_element(name: str, *children: object, **attributes: object) -> Markup:
    """An element; children and attributes are escaped. `class_` becomes `class`, `stroke_width` becomes `stroke-width`."""
    named = {key.rstrip("_").replace("_", "-"): _short(value) for key, value in attributes.items()}
    said = "".join(f' {key}="{escape(value)}"' for key, value in named.items())
    return Markup(f"<{name}{said}>{''.join(escape(child) for child in children)}</{name}>")


def line_chart(label: str, points: Sequence[Point], percent: bool = False, other: Sequence[Point] = ()) -> Markup:
    """One curve above zero: faint as measured, strong as its trend. With `percent` the axis goes from 0 to 1.

    A curve of another run, `other`, is drawn in the same axes, in another colour.
    """
    curves = [thin_points(some) for some in (points, other) if len(some) > 1]
    if not curves:
        return Markup("")
    ys = [y for some in curves for _, y in some]
    first, last = min(some[0][0] for some in curves), max(some[-1][0] for some in curves)
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if percent else nice_ticks(min(0.0, *ys), max(0.0, *ys))
    x, y = _scale(first, last, LEFT, RIGHT), _scale(ticks[0], ticks[-1], BOTTOM, TOP)
    lines = []
    for some, kind in ((points, "curve"), (other, "curve other")):
        if len(some) > 1:
            lines += _curve(thin_points(some), x, y, (ticks[0], ticks[-1]), kind)
    return _picture(label, *_axes(ticks, y, percent), *_steps(first, last, x), *lines)


def _curve(points: Sequence[Point], x: Axis, y: Axis, ends: Point, kind: str) -> list[Markup]:
    """A curve as measured, and its trend within the ends of the axis."""
    values = [value for _, value in points]
    smooth = [min(max(value, ends[0]), ends[1]) for value in local_trend(values, len(values) // 10)]
    return [
        svg_element("path", d=_path((x(a), y(b)) for a, b in points), class_=kind.replace("curve", "raw")),
        svg_element("path", d=_path((x(a), y(b)) for (a, _), b in zip(points, smooth, strict=True)), class_=kind),
    ]


def stacked_area(label: str, steps: Sequence[float], shares: Mapping[str, Sequence[float]]) -> Markup:
    """Shares that sum to 1, stacked in the given order; the CSS class of each area is its name."""
    if len(steps) < 2:
        return Markup("")
    x, y = _scale(steps[0], steps[-1], LEFT, RIGHT), _scale(0.0, 1.0, BOTTOM, TOP)
    curves = {name: thin_points(list(zip(steps, values, strict=True))) for name, values in shares.items()}
    steps = [step for step, _ in next(iter(curves.values()))]
    floor, areas = [0.0] * len(steps), []
    for name, points in curves.items():
        smooth = running_mean([value for _, value in points], len(steps) // 24)
        top = [low + value for low, value in zip(floor, smooth, strict=True)]
        there, back = zip(steps, top, strict=True), zip(reversed(steps), reversed(floor), strict=True)
        edge = _path((x(a), y(b)) for a, b in (*there, *back))
        areas.append(svg_element("path", svg_element("title", name), d=edge + "Z", class_=f"area {name}"))
        floor = top
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    return _picture(label, *_axes(ticks, y, percent=True), *areas, *_steps(steps[0], steps[-1], x))


def heat_map(label: str, curves: Mapping[int, Sequence[Point]]) -> Markup:
    """One row for each step index (the first on top), updates to the right.

    The colour shows the sign and the opacity the magnitude; a note gives the scale.
    """
    curves = {index: points for index, points in list(curves.items())[:ROWS] if points}
    times = sorted({step for points in curves.values() for step, _ in points})
    if len(times) < 2:
        return Markup("")
    count = min(BINS, len(times))
    column_of = _scale(times[0], times[-1], 0, count)
    rows = {index: _binned(points, column_of, count) for index, points in curves.items()}
    most = max(abs(value) for row in rows.values() for value in row.values()) or 1.0
    high, wide = min(26.0, (BOTTOM - TOP) / len(rows)), (RIGHT - LEFT) / count
    drawn: list[Markup] = []
    for top, (index, row) in zip(itertools.count(TOP, high), rows.items(), strict=False):
        drawn.append(_text(LEFT - 6, top + high / 2 + 4, str(index + 1), "end"))
        for column, value in row.items():
            hover = svg_element("title", f"step {index + 1}: {value:.3g}")
            place = {"x": LEFT + wide * column, "y": top, "width": wide + 0.3, "height": high - 1}
            hue = "negative" if value < 0 else "positive"
            drawn.append(svg_element("rect", hover, **place, opacity=f"{abs(value) / most:.2f}", class_=hue))
    bottom = TOP + high * len(rows)
    steps = _steps(times[0], times[-1], _scale(times[0], times[-1], LEFT, RIGHT), bottom)
    scale = _text(RIGHT, bottom + 34, f"full colour: {most:.3g}", "end")
    return _picture(label, *drawn, *steps, scale, height=bottom + 40)


def histogram_chart(label: str, values: Sequence[float], bins: int = 10) -> Markup:
    """Counts of values in [0, 1], in equal bins; the last bin includes 1.0."""
    if not values:
        return Markup("")
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(value * bins + 1e-9))] += 1
    ticks = nice_ticks(0.0, max(counts))
    x, y = _scale(0.0, 1.0, LEFT, RIGHT), _scale(ticks[0], ticks[-1], BOTTOM, TOP)
    bars = []
    for i, n in enumerate(counts):
        hover = svg_element("title", f"{i / bins:.1f} to {(i + 1) / bins:.1f}: {n}")
        place = {"x": x(i / bins) + 1, "y": y(n), "width": x(1 / bins) - x(0) - 2, "height": BOTTOM - y(n)}
        bars.append(svg_element("rect", hover, **place, class_="bar"))
    edges = [_text(x(share), BOTTOM + 16, f"{100 * share:.0f} %") for share in (0, 0.25, 0.5, 0.75, 1)]
    return _picture(label, *_axes(ticks, y, percent=False), *bars, *edges)


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


def with_minus_sign(number: str) -> str:
    """A printed number whose sign is a minus, which is as wide as a plus."""
    return number.replace("-", "\N{MINUS SIGN}", 1) if number.startswith("-") else number


def nice_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Evenly spaced round numbers that enclose [low, high]."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
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
    fitted = []
    for i in range(len(values)):
        near = range(max(0, i - reach), min(len(values), i + reach + 1))
        slope = 0.0 if len(near) < 3 else linear_regression(near, [values[j] for j in near]).slope
        fitted.append(fmean(values[j] for j in near) + slope * (i - fmean(near)))
    return fitted


def running_mean(values: Sequence[float], reach: int) -> list[float]:
    """The mean of the values within `reach` of each; shares that sum to 1 still do."""
    return [fmean(values[max(0, i - reach) : i + reach + 1]) for i in range(len(values))]


def _binned(points: Sequence[Point], column_of: Axis, count: int) -> dict[int, float]:
    """The mean value in each of `count` columns."""
    found: dict[int, list[float]] = {}
    for step, value in points:
        found.setdefault(min(count - 1, int(column_of(step))), []).append(value)
    return {column: sum(values) / len(values) for column, values in found.items()}


def _scale(low: float, high: float, start: float, end: float) -> Axis:
    """The linear map of [low, high] to [start, end]."""
    return lambda value: start + (end - start) * (value - low) / ((high - low) or 1.0)


def _picture(label: str, *parts: Markup, height: float = HEIGHT) -> Markup:
    return svg_element("svg", *parts, viewBox=f"0 0 {WIDTH} {_short(height)}", role="img", aria_label=label)


def _axes(ticks: Sequence[float], y: Axis, percent: bool) -> Iterable[Markup]:
    for tick in ticks:
        yield svg_element("line", x1=LEFT, x2=RIGHT, y1=y(tick), y2=y(tick), class_="grid")
        yield _text(LEFT - 6, y(tick) + 4, f"{100 * tick:.0f} %" if percent else _compact(tick), "end")


def _steps(first: float, last: float, x: Axis, bottom: float = BOTTOM) -> Iterable[Markup]:
    """Round step numbers under the plot, integers only."""
    inner = [tick for tick in nice_ticks(first, last) if first <= tick <= last and tick == int(tick)]
    for tick in inner:
        yield _text(x(tick), bottom + 16, _compact(tick), "end" if x(tick) > RIGHT - 10 else "middle")


def _text(x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    return svg_element("text", text, x=x, y=y, text_anchor=anchor)


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)


def _compact(value: float) -> str:
    return with_minus_sign(f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{round(value, 10):g}")


def _short(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
