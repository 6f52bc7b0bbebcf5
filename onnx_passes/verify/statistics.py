"""What the elements of an array are like, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onnx_passes.arrays import Array, DType
from onnx_passes.contracts.scores import blocks, kind_of, shape_text, widen
from onnx_passes.plain import PlainDict

_BINS, _WIDTH = 10, 40
_DIGIT = 16
"""Bits of elements that are counted together to find the median."""


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
    leading = np.zeros(1 << _DIGIT, np.int64)
    for start, block in _ordered_blocks(array):
        finite = np.isfinite(block)
        kept, low, high = block, block, block
        if not finite.all():
            found["nan"] += int(np.isnan(block).sum())
            found["inf"] += int(np.isinf(block).sum())
            kept = block[finite]
            low, high = (np.where(finite, block, end) for end in (np.inf, -np.inf))
        if not kept.size:
            continue
        wide = widen(kept)
        with np.errstate(over="ignore", invalid="ignore"):
            own = float(wide.mean())
            step, total = own - mean, count + kept.size
            # Chan's update: sums of squares of large numbers would cancel.
            squares += (
                float(((wide - own) ** 2).sum()) + step * step * count * kept.size / total
            )
            mean += step * kept.size / total
        count = total
        for name, index in (("min", int(low.argmin())), ("max", int(high.argmax()))):
            value, known = block[index].item(), found[name]
            if known is None or (value < known if name == "min" else value > known):
                found[name] = value
                where = np.unravel_index(start + index, array.shape)
                found[f"{name}_at"] = [int(i) for i in where]
        keys = _keys(kept)
        np.add.at(leading, keys >> max(0, 8 * keys.itemsize - _DIGIT), 1)
    if count:
        found |= {"mean": mean, "std": math.sqrt(squares / count), "variance": squares / count}
        ranks = {(count - 1) // 2, count // 2}
        middle = [_ranked(array, rank, leading) for rank in ranks]
        found["median"] = sum(value / len(middle) for value in middle)
    return found


def _ordered_blocks(array: Array) -> Iterator[tuple[int, Array]]:
    """Yield blocks with their first index, in a type of numpy's that keeps the order."""
    own = array.dtype
    if own.kind not in "biuf":  # the types of ml_dtypes have up to 16 bits
        own = np.dtype(np.int16 if kind_of(own) == "int" else np.float32)
    elif own.itemsize > 8:
        own = np.dtype(np.float64)
    for start, (block,) in blocks(array):
        yield start, block.astype(own.newbyteorder("="), copy=False)


def _keys(block: Array) -> Array:
    """Return unsigned integers of the same width, in the order of the elements.

    Args:
        block: Finite elements, from :func:`_ordered_blocks`.
    """
    bits: Array = block.view(f"u{block.itemsize}")
    if block.dtype.kind in "bu":
        return bits
    width = 8 * block.itemsize - 1
    sign: Array = np.array(1 << width, bits.dtype)
    if block.dtype.kind == "f":
        # Of a negative float all bits change, of another one the sign.
        sign = (block.view(f"i{block.itemsize}") >> width).view(bits.dtype) | sign
    return np.bitwise_xor(bits, sign)


def _element(key: int, dtype: DType) -> float:
    """Return the element of a key.

    Args:
        key: A number from :func:`_keys`.
        dtype: The type of the block.
    """
    bits = np.array([key], f"u{dtype.itemsize}")
    if dtype.kind in "if":
        sign = bits.dtype.type(1 << (8 * dtype.itemsize - 1))
        bits = bits ^ sign if dtype.kind == "i" or key & int(sign) else ~bits
    return float(bits.view(dtype)[0])


def _ranked(array: Array, rank: int, counts: Array) -> float:
    """Return the finite element of a rank, counted from 0 in ascending order.

    It is found 16 bits at a time, so that no more than counts are held.

    Args:
        array: Any numeric array.
        rank: Less than the number of finite elements.
        counts: Numbers of elements by the leading bits of their keys, int64.
    """
    key, rank = _digit(counts, rank)
    dtype = next(_ordered_blocks(array))[1].dtype
    for shift in range(8 * dtype.itemsize - 2 * _DIGIT, -1, -_DIGIT):
        counts = np.zeros(1 << _DIGIT, np.int64)
        for _, block in _ordered_blocks(array):
            keys = _keys(block[np.isfinite(block)])
            keys = keys[keys >> (shift + _DIGIT) == key] >> shift
            np.add.at(counts, keys & ((1 << _DIGIT) - 1), 1)
        digit, rank = _digit(counts, rank)
        key = key << _DIGIT | digit
    return _element(key, dtype)


def _digit(counts: Array, rank: int) -> tuple[int, int]:
    """Return the digit of the element of a rank, and its rank among those with this digit."""
    digit = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
    return digit, rank - int(counts[:digit].sum())


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
