"""A run of the original; its values and their ranges are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.precision._watch import inner_values, watch
from onnx_passes.runtime.base import Array, Engine, Feeds, Outputs
from onnx_passes.verify.recording import Recording, exposed

MEMORY = 1 << 30
"""Bytes of recorded values that are kept in memory; the rest goes to disk."""


@dataclass
class Recorded:
    """A run of the original on a few samples.

    Attributes:
        feeds: The inputs of each sample.
        rows: Values that regions read, by sample and name.
        outputs: The outputs of each sample.
        ranges: Least and greatest finite element of each float value, over the samples; in
            bodies, over all iterations.
    """

    feeds: Sequence[Feeds]
    rows: list[Recording] = field(default_factory=list)
    outputs: list[Outputs] = field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)


def record(
    model: ir.Model, engine: Engine, feeds: Sequence[Feeds], names: set[str]
) -> Recorded:
    """Run the original once on each sample, and keep what is needed of it.

    Args:
        model: The original.
        engine: Runs it.
        feeds: The samples.
        names: The values that are kept.

    Raises:
        EngineError: The engine does not run it.
    """
    found = Recorded(feeds)
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
