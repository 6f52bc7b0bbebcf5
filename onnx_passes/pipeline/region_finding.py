"""Find what a pass changed, with the values recorded that it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.model.walk import all_nodes, captured_values
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.alike import find_proved
from onnx_passes.verify.body_models import holds_bodies
from onnx_passes.verify.compare import identical
from onnx_passes.verify.node_equality import Folded, constant_tensor
from onnx_passes.verify.obligations import (
    Obligation,
    find_obligations,
)
from onnx_passes.verify.recording import value_names
from onnx_passes.verify.region import Region, changed_region


@dataclass(frozen=True)
class FoundRegion:
    """What a pass changed.

    Attributes:
        region: The nodes.
        recorded: The values of the model before that they read and are compared with; None if
            everything is proved.
        required: The values that both models are asked for.
        proved: Those of them that are computed alike.
        needed: Names of the values that stay recorded.
    """

    region: Region
    recorded: Recorded | None
    required: Sequence[Obligation]
    proved: set[Obligation]
    needed: AbstractSet[str] = frozenset()


def find_region(
    recorder: Recorder,
    baseline: Baseline,
    models: tuple[ir.Model, ir.Model],
    applied: Sequence[Application],
    known: Recorded | None,
    *,
    untouched: bool,
) -> FoundRegion | None:
    """Find what changed, with the values recorded that it is held against.

    A constant in place of a value that the engine computed is compared with that value:
    equal bit for bit, it makes nothing new that reads it. Where one is not, its readers
    are part of the region.

    Args:
        recorder: Records values on the engine.
        baseline: The samples, and the original.
        models: The model before and after.
        applied: The rewrites that the pass recorded.
        known: What is recorded of the model before.
        untouched: Whether the model before computes what the original does.

    Returns:
        None if values cannot be matched or recorded.
    """
    before, after = models
    folded = Folded()
    while (region := changed_region(before, after, folded)) is not None:
        required = find_obligations(region, before, after, applied)
        proved = find_proved(region, before, after, required)
        if len(proved) == len(required):
            return FoundRegion(region, known, required, proved)
        if not baseline.deterministic and any(
            map(baseline.is_random, (*region.nodes, *region.removed))
        ):
            return None
        needed = region.needed | {o.old for o in required}
        needed |= _read_by_bodies(region.removed)  # they are run
        needed |= {o.new for o in required if o.tensor is None} & set(value_names(before)) - {
            str(v.name) for node in region.nodes for v in node.outputs
        }
        known = recorder.obtain(known, before, baseline, needed, untouched=untouched)
        if known is None or not known.holds(region.needed):
            return None
        wrong = {n for n, t in region.folded.items() if not _holds(known, n, t)}
        if not wrong:
            return FoundRegion(region, known, required, proved, needed)
        folded = Folded(refused=folded.refused | wrong)
    return None


def _holds(known: Recorded, name: str, tensor: ir.TensorProtocol) -> bool:
    """Whether a value was, on every sample, what a constant is, bit for bit."""
    return all(
        name in recording and identical(recording[name], tensor.numpy())
        for recording in known.samples
    )


def _read_by_bodies(nodes: Sequence[ir.Node]) -> set[str]:
    """Return the names of what nodes with bodies read, constants aside."""
    holders = filter(holds_bodies, nodes)
    values = (v for node in holders for v in (*node.inputs, *captured_values(node)))
    return {str(v.name) for v in values if v is not None and constant_tensor(v) is None}


def calls_of(model: ir.Model) -> dict[ir.OperatorIdentifier, int]:
    """Count the calls of each function.

    Args:
        model: The model.
    """
    found: dict[ir.OperatorIdentifier, int] = {}
    for node in all_nodes(model) if model.functions else ():
        key = node.op_identifier()
        if key in model.functions:
            found[key] = found.get(key, 0) + 1
    return found


def look_alike(old: Data, new: Data) -> bool:
    """Whether two values are tensors of one type and shape.

    Args:
        old: A value.
        new: Another value.
    """
    arrays = isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
    return arrays and old.dtype == new.dtype and old.shape == new.shape  # type: ignore[union-attr]
