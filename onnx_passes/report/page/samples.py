"""The parts of the page of a data set run: errors, classes, and the worst samples."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.exact_sums import STEPS, upper_edge
from onnx_passes.data.measures import MOST_CLASSES
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.page.charts import BarRow, scaled

_CELL, _MARGIN, _SMALL_CELL = 34, 22, 8
_NAMED = 16
"""Classes up to which the rows and columns of a matrix have names and numbers."""

_DIGITS = 5
_LARGEST_IMAGE = 1024
_MOST_BARS = 40


def errors(output: PlainMapping) -> Sequence[BarRow]:
    """Return the distribution of absolute errors of an output, a bar for each power of two.

    Args:
        output: What was counted of it, with a histogram by power of two.
    """
    histogram = output["histogram"]
    counts: dict[int, int] = {}
    for place, count in histogram["bins"].items():
        power = int(place) // STEPS
        counts[power] = counts.get(power, 0) + count
    if not counts:
        return []
    rows = [BarRow("0", f"{histogram['zeros']:,}", [[(histogram["zeros"], "second")]])]
    for power in sorted(counts)[-_MOST_BARS:]:
        edge = upper_edge(power * STEPS + STEPS - 1)
        count = counts[power]
        rows.append(BarRow(f"to {edge:.2g}", f"{count:,}", [[(count, "first")]]))
    return scaled(rows)


def matrix(title: str, classes: PlainMapping, name: str) -> PlainDict | None:
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
    caption = f"A row for each class of the {title.split()[0].lower()}"
    caption += "; the last is not a class" if shown > count else ""
    squares = [
        _square(divmod(place, width), n, totals[place // width], count, cell, margin)
        for place, n in cells
    ]
    axis = [
        ("-" if place == count else str(place), margin + cell * place + cell // 2)
        for place in range(shown if margin else 0)
    ]
    return {
        "title": title,
        "caption": caption,
        "side": margin + cell * shown,
        "cell": cell,
        "margin": margin,
        "squares": squares,
        "axis": axis,
    }


def _square(
    where: tuple[int, int], number: int, total: int, count: int, cell: int, margin: int
) -> PlainDict:
    """Return a cell of a matrix; a number is written where there is room."""
    row, column = where
    share = number / total
    text = f"{number:,}"
    return {
        "x": margin + cell * column,
        "y": margin + cell * row,
        "style": "first" if row == column else "off",
        "opacity": f"{0.2 + 0.8 * share:.3f}",
        "told": f"{_class(row, count)}, {_class(column, count)}: {text}",
        "text": text if margin and len(text) <= _DIGITS else "",
        "strong": row == column and share > 0.5,
    }


def per_class(classes: PlainMapping, *, alone: bool) -> list[list[str]]:
    """Return how many rows of each class are right.

    Args:
        classes: Counts by label, for both sides.
        alone: Whether there is one side only.
    """
    if not classes["labelled"]:
        return []
    left, right = (_hits(classes, side) for side in ("left", "right"))
    return [
        [
            str(label),
            f"{right[label][1]:,}",
            "" if alone else _share(*left[label]),
            _share(*right[label]),
        ]
        for label in range(classes["classes"])
        if right[label][1]
    ]


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


def values_of(feeds: Mapping[str, Array]) -> list[PlainDict]:
    """Return what a sample feeds a model; what looks like an image is a PNG in base64.

    Args:
        feeds: Arrays of any shape and type by name of an input.
    """
    return [_value(name, value) for name, value in feeds.items()]


def _value(name: str, value: Array) -> PlainDict:
    picture = as_image(value)
    kind = f"{value.dtype}[{','.join(map(str, value.shape))}]"
    png = None if picture is None else base64.b64encode(encode(picture)).decode()
    return {"name": name, "kind": kind, "png": png}


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


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUECOLOUR = 2


def encode(image: Array) -> bytes:
    """Return a picture as a PNG file.

    Args:
        image: uint8 of shape [height, width, 3]: red, green, blue.
    """
    height, width, _ = image.shape
    # Each line begins with the number of its filter, 0 for none.
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _TRUECOLOUR, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
