"""A run of the original; its values and their ranges are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.convolution import Conv
from onnx_passes.passes.precision._recording import inner_values, watch
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.verify.recording import Recording, exposed

MEMORY = 1 << 30
"""Bytes of recorded values that are kept in memory; the rest goes to disk."""


@dataclass
class RecordedRun:
    """A run of the original on a few samples.

    Attributes:
        feeds: The inputs of each sample.
        rows: Values that regions read, by sample and name.
        outputs: The outputs of each sample.
        ranges: Least and greatest finite element of each float value, over the samples; in
            bodies, over all iterations.
        measured: Least and greatest element of each channel of values in bodies, by name, as
            passes have measured them.
    """

    feeds: Sequence[Feeds]
    rows: list[Recording] = field(default_factory=list)
    outputs: list[Outputs] = field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    measured: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    def channels(self, node: ir.Node, name: str) -> tuple[Array, Array] | None:
        """Return the least and greatest finite element of each channel of a value.

        Args:
            node: The product that reads it.
            name: Its name; None is returned if its numbers were not kept.
        """
        if name in self.measured:
            return self.measured[name]
        axis = 1 if node.op_type == Conv.op_type else -1
        ends = []
        for row in self.rows:
            array = row.get(name)
            if array is None or array.ndim < 2:
                return None
            finite = np.where(np.isfinite(array), array, 0)
            rest = tuple(i for i in range(array.ndim) if i != axis % array.ndim)
            ends.append((finite.min(rest, initial=0.0), finite.max(rest, initial=0.0)))
        lows, highs = zip(*ends, strict=True) if ends else ((), ())
        return (np.min(lows, 0), np.max(highs, 0)) if ends else None


def record(
    model: ir.Model, engine: Engine, feeds: Sequence[Feeds], names: set[str]
) -> RecordedRun:
    """Run the original once on each sample, and keep what is needed of it.

    Args:
        model: The original.
        engine: Runs it.
        feeds: The samples.
        names: The values that are kept.

    Raises:
        EngineError: The engine does not run it.
    """
    found = RecordedRun(feeds)
    ends = [str(value.name) for value in model.graph.outputs]
    defaults: dict[str, Array] = {
        str(v.name): v.const_value.numpy() for v in model.graph.inputs if v.const_value
    }
    every = exposed(model)
    inner = watch(every, {str(value.name) for value in inner_values(every)})
    with engine.prepare(every) as session:
        for feed in feeds:
            values = {**defaults, **feed, **session.run(feed)}
            for end, name in inner.items():
                _widen(found.ranges, name, np.asarray(values.pop(end)))
            row = Recording(MEMORY // max(1, len(feeds)))
            row.update({name: data for name, data in values.items() if name in names})
            found.rows.append(row)
            found.outputs.append({name: values[name] for name in ends})
            for name, data in values.items():
                if isinstance(data, np.ndarray) and data.dtype == np.float32:
                    _widen(found.ranges, name, data)
    return found


def _widen(ranges: dict[str, tuple[float, float]], name: str, array: Array) -> None:
    finite = array[np.isfinite(array)]
    low, high = ranges.get(name, (0.0, 0.0))
    if finite.size:
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    ranges[name] = low, high
