"""Values that differ on an engine that rewrites graphs, held against what rounding can do.

Such an engine may fuse the nodes of the model before, and not those of the model after, so
that right results differ in their last places. How far they may is derived from the running
error of the operators, wherever the engine rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.double_precision import weigh_rounding
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.region import Side
from onnx_passes.verify.region_models import part_leading_to

FUSED = "rounding, at other places where the engine fuses nodes"
"""Why a value that differs passes."""


def explain(
    one: Obligation,
    before: Side,
    after: Side,
    recordings: Sequence[Mapping[str, Data]],
    pairs: Sequence[tuple[Data, Data]],
) -> bool | None:
    """Return whether rounding explains how a value inside a model differs.

    Args:
        one: The value.
        before: The model before, and those of its nodes that a pass removed.
        after: The model after, and its new nodes.
        recordings: What both sides read, by sample, and maybe more: recorded or drawn.
        pairs: What the engine gave before and after, by sample, run in one form.

    Returns:
        False if it differs by more, on some sample. None if that is not known: a part has an
        operator without a bound, a body, or more elements than are evaluated.
    """
    old = part_leading_to(one.old, before, recordings)
    # A constant is held to the bounds of what it replaces.
    new = old if one.tensor is not None else part_leading_to(one.new, after, recordings)
    found: list[bool | None] = []
    for recording, (expected, actual) in zip(recordings, pairs, strict=True):
        if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
            return None
        if expected.shape != actual.shape or expected.dtype != actual.dtype:
            return False
        if old is None or new is None:
            return None
        read = [str(value.name) for value in (*old.graph.inputs, *new.graph.inputs)]
        feeds = {n: a for n in read if isinstance(a := recording[n], np.ndarray)}
        if len(feeds) < len({*read}):
            return None
        found.append(weigh_rounding(old, new, feeds, expected, actual, one.old))
    if False in found:
        return False
    return None if None in found else True
