"""What the elements of an array are like, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import blocks, kind_of, shape_text, widen
from onnx_passes.plain import PlainDict

_BINS, _WIDTH = 10, 40
_SIGN, _ALL = 1 << 63, (1 << 64) - 1


def statistics(array: Array) -> PlainDict:
    """Return mean, std, variance, median, min and max, and the NaN and Inf counts.

    All but the counts are of the finite elements; ``None`` if there are none, or the elements
    have no order. Min and max come with their positions. The median of an even number of
    elements is the mean of the two in the middle.
    """
    kind = kind_of(array.dtype)
    found: PlainDict = {"elements": int(array.size), "nan": 0, "inf": 0}
    found |= dict.fromkeys(
        ("mean", "std", "variance", "median", "min", "min_at", "max", "max_at")
    )
    if kind in ("string", "complex", "other"):
        return found
    count, mean, squares = 0, 0.0, 0.0
    for start, (block,) in blocks(array):
        wide = widen(block)
        finite = np.isfinite(wide)
        found["nan"] += int(np.isnan(wide).sum())
        found["inf"] += int(np.isinf(wide).sum())
        kept = wide[finite]
        if not kept.size:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            own = float(kept.mean())
            step, total = own - mean, count + kept.size
            # Chan's update: sums of squares of large numbers would cancel.
            squares += (
                float(((kept - own) ** 2).sum()) + step * step * count * kept.size / total
            )
            mean += step * kept.size / total
        count = total
        for name, index in (
            ("min", np.where(finite, wide, np.inf).argmin()),
            ("max", np.where(finite, wide, -np.inf).argmax()),
        ):
            value = block[index].item() if kind != "float" else float(wide[index])
            known = found[name]
            if known is None or (value < known if name == "min" else value > known):
                found[name] = value
                where = np.unravel_index(start + int(index), array.shape)
                found[f"{name}_at"] = [int(i) for i in where]
    if count:
        found |= {"mean": mean, "std": math.sqrt(squares / count), "variance": squares / count}
        middle = [_ranked(array, rank) for rank in {(count - 1) // 2, count // 2}]
        found["median"] = sum(value / len(middle) for value in middle)
    return found


def _ranked(array: Array, rank: int) -> float:
    """Return the finite element of a rank, counted from 0 in ascending order.

    It is found 16 bits at a time, so that no more than counts are held.

    Args:
        array: Any numeric array.
        rank: Less than the number of finite elements.
    """
    found = 0
    for shift in (48, 32, 16, 0):
        counts = np.zeros(1 << 16, np.int64)
        for keys in _keys(array):
            if shift < 48:
                keys = keys[keys >> np.uint64(shift + 16) == found]
            digits = (keys >> np.uint64(shift)).astype(np.int64) & 0xFFFF
            counts += np.bincount(digits, minlength=1 << 16)
        digit = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
        rank -= int(counts[:digit].sum())
        found = found << 16 | digit
    bits = found & ~_SIGN if found & _SIGN else ~found & _ALL
    return float(np.array(bits, np.uint64).view(np.float64))


def _keys(array: Array) -> Iterator[Array]:
    """Yield unsigned numbers, uint64, in the order of the finite elements."""
    for _, (block,) in blocks(array):
        wide = widen(block)
        bits = wide[np.isfinite(wide)].view(np.uint64)
        yield np.where(bits & _SIGN, ~bits, bits | np.uint64(_SIGN))


def histogram(array: Array, bins: int = _BINS) -> list[tuple[float, float, int]]:
    """Count the finite elements in bins of equal width: low end, high end, count.

    Args:
        array: Numbers of any shape and type.
        bins: How many bins there are.
    """
    known = statistics(array)
    if known["min"] is None:
        return []
    low, high = float(known["min"]), float(known["max"])
    if low == high or not math.isfinite(high - low):
        return [(low, high, known["elements"] - known["nan"] - known["inf"])]
    counts = np.zeros(bins, np.int64)
    for _, (block,) in blocks(array):
        wide = widen(block)
        counts += np.histogram(wide[np.isfinite(wide)], bins, (low, high))[0]
    edges = np.linspace(low, high, bins + 1).tolist()
    return list(zip(edges, edges[1:], counts.tolist(), strict=False))


def statistics_text(known: PlainDict) -> str:
    """Write statistics on one line."""
    parts = [f"NaN {known['nan']}", f"Inf {known['inf']}"]
    if known["min"] is not None:
        low, high = (shape_text(tuple(known[f"{end}_at"])) for end in ("min", "max"))
        parts = [
            f"mean {known['mean']:.6g}",
            f"median {known['median']:.6g}",
            f"std {known['std']:.6g}",
            f"variance {known['variance']:.6g}",
            f"min {known['min']:.6g} at {low}",
            f"max {known['max']:.6g} at {high}",
            *parts,
        ]
    return ", ".join(parts)


def histogram_lines(rows: list[tuple[float, float, int]]) -> list[str]:
    """Draw a histogram for a terminal."""
    most = max((count for *_, count in rows), default=0) or 1
    return [
        f"{low:>12.5g} .. {high:<12.5g} {count:>9} ".ljust(40)
        + "#" * round(_WIDTH * count / most)
        for low, high, count in rows
    ]
