"""All that is added up about a candidate and its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.elements import kind_of
from onnx_passes.data.accumulators.accumulator import Block
from onnx_passes.data.accumulators.classes import Classes
from onnx_passes.data.accumulators.metric_sums import Metrics
from onnx_passes.data.accumulators.output_errors import Errors
from onnx_passes.errors import ReferenceDataError
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.verify.tensor_difference import Limit

MOST_DECISIONS = 10_000
"""An output with more elements along its last axis is not taken for scores of classes."""


@dataclass(frozen=True)
class Measures:
    """What is measured.

    Attributes:
        exact: Whether outputs must be equal.
        rtol: Relative tolerance; None for the default of each dtype.
        atol: Absolute tolerance; the same.
        overrides: Pairs (rtol, atol) by name of an output.
        scores: The output that holds class scores; None for the first float output of two
            axes or more, "" for none.
        metrics: Names of further metrics.
        inner: Outputs that are values from inside of a model, whose small elements carry the
            error of the large ones: each sample is measured against its largest element.
    """

    exact: bool = False
    rtol: float | None = None
    atol: float | None = None
    overrides: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    scores: str | None = None
    metrics: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def limit(self, output: str) -> Limit:
        """Return how far the floats of an output may be off."""
        if self.exact:
            return Limit()
        inner = output in self.inner
        if output in self.overrides:
            return Limit(Tolerance(*self.overrides[output]), inner, explicit=True)
        return Limit(Tolerance(self.rtol, self.atol), inner)

    @classmethod
    def of(
        cls, contract: Equality | Tolerance, overrides: Mapping[str, Tolerance], **rest: Plain
    ) -> Measures:
        """Return the measures of limits as other commands have them.

        Args:
            contract: Equality, or the limits of all outputs.
            overrides: Limits of single outputs by name.
            **rest: Other fields.
        """
        named = {name: (limit.rtol, limit.atol) for name, limit in overrides.items()}
        if isinstance(contract, Equality):
            return cls(exact=True, **rest)
        return cls(False, contract.rtol, contract.atol, named, **rest)

    def to_json(self) -> PlainDict:
        """Return the fields as JSON has them."""
        return {
            "exact": self.exact,
            "rtol": self.rtol,
            "atol": self.atol,
            "overrides": {name: list(pair) for name, pair in self.overrides.items()},
            "scores": self.scores,
            "metrics": list(self.metrics),
            **({"inner": list(self.inner)} if self.inner else {}),
        }

    @classmethod
    def from_json(cls, data: PlainMapping) -> Measures:
        """Read what :meth:`to_json` returns."""
        named = {name: (pair[0], pair[1]) for name, pair in data["overrides"].items()}
        return cls(
            data["exact"],
            data["rtol"],
            data["atol"],
            named,
            data["scores"],
            tuple(data["metrics"]),
            tuple(data.get("inner", ())),
        )


class PairState:
    """Adds up what a candidate gives beside a reference.

    Args:
        measures: What is measured.
    """

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self.samples = 0
        self.failing = 0
        self.outputs: dict[str, Errors] = {}
        self.missing: dict[str, int] = {}
        self.classes: Classes | None = None
        self.metrics = Metrics(measures.metrics)

    def update(self, block: Block) -> None:
        """Add a block.

        Raises:
            ReferenceDataError: The labels do not fit.
            VerificationError: A metric raised.
        """
        self.samples += len(block.rows)
        bad = np.zeros(len(block.rows), bool)
        for name in {*block.left, *block.right} - (block.left.keys() & block.right.keys()):
            side = "is missing" if name in block.left else "is not an output of the reference"
            key = f"{name} {side}"
            self.missing[key] = self.missing.get(key, 0) + len(block.rows)
            bad[:] = True
        for name, left in block.left.items():
            if name in block.right:
                bad |= self._errors(name).update(block.rows, left, block.right[name])
        self.failing += int(bad.sum())
        self._classify(block)
        self.metrics.update(block)

    def _errors(self, name: str) -> Errors:
        if name not in self.outputs:
            self.outputs[name] = Errors(self._measures.limit(name))
        return self.outputs[name]

    def _classify(self, block: Block) -> None:
        name = self._scores(block)
        if name is None or name not in block.right:
            return
        left, right = block.left[name], block.right[name]
        if left.shape != right.shape:
            return  # reported as a failing output
        if self.classes is None:
            self.classes = Classes()
        self.classes.update(block.rows, left, right, block.labels)

    def _scores(self, block: Block) -> str | None:
        wanted = self._measures.scores
        if wanted is not None:
            if wanted and wanted not in block.left:
                raise ReferenceDataError(
                    f"there is no output {wanted!r} for the scores",
                    help=f"the outputs are {', '.join(block.left)}",
                )
            return wanted or None
        for name, value in block.left.items():
            scores = kind_of(value.dtype) == "float" and value.ndim >= 2
            if scores and 2 <= value.shape[-1] <= MOST_DECISIONS:
                return name
        return None

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        self.samples += other.samples
        self.failing += other.failing
        for name, errors in other.outputs.items():
            self._errors(name).merge(errors)
        for key, count in other.missing.items():
            self.missing[key] = self.missing.get(key, 0) + count
        if other.classes is not None:
            if self.classes is None:
                self.classes = Classes()
            self.classes.merge(other.classes)
        self.metrics.merge(other.metrics)

    def to_json(self) -> PlainDict:
        """Return the state as JSON has it."""
        return {
            "samples": self.samples,
            "failing": self.failing,
            "outputs": {name: errors.to_json() for name, errors in self.outputs.items()},
            "missing": dict(sorted(self.missing.items())),
            "classes": None if self.classes is None else self.classes.to_json(),
            "metrics": self.metrics.to_json(),
        }

    def load(self, state: PlainMapping) -> None:
        """Replace the state by one of :meth:`to_json`."""
        self.samples, self.failing = state["samples"], state["failing"]
        self.missing = dict(state["missing"])
        self.outputs = {}
        for name, errors in state["outputs"].items():
            self._errors(name).load(errors)
        self.classes = None
        if state["classes"] is not None:
            self.classes = Classes()
            self.classes.load(state["classes"])
        self.metrics.load(state["metrics"])

    def finish(self) -> PlainDict:
        """Return what was found, as JSON has it."""
        return {
            "samples": self.samples,
            "failing_samples": self.failing,
            "outputs": {name: errors.finish() for name, errors in self.outputs.items()},
            "missing": dict(sorted(self.missing.items())),
            "classes": None if self.classes is None else self.classes.finish(),
            "metrics": self.metrics.finish(),
        }
