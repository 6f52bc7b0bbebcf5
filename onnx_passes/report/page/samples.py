"""The parts of the page of a data set run: errors, classes, and the worst samples."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.accumulators.classes import MOST_CLASSES
from onnx_passes.data.accumulators.histogram import STEPS, upper_edge
from onnx_passes.plain import PlainMapping
from onnx_passes.report.page.charts import Bar, bars
from onnx_passes.report.page.markup import Element, named, tag
from onnx_passes.report.page.table import table
from onnx_passes.report.plots.png import encode

_CELL, _MARGIN, _SMALL_CELL = 34, 22, 8
_NAMED = 16
"""Classes up to which the rows and columns of a matrix have names and numbers."""

_DIGITS = 5
_LARGEST_IMAGE = 1024
_MOST_BARS = 40


def errors(name: str, output: PlainMapping) -> Element | None:
    """Return the distribution of absolute errors of an output, a bar for each power of two.

    Args:
        name: Name of the output.
        output: What was counted of it, with a histogram by power of two.
    """
    histogram = output["histogram"]
    counts: dict[int, int] = {}
    for place, count in histogram["bins"].items():
        power = int(place) // STEPS
        counts[power] = counts.get(power, 0) + count
    if not counts:
        return None
    rows = [Bar("0", [(histogram["zeros"], "second")], f"{histogram['zeros']:,}")]
    for power in sorted(counts)[-_MOST_BARS:]:
        edge = upper_edge(power * STEPS + STEPS - 1)
        rows.append(Bar(f"to {edge:.2g}", [(counts[power], "first")], f"{counts[power]:,}"))
    return tag(
        "figure",
        tag("h3", "Absolute errors of ", named(name)),
        tag("p", "Elements by the size of their error", class_="caption"),
        bars(rows),
    )


def matrix(title: str, classes: PlainMapping, name: str) -> Element | None:
    """Return a table of classes by classes as squares, the denser the more rows.

    Args:
        title: What rows and columns are.
        classes: What was found of the decisions.
        name: "agreement", "left" or "right".
    """
    count = classes["classes"]
    cells = classes["tables"].get(name, [])
    if not cells or count > MOST_CLASSES:
        return None
    width = count + 1
    totals: dict[int, int] = {}
    for place, number in cells:
        totals[place // width] = totals.get(place // width, 0) + number
    cell, margin = (_CELL, _MARGIN) if count <= _NAMED else (_SMALL_CELL, 0)
    # Rows without a class, because of a NaN, come last and are rare.
    shown = width if any(count in divmod(place, width) for place, _ in cells) else count
    side = margin + cell * shown
    drawn = tag(
        "svg",
        [
            _square(divmod(place, width), n, totals[place // width], count, cell, margin)
            for place, n in cells
        ],
        [_axis(label, count, cell, margin) for label in range(shown)] if margin else None,
        width=side,
        viewBox=f"0 0 {side} {side}",
        role="img",
        aria_label=title,
        class_="matrix",
    )
    caption = f"A row for each class of the {title.split()[0].lower()}"
    caption += "; the last is not a class" if shown > count else ""
    return tag("figure", tag("h3", title), tag("p", caption, class_="caption"), drawn)


def _square(
    where: tuple[int, int], number: int, total: int, count: int, cell: int, margin: int
) -> Element:
    """Return a cell of a matrix; a number is written where there is room."""
    row, column = where
    x, y = margin + cell * column, margin + cell * row
    share = number / total
    told = f"{_class(row, count)}, {_class(column, count)}: {number:,}"
    square = tag(
        "rect",
        tag("title", told),
        class_="first" if row == column else "off",
        x=x,
        y=y,
        width=cell - 1,
        height=cell - 1,
        fill_opacity=f"{0.2 + 0.8 * share:.3f}",
    )
    text = f"{number:,}"
    if not margin or len(text) > _DIGITS:
        return square
    strong = row == column and share > 0.5
    written = tag(
        "text", text, x=x + cell // 2, y=y + cell // 2 + 4, class_="strong" if strong else None
    )
    return tag("g", square, written)


def _axis(place: int, count: int, cell: int, margin: int) -> Element:
    """Return the name of a class beside its row and above its column."""
    text, middle = "-" if place == count else str(place), margin + cell * place + cell // 2
    return tag(
        "g",
        tag("text", text, x=margin // 2, y=middle + 4),
        tag("text", text, x=middle, y=margin // 2 + 4),
        class_="axis",
    )


def per_class(classes: PlainMapping, *, alone: bool) -> Element | None:
    """Return how many rows of each class are right.

    Args:
        classes: Counts by label, for both sides.
        alone: Whether there is one side only.
    """
    if not classes["labelled"]:
        return None
    left, right = (_hits(classes, side) for side in ("left", "right"))
    rows = [
        [
            str(label),
            f"{right[label][1]:,}",
            "" if alone else _share(*left[label]),
            _share(*right[label]),
        ]
        for label in range(classes["classes"])
        if right[label][1]
    ]
    names = ["Class", "Samples", "" if alone else "Reference", "Accuracy"]
    return tag("section", tag("h2", "Classes"), table("Accuracy by class", names, rows))


def _hits(classes: PlainMapping, side: str) -> list[tuple[int, int]]:
    """Return, for each class, how many rows are right and how many there are."""
    count = classes["classes"]
    width = count + 1
    hits, totals = [0] * width, [0] * width
    for place, number in classes["tables"][side]:
        row, column = divmod(place, width)
        if count > MOST_CLASSES:
            # Not a matrix: the labels, the decisions, and those that are right.
            if row == 0:
                totals[column] += number
            elif row == 2:
                hits[column] += number
            continue
        totals[row] += number
        hits[row] += number if row == column else 0
    return list(zip(hits, totals, strict=True))


def worst(rows: Sequence[tuple[str, Mapping[str, Array]]]) -> Element | None:
    """Return the worst samples; those that look like images are shown as images.

    Args:
        rows: Names of samples, and arrays of any shape that a model is fed for each.
    """
    if not rows:
        return None
    shown = [
        tag("li", [_value(key, value) for key, value in feeds.items()], named(name))
        for name, feeds in rows
    ]
    return tag("section", tag("h2", "Worst samples"), tag("ul", shown, class_="gallery"))


def _value(name: str, value: Array) -> Element:
    picture = as_image(value)
    if picture is None:
        shape = ",".join(map(str, value.shape))
        return tag("span", named(name), f" {value.dtype}[{shape}] ")
    data = base64.b64encode(encode(picture)).decode()
    return tag(
        "img", src=f"data:image/png;base64,{data}", alt=f"input {name[:100]}", width=112
    )


def as_image(value: Array) -> Array | None:
    """Return an input as a picture, uint8 [height, width, 3]; None if it is not like one."""
    item = value[0] if value.ndim == 4 and len(value) else value
    if item.ndim != 3 or item.dtype.kind not in "fiu":
        return None
    if item.shape[0] in (1, 3):
        item = np.moveaxis(item, 0, -1)
    height, width, channels = item.shape
    if channels not in (1, 3) or min(height, width) < 4 or max(height, width) > _LARGEST_IMAGE:
        return None
    pixels = item.astype(np.float64)
    if not np.isfinite(pixels).all():
        return None
    low, high = float(pixels.min()), float(pixels.max())
    scaled = (pixels - low) * (255 / (high - low) if high > low else 0)
    return np.broadcast_to(scaled.round().astype(np.uint8), (height, width, 3))


def _class(place: int, count: int) -> str:
    return "none" if place == count else str(place)


def _share(hits: int, total: int) -> str:
    return f"{hits / total:.2%}" if total else ""
