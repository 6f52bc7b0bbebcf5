"""Smaller dimensions and simpler values of a model that fails, its weights among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.engine_base import Data, Engine, Feeds
from onnx_passes.verify.case import Case
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.shrink import Shrinker

_LARGEST = 64 << 20  # bytes of a weight that are still looked at


@dataclass
class Simplifier:
    """Shrinks what the nodes of a model work on, once none of them can go.

    Attributes:
        model: The smallest model so far.
        feeds: Values of its inputs.
        fails: Whether a model fails on values.
        engine: What gives inner values, for their shapes.
        limit: How many checks may be run.
        runs: Whether the engine runs the model, so that it has to run smaller ones as well.
        seconds: How long it may take.
    """

    model: ir.Model
    feeds: Feeds
    fails: Callable[[ir.Model, Feeds], bool]
    engine: Engine
    limit: int
    seconds: float = 60.0
    runs: bool = False
    tried: int = 0
    notes: list[str] = field(default_factory=list)

    def run(self) -> tuple[ir.Model, Feeds]:
        """Shrink as far as the limits allow."""
        before = _size(self.model, self.feeds)
        self.runs = _runs(self.model, self.feeds, self.engine)
        shrinker = Shrinker(
            Case(self.model, self.model, dict(self.feeds), "the model"),
            self._judge,
            repeats=lambda model, feeds: False,
            engine=self.engine,
            deadline=time.monotonic() + self.seconds,
        )
        case = shrinker.run()
        self.model, self.feeds = case.before, case.feeds
        self._simpler_weights()
        if self.runs:
            self._declare()
        after = _size(self.model, self.feeds)
        if after < before:
            self.notes.append(
                f"inputs and weights shrunk from {before:,} to {after:,} elements"
            )
        return self.model, self.feeds

    def _declare(self) -> None:
        """Declare the shapes that outputs have by now, and forget inner ones."""
        self.model = self.model.clone()
        with self.engine.prepare(self.model) as session:
            given = session.run(self.feeds)
        for node in self.model.graph:
            for value in node.outputs:
                value.shape = None
        for value in self.model.graph.outputs:
            data = given[str(value.name)]
            value.shape = ir.Shape(data.shape) if isinstance(data, np.ndarray) else None

    def _judge(self, case: Case) -> tuple[OutputCheck, ...] | None:
        return () if self._fails(case.before, case.feeds) else None

    def _fails(self, model: ir.Model, feeds: Feeds) -> bool:
        if self.tried >= self.limit:
            return False
        if self.runs and not _runs(model, feeds, self.engine):
            return False  # dimensions that do not fit each other do not make a smaller case
        self.tried += 1
        return self.fails(model, feeds)

    def _simpler_weights(self) -> None:
        """Replace weights by ones or rounded numbers: all, then each."""
        names = [name for name, _ in _weights(self.model)]
        for chosen in (names, *([name] for name in names if len(names) > 1)):
            for simpler in (np.ones_like, _rounded):
                model = _with(self.model, chosen, simpler)
                if model is not None and self._fails(model, self.feeds):
                    self.model = model
                    if len(chosen) == len(names):
                        return
                    break


def _runs(model: ir.Model, feeds: Feeds, engine: Engine) -> bool:
    try:
        with engine.prepare(model) as session:
            session.run(feeds)
    except OnnxPassesError:
        return False
    return True


def _weights(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
            continue  # integers are shapes, axes and indices
        if tensor.size > 1 and tensor.nbytes <= _LARGEST:
            yield name, tensor


def _with(
    model: ir.Model, names: list[str], simpler: Callable[[Array], Array]
) -> ir.Model | None:
    copy = model.clone()
    changed = False
    for name, tensor in list(_weights(copy)):
        if name in names:
            array = tensor.numpy()
            other = simpler(array)
            if not np.array_equal(array, other):
                copy.graph.initializers[name].const_value = ir.tensor(other, name=name)
                changed = True
    return copy if changed else None


def _rounded(array: Array) -> Array:
    return np.rint(array).astype(array.dtype)


def _size(model: ir.Model, feeds: Feeds) -> int:
    tensors = [v.const_value for v in model.graph.initializers.values()]
    weights = sum(tensor.size for tensor in tensors if tensor is not None)
    return weights + sum(_elements(data) for data in feeds.values())


def _elements(data: Data) -> int:
    return data.size if isinstance(data, np.ndarray) else 0
