"""The nodes that lead to a value, evaluated in double precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.model.ort_sessions import LOW
from onnx_passes.model.walk import named_type
from onnx_passes.ops.node_queries import makes_steps
from onnx_passes.pipeline.causes import Cause, DerivedFinding
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.verify.double_precision import LIKELY, error_bounds
from onnx_passes.verify.float64 import RandomRoundings, evaluate, rounding_spread
from onnx_passes.verify.region import Side
from onnx_passes.verify.region_models import part_leading_to

MOST_WORK = 1 << 26
"""Products and results, on all samples, up to which a part is evaluated."""

PATIENT_WORK = 1 << 32
"""The same for a model, before its result is refused. It takes some seconds, and the search
for a culprit takes longer."""

_ROUNDINGS = RandomRoundings(0, low=4.0, wide=16.0, constants=0.5)
"""A sum rounds more often than its result does, and a step must be seen to move."""

_TRIALS = 16

_MOVING = frozenset(("Resize",))
"""Operators for which onnx's evaluator is asked: it leaves out inputs of others."""


@dataclass(frozen=True)
class PartInFloat64:
    """The nodes that lead to a value, as a model.

    Attributes:
        name: The value.
        model: The nodes.
        feeds: What they read, by sample.
        patient: Whether ``PATIENT_WORK`` limits an evaluation, and not ``MOST_WORK``.
    """

    name: str
    model: ir.Model
    feeds: Sequence[Feeds]
    patient: bool = False

    @staticmethod
    def of(
        name: str,
        side: Side,
        recordings: Sequence[Mapping[str, Data]],
        *,
        patient: bool = False,
    ) -> PartInFloat64 | None:
        """Return the part that leads to a value; None if the recordings do not feed it.

        Args:
            name: The value.
            side: A model, and those of its nodes that a pass changed.
            recordings: What is known of the model before, by sample.
            patient: Whether ``PATIENT_WORK`` limits an evaluation, and not ``MOST_WORK``.
        """
        part = part_leading_to(name, side, recordings)
        if part is None:
            return None
        read = [str(value.name) for value in part.graph.inputs]
        feeds = [{n: row[n] for n in read} for row in recordings]
        return PartInFloat64(name, part, feeds, patient)

    @property
    def elements(self) -> int:
        """How many numbers it reads, on all samples."""
        constants = (v.const_value for v in self.model.graph.initializers.values())
        each = sum(tensor.size for tensor in constants if tensor is not None)
        read = (np.asarray(data) for feeds in self.feeds for data in feeds.values())
        return len(self.feeds) * each + sum(array.size for array in read)

    @cached_property
    def low(self) -> frozenset[ir.DataType]:
        """The types below float32 that it computes or stores something in."""
        nodes = list(self.model.graph.all_nodes())
        casts = (node.attributes.get("to") for node in nodes if node.op_type == "Cast")
        targets = set(map(named_type, casts))
        values = [v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None]
        types = {v.const_value.dtype if v.const_value is not None else v.dtype for v in values}
        return frozenset(t for t in LOW if t in types or t in targets)

    @property
    def makes_steps(self) -> bool:
        """Whether rounding may move a result by a whole step."""
        return any(map(makes_steps, self.model.graph.all_nodes()))

    @cached_property
    def exact(self) -> list[Array]:
        """What the value is in double precision, by sample.

        Raises:
            EngineError: Some node has no kernel for doubles.
            TooMuchWorkError: An evaluation takes too many operations.
        """
        most = PATIENT_WORK if self.patient else MOST_WORK
        found = evaluate(self.model, self.feeds, most=most)
        if found.single or found.reference.keys() - _MOVING:
            raise EngineError("a node may have been computed otherwise than by an engine")
        return [np.asarray(outputs[self.name], np.float64) for outputs in found.outputs]

    def spread(self, noise: RandomRoundings, trials: int) -> list[Array]:
        """Return how far random roundings move each element, by sample.

        Args:
            noise: Where and how far results are moved.
            trials: How many times.
        """
        exact: list[Outputs] = [{self.name: found} for found in self.exact]
        found = rounding_spread(self.model, self.feeds, noise, exact, trials)
        return [row[self.name] for row in found]

    def within_bounds(self, pairs: Sequence[tuple[Data | None, Data | None]]) -> bool:
        """Whether the second of each pair is within what these nodes may be off.

        The first may be nearly exact by luck, so that a growth of its error says nothing.
        """
        for feeds, (_, actual), exact in zip(self.feeds, pairs, self.exact, strict=True):
            bounds = error_bounds(self.model, feeds, self.name, LIKELY)
            new = np.asarray(actual, np.float64)
            if bounds is None or not bounds.shape == new.shape == exact.shape:
                return False
            with np.errstate(invalid="ignore"):
                same = (new == exact) | (np.isnan(new) & np.isnan(exact))
                if not (same | (np.abs(new - exact) <= bounds)).all():
                    return False
        return True

    def near_steps(self, pairs: Sequence[tuple[Data | None, Data | None]]) -> DerivedFinding:
        """Return whether all elements are as random roundings may make them."""
        undecided, spreads = 0, self.spread(_ROUNDINGS, _TRIALS)
        for (expected, actual), exact, spread in zip(pairs, self.exact, spreads, strict=True):
            old, new = (np.asarray(side, np.float64) for side in (expected, actual))
            if not old.shape == exact.shape == spread.shape:
                return DerivedFinding(Cause.UNKNOWN)
            with np.errstate(invalid="ignore"):
                within = (np.abs(new - exact) <= spread) | (new == old)
            if not within.all():
                return DerivedFinding(Cause.UNKNOWN)
            undecided += int(np.count_nonzero(new != old))
        return DerivedFinding(Cause.ROUNDING, undecided=undecided)
