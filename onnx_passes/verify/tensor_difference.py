"""Compare two tensors of equal dtype and shape, element by element, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_passes.arrays import Array, DType, float_limits
from onnx_passes.contracts.contract import Tolerance
from onnx_passes.contracts.scores import Kind, blocks, kind_of, shape_text, widen
from onnx_passes.verify.result import OutputCheck

# rtol and atol as torch.testing.assert_close has them (PyTorch's documentation); half and
# bfloat16 pairs as their scalars.
_DEFAULTS = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "bcomplex32": (1.6e-2, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
    # An exponent alone: its neighbours differ by a factor of two, which is not rounding.
    "float8_e8m0fnu": (0.0, 0.0),
}


def default_tolerance(dtype: DType) -> tuple[float, float]:
    """Return rtol and atol for a dtype.

    As ``torch.testing`` from 16 bits up. It has none for floats of 8 bits and fewer; those get
    one step: rtol the machine epsilon, atol the smallest subnormal. All else is exact.
    """
    if dtype.name in _DEFAULTS:
        return _DEFAULTS[dtype.name]
    if kind_of(dtype) != "float":
        return 0.0, 0.0
    info = float_limits(dtype)
    return float(info.eps), float(info.smallest_subnormal)


@dataclass(frozen=True, slots=True)
class Limit:
    """How far an element may be from the reference's: ``atol + rtol * |reference|``.

    Attributes:
        tolerance: None for bit by bit.
        scale_by_max: Whether ``max |reference|`` over the tensor stands in for the element.
        negative_zero: Whether -0 and 0 differ where bits are compared.
        explicit: Whether the tolerance was given for this very output, so that it holds for
            integers too.
    """

    tolerance: Tolerance | None = None
    scale_by_max: bool = False
    negative_zero: bool = False
    explicit: bool = False

    def of(self, dtype: DType) -> tuple[float, float] | None:
        """Return rtol and atol for a dtype; None where elements must be equal."""
        kind = kind_of(dtype)
        inexact = kind in ("float", "complex") or (kind == "int" and self.explicit)
        if self.tolerance is None or not inexact:
            return None
        rtol, atol = default_tolerance(dtype)
        given = self.tolerance
        return (
            rtol if given.rtol is None else given.rtol,
            atol if given.atol is None else given.atol,
        )


def compare_elements(name: str, expected: Array, actual: Array, limit: Limit) -> OutputCheck:
    """Compare two tensors whose dtype and shape agree already.

    Args:
        name: Name of the value.
        expected: A tensor of any shape and type.
        actual: A tensor of the same shape and type.
        limit: The limits of the comparison.
    """
    kind = kind_of(expected.dtype)
    close = limit.of(expected.dtype)
    tally = _Tally(close, negative_zero=limit.negative_zero)
    if close is not None and limit.scale_by_max:
        tally.scale = _largest(expected)
    for start, (e, a) in blocks(expected, actual):
        if kind == "string":
            pairs = zip(e, a, strict=True)
            tally.add_exact(start, np.array([_text(x) != _text(y) for x, y in pairs]))
        elif _same_bytes(e, a):
            continue
        elif kind == "bool":
            tally.add_exact(start, e != a)
        elif kind == "int":
            tally.add_integers(start, e, a)
        else:
            tally.add_floats(start, e, a)
    return tally.result(name, kind, expected, actual)


def _same_bytes(e: Array, a: Array) -> bool:
    width = next(w for w in (np.uint64, np.uint8) if e.nbytes % np.dtype(w).itemsize == 0)
    if e.dtype.byteorder != a.dtype.byteorder:
        return False
    return np.array_equal(e.view(width), a.view(width))


def _text(element: object) -> object:
    return (
        element.decode("utf-8", "surrogateescape") if isinstance(element, bytes) else element
    )


def _largest(array: Array) -> float:
    largest = 0.0
    for _, (block,) in blocks(array):
        magnitude = np.abs(widen(block))
        largest = max(
            largest, float(np.max(magnitude, initial=0, where=np.isfinite(magnitude)))
        )
    return largest


class _Tally:
    """What the blocks seen so far add up to."""

    def __init__(self, close: tuple[float, float] | None, *, negative_zero: bool) -> None:
        self.close, self.negative_zero = close, negative_zero
        self.scale: float | None = None
        self.mismatched = 0
        self.max_abs = self.max_rel = self.share = 0.0
        # Mismatches come before matches, then the larger score, then the first seen.
        self.worst: tuple[bool, float, int] = (False, 0.0, -1)

    def add_exact(self, start: int, bad: Array) -> None:
        self._add(start, bad, bad.astype(np.float64))

    def add_integers(self, start: int, e: Array, a: Array) -> None:
        wide = np.uint64 if e.dtype.name.startswith("u") else np.int64
        e, a = e.astype(wide), a.astype(wide)
        # Modulo 2^64 this is |a - e| exactly, where int64 itself would overflow.
        difference = np.maximum(e, a).view(np.uint64) - np.minimum(e, a).view(np.uint64)
        self._measure(start, difference != 0, difference.astype(np.float64), widen(e))

    def add_floats(self, start: int, e: Array, a: Array) -> None:
        e, a = widen(e), widen(a)
        with np.errstate(all="ignore"):
            difference = np.abs(a - e)
            finite = None
            bad = difference != 0
            # The common case, seen from one number: nothing is NaN or infinite.
            if not np.isfinite(difference.max()):
                finite = np.isfinite(e) & np.isfinite(a)
                difference = np.where(finite, difference, 0.0)
                bad = ~_same(e, a)
        if self.negative_zero and self.close is None:
            bad = bad | (_sign(e) != _sign(a))
        self._measure(start, bad, difference, e, finite)

    def _measure(
        self, start: int, bad: Array, difference: Array, e: Array, finite: Array | None = None
    ) -> None:
        score = difference
        with np.errstate(all="ignore"):
            magnitude = np.abs(e)
            if finite is None and magnitude.min() > 0:
                relative = difference / magnitude
            else:
                counts = magnitude > 0 if finite is None else finite & (magnitude > 0)
                relative = np.divide(
                    difference, magnitude, where=counts, out=np.zeros_like(difference)
                )
            if self.close is not None:
                rtol, atol = self.close
                reach = magnitude if self.scale is None else self.scale
                allowed = atol + rtol * reach
                score = difference - allowed
                # Of nothing, no share exceeds the limit, and anything is too much.
                share = np.where(difference == 0, 0.0, difference / allowed)
                self.share = max(self.share, float(np.nanmax(share, initial=0.0)))
                bad = bad & ~(score <= 0) if finite is None else bad & ~(finite & (score <= 0))
        self.max_abs = max(self.max_abs, float(difference.max()))
        self.max_rel = max(self.max_rel, float(relative.max()))
        if finite is not None:
            score = np.where(finite, score, np.inf)
            if (bad & ~finite).any():
                self.share = float("inf")
        self._add(start, bad, score if bad.any() else difference)

    def _add(self, start: int, bad: Array, score: Array) -> None:
        count = int(np.count_nonzero(bad))
        self.mismatched += count
        ranked = np.where(bad, score, -np.inf) if count else score
        index = int(ranked.argmax())
        candidate = (count > 0, float(ranked[index]), start + index)
        if candidate[:2] > self.worst[:2]:
            self.worst = candidate

    def result(self, name: str, kind: Kind, expected: Array, actual: Array) -> OutputCheck:
        numeric = kind in ("float", "complex", "int")
        rtol, atol = self.close or (0.0, 0.0)
        where: tuple[int, ...] | None = None
        texts: tuple[str, str] | None = None
        if self.worst[2] >= 0:
            where = tuple(int(i) for i in np.unravel_index(self.worst[2], expected.shape))
            texts = _element(expected[where]), _element(actual[where])
        return OutputCheck(
            output=name,
            passed=self.mismatched == 0,
            reason=self._reason(where, texts, expected.size, numeric),
            max_abs=self.max_abs if numeric else None,
            max_rel=self.max_rel if numeric else None,
            worst=where,
            expected=texts[0] if texts else None,
            actual=texts[1] if texts else None,
            mismatched=self.mismatched,
            size=expected.size,
            rtol=rtol,
            atol=atol,
            limit=self._allowed(where, expected),
            share=self.share if self.close is not None else None,
        )

    def _allowed(self, where: tuple[int, ...] | None, expected: Array) -> float | None:
        if self.close is None:
            return None
        rtol, atol = self.close
        reach = self.scale
        if reach is None:
            # Where nothing differs no element is the worst: what holds for any is reported.
            worst = np.asarray(0.0 if where is None else expected[where])
            element = float(np.abs(widen(worst)))
            reach = element if np.isfinite(element) else 0.0
        return atol + rtol * reach

    def _reason(
        self,
        where: tuple[int, ...] | None,
        texts: tuple[str, str] | None,
        size: int,
        numeric: bool,
    ) -> str | None:
        if self.mismatched == 0 or where is None or texts is None:
            return None
        differ = f"{self.mismatched} of {size} elements differ"
        if self.close is not None:
            differ += " by more than the tolerance"
        at = f"at {shape_text(where)} {texts[1]} is not {texts[0]}"
        if not numeric or self.worst[1] in (0, np.inf):
            return f"{differ}, {at}"
        return f"{differ}, by up to {self.max_abs:.3g}"


def _same(e: Array, a: Array) -> Array:
    if np.iscomplexobj(e):
        same: Array = _same(e.real, a.real) & _same(e.imag, a.imag)
        return same
    same = (e == a) | (np.isnan(e) & np.isnan(a))
    return same


def _sign(array: Array) -> Array:
    """Return the sign bits, with those of NaN left out."""
    if np.iscomplexobj(array):
        both: Array = _sign(array.real) + 2 * _sign(array.imag)
        return both
    bits: Array = (np.signbit(array) & ~np.isnan(array)).astype(np.int8)
    return bits


def _element(element: Any) -> str:
    value = _text(element)
    return repr(str(value)) if isinstance(value, str) else str(value)
