"""How far an output is from the reference's, over all samples."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import dtype_name, kind_of, shape_text, widen
from onnx_passes.data.accumulators.exact_sums import ExactSum, plain
from onnx_passes.data.accumulators.histogram import LogHistogram
from onnx_passes.data.accumulators.worst import WorstSamples
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.verify.tensor_difference import Limit

_SUMS = ("noise", "signal", "power", "product", "cosines")
_COUNTS = ("samples", "elements", "failing_samples", "failing_elements", "cosine_samples")
QUANTILES = (0.5, 0.9, 0.99, 0.999)


class Errors:
    """Adds up the errors of one output.

    An element fails under the rules of ``verify.compare``: a float that is beyond its limit,
    anything else that differs, a NaN or infinity on one side only.

    Args:
        limit: How far a float may be off.
    """

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.sums = {name: ExactSum() for name in _SUMS}
        self.histogram = LogHistogram()
        self.largest = WorstSamples()
        self.failing = WorstSamples()
        self.reasons: dict[str, int] = {}

    def update(self, rows: Array, left: Array, right: Array) -> Array:
        """Add samples.

        Args:
            rows: Their numbers, int64 [n].
            left: The reference's output [n, ...].
            right: The candidate's, of the same shape.

        Returns:
            Which samples fail, bool [n].
        """
        count = len(rows)
        self.counts["samples"] += count
        self.counts["elements"] += left.size
        if reason := _describe_mismatch(left, right):
            self.reasons[reason] = self.reasons.get(reason, 0) + count
            self.counts["failing_samples"] += count
            self.counts["failing_elements"] += left.size
            self.failing.add(np.full(count, math.inf), rows)
            return np.ones(count, bool)
        inexact = kind_of(left.dtype) in ("float", "complex")
        if inexact or self._limit.of(left.dtype) is not None:
            return self._floats(rows, left, right)
        bad: Array = np.asarray(left != right).reshape(len(rows), -1)
        return self._fail(bad, rows, bad.sum(axis=1, dtype=np.float64))

    def _floats(self, rows: Array, left: Array, right: Array) -> Array:
        count = len(rows)
        close = self._limit.of(left.dtype)
        old, new = (widen(a).reshape(count, -1) for a in (left, right))
        with np.errstate(invalid="ignore", over="ignore"):
            same = (old == new) | (np.isnan(old) & np.isnan(new))
            usable = np.isfinite(old) & np.isfinite(new)
            if usable.all():
                error, clean, other = np.abs(new - old), old, new
            else:
                error = np.where(usable, np.abs(new - old), np.where(same, 0.0, np.inf))
                clean, other = np.where(usable, old, 0), np.where(usable, new, 0)
            size = np.abs(clean)
            if self._limit.scale_by_max:
                size = size.max(axis=1, initial=0, keepdims=True)
            allowed = 0.0 if close is None else close[1] + close[0] * size
            bad: Array = ~same & ~(error <= allowed)
            failing = self._fail(bad, rows, error.max(axis=1, initial=0))
            self.largest.add(error.max(axis=1, initial=0), rows)
            self.histogram.add(error)
            finite = np.where(np.isfinite(error), error, 0) if not usable.all() else error
            self._sum(clean, other, finite)
        return failing

    def _fail(self, bad: Array, rows: Array, badness: Array) -> Array:
        failing: Array = np.any(bad, axis=1)
        self.counts["failing_elements"] += int(bad.sum())
        self.counts["failing_samples"] += int(failing.sum())
        if failing.any():
            self.failing.add(badness[failing], rows[failing])
        return failing

    def _sum(self, old: Array, new: Array, error: Array) -> None:
        # Each sample by itself, so that sums do not depend on how samples are joined.
        signal, power = _energy(old), _energy(new)
        product = np.einsum("ij,ij->i", old, new.conj(), optimize=False).real
        self.sums["noise"].add(math.fsum(_energy(error)))
        self.sums["signal"].add(math.fsum(signal))
        self.sums["power"].add(math.fsum(power))
        self.sums["product"].add(math.fsum(product))
        both = (signal > 0) & (power > 0)
        cosines = product[both] / np.sqrt(signal[both]) / np.sqrt(power[both])
        self.sums["cosines"].add(math.fsum(np.clip(cosines, -1, 1)))
        self.counts["cosine_samples"] += int(both.sum())

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        for name in _COUNTS:
            self.counts[name] += other.counts[name]
        for name, total in self.sums.items():
            total.merge(other.sums[name])
        self.histogram.merge(other.histogram)
        self.largest.merge(other.largest)
        self.failing.merge(other.failing)
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    def to_json(self) -> PlainDict:
        """Return the state as JSON has it."""
        return {
            "counts": dict(self.counts),
            "sums": {name: total.to_json() for name, total in self.sums.items()},
            "histogram": self.histogram.to_json(),
            "largest": self.largest.to_json(),
            "failing": self.failing.to_json(),
            "reasons": dict(self.reasons),
        }

    def load(self, state: PlainMapping) -> None:
        """Replace the state by one of :meth:`to_json`."""
        self.counts = dict(state["counts"])
        for name, total in self.sums.items():
            total.load(state["sums"][name])
        self.histogram.load(state["histogram"])
        self.largest.load(state["largest"])
        self.failing.load(state["failing"])
        self.reasons = dict(state["reasons"])

    def finish(self) -> PlainDict:
        """Return what was found, as JSON has it; errors are absolute ones of elements."""
        noise, signal = self.sums["noise"].value, self.sums["signal"].value
        counted = self.histogram.count
        cosines = self.counts["cosine_samples"]
        mean = self.sums["cosines"].value / cosines if cosines else math.nan
        return {
            **self.counts,
            "max_abs": plain(self.largest.worst),
            "rmse": plain(math.sqrt(noise / counted)) if counted else None,
            "sqnr_db": plain(_decibels(signal, noise)) if counted else None,
            "mean_cosine": plain(mean) if cosines else None,
            "quantiles": {
                f"{share:g}": plain(self.histogram.quantile(share)) for share in QUANTILES
            }
            if counted
            else None,
            "histogram": self.histogram.to_json(),
            "largest": self.largest.to_json(),
            "failing": self.failing.to_json(),
            "reasons": dict(sorted(self.reasons.items())),
        }


def _energy(values: Array) -> Array:
    found: Array = np.einsum("ij,ij->i", values, values.conj(), optimize=False).real
    return found


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    if signal == 0:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def _describe_mismatch(left: Array, right: Array) -> str:
    want, got = dtype_name(left.dtype), dtype_name(right.dtype)
    if want != got:
        return f"dtype is {got}, expected {want}"
    if left.shape[1:] != right.shape[1:]:
        return f"shape is {shape_text(right.shape[1:])}, expected {shape_text(left.shape[1:])}"
    return ""
