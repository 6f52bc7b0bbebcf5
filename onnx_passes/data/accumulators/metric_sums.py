"""Metrics of the user: registered functions, and classes that add up by themselves."""

from __future__ import annotations

import inspect
import math
from typing import Protocol, Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import metrics
from onnx_passes.data.accumulators.accumulator import Block
from onnx_passes.data.accumulators.exact_sums import ExactSum, number, plain
from onnx_passes.errors import OnnxPassesError, UsageError, VerificationError
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.verify.runs.user_functions import named_function


class MetricState(Protocol):
    """A metric over a data set, as a user's class has it.

    ``merge`` has to be associative, and the state bounded.
    """

    def update(self, produced: list[Array], expected: list[Array]) -> None:
        """Add samples: outputs of the candidate, and labels or outputs of the reference.

        Args:
            produced: Outputs of the candidate, of any type and of shape [samples, ...].
            expected: Labels or outputs of the reference, of any type and of shape [samples,
                ...].
        """
        ...

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        ...

    def finish(self) -> float:
        """Return the metric."""
        ...

    def to_json(self) -> Plain:
        """Return the state as JSON has it."""
        ...

    def load(self, state: object) -> None:
        """Replace the state by one of :meth:`to_json`."""
        ...


_METHODS = ("update", "merge", "finish", "to_json", "load")


def make_metric(name: str) -> MetricState:
    """Return a metric that is empty.

    Args:
        name: A registered metric, or ``module:Class`` with the methods of
            :class:`MetricState`.

    Raises:
        UsageError: It cannot be added up over a data set.
        UnknownMetricError: There is none.
    """
    if ":" not in name:
        return _Registered(metrics.lookup(name))
    made = named_function(name, "--metric")()
    if missing := [m for m in _METHODS if not inspect.ismethod(getattr(made, m, None))]:
        raise UsageError(
            f"the metric {name!r} has no method {missing[0]!r}",
            help=f"a metric over a data set has {', '.join(_METHODS)}",
        )
    metric: MetricState = made
    return metric


class _Registered:
    """A registered metric, by its values for blocks of samples."""

    def __init__(self, metric: metrics.RegisteredMetric) -> None:
        if metric.samples == "concatenate":
            raise UsageError(
                f"the metric {metric.name!r} needs all samples at once",
                help="over a data set, use a class with " + ", ".join(_METHODS),
            )
        self._metric = metric
        self._sum, self._weight = ExactSum(), 0
        self._extreme: float | None = None

    def update(self, produced: list[Array], expected: list[Array]) -> None:
        """Add samples."""
        value = self._metric.measure([produced], [expected])
        weight = expected[0].shape[0] if expected and expected[0].ndim else 1
        mean = self._metric.samples == "mean"
        self._sum.add(value * (weight if mean else 1))
        self._weight += weight
        self._see(value)

    def _see(self, value: float) -> None:
        old = self._extreme
        if old is None or math.isnan(value) or math.isnan(old):
            self._extreme = value if old is None else math.nan
        else:
            self._extreme = (
                max(old, value) if self._metric.samples == "max" else min(old, value)
            )

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        self._sum.merge(other._sum)
        self._weight += other._weight
        if other._extreme is not None:
            self._see(other._extreme)

    def finish(self) -> float:
        """Return the metric; NaN without samples."""
        how = self._metric.samples
        if not self._weight or self._extreme is None:
            return math.nan
        if how in ("max", "min"):
            return self._extreme
        return self._sum.value / (self._weight if how == "mean" else 1)

    def to_json(self) -> Plain:
        """Return the state."""
        extreme = None if self._extreme is None else plain(self._extreme)
        return [self._sum.to_json(), self._weight, extreme]

    def load(self, state: Plain) -> None:
        """Replace the state."""
        total, self._weight, extreme = state
        self._sum.load(total)
        self._extreme = None if extreme is None else number(extreme)


class Metrics:
    """Adds up the metrics of a run.

    Args:
        names: Their names.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.states = {name: make_metric(name) for name in names}

    def update(self, block: Block) -> None:
        """Add a block.

        Raises:
            VerificationError: A metric raised.
        """
        produced = [np.asarray(value) for value in block.right.values()]
        for name, state in self.states.items():
            expected = self._expected(name, block)
            try:
                state.update(produced, expected)
            except OnnxPassesError:
                raise
            except Exception as error:  # whatever the metric raises
                raise VerificationError(
                    f"metric {name!r} raised {type(error).__name__}: {error}",
                    help="update(produced, expected) gets two lists of arrays",
                ) from error

    def _expected(self, name: str, block: Block) -> list[Array]:
        by_labels = ":" in name or metrics.lookup(name).expects != "reference"
        if by_labels and block.labels is not None:
            return [block.labels]
        return [np.asarray(value) for value in block.left.values()]

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        for name, state in self.states.items():
            state.merge(other.states[name])

    def to_json(self) -> PlainDict:
        """Return the state as JSON has it."""
        return {name: state.to_json() for name, state in self.states.items()}

    def load(self, state: PlainMapping) -> None:
        """Replace the state by one of :meth:`to_json`."""
        for name, metric in self.states.items():
            metric.load(state[name])

    def finish(self) -> PlainDict:
        """Return the values."""
        return {name: plain(float(state.finish())) for name, state in self.states.items()}
