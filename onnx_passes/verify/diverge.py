"""The first value, in topological order, in which two models differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.cut import makers_of, values_of
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.region import changed_region
from onnx_passes.verify.result import OutputCheck


@dataclass(frozen=True)
class Divergence:
    """Where two models part.

    Attributes:
        value: Comparison of the value.
        before: The node that computes it in the one model.
        after: The node that computes it in the other.
    """

    value: OutputCheck
    before: ir.Node | None
    after: ir.Node | None


def first_divergence(
    before: ir.Model,
    after: ir.Model,
    feeds: Feeds,
    engine: Engine,
    contract: Equality | Tolerance,
    overrides: Mapping[str, Tolerance] | None = None,
) -> Divergence | None:
    """Find the first value of the main graph that breaks a contract.

    Compared are values that both models have under one name; if what changed is known, only
    those computed there.

    Args:
        before: The model before.
        after: The model after.
        feeds: Inputs by name.
        engine: Runs both models.
        contract: Equality, or the limits.
        overrides: Limits of single values by name; None for none.

    Returns:
        The value; None where all agree, or one of the models does not run.
    """
    old, new = makers_of(before), makers_of(after)
    region = changed_region(before, after)
    names = [name for name in new if name in old]
    if region is not None and region.nodes:
        changed = {str(value.name) for node in region.nodes for value in node.outputs}
        names = [name for name in names if name in changed] or names
    try:
        expected = values_of(before, names, feeds, engine)
        actual = values_of(after, names, feeds, engine)
    except EngineError:
        return None
    promise = Promise(contract, overrides=overrides or {}, inside=True, negative_zero=True)
    for name in names:
        if not isinstance(expected[name], np.ndarray):
            continue
        if wrong := promise.broken({name: expected[name]}, {name: actual[name]}):
            return Divergence(wrong[0], old.get(name), new.get(name))
    return None
