"""Runs of a part of a model by itself, in which an engine treats it as it does within."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.ops.unary import Neg
from onnx_passes.passes.replace import Namer
from onnx_passes.runtime.engine_base import Data, Engine, Outputs

_NEGATED = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)
"""Types of values that engines negate."""


@dataclass(frozen=True)
class GroupModel:
    """A group by itself.

    Attributes:
        before: In float32.
        models: In other formats, by name.
        refused: Why it cannot have the others.
    """

    before: ir.Model
    models: dict[str, ir.Model]
    refused: dict[str, str]


def negate_ends(model: ir.Model, ends: Collection[str]) -> tuple[ir.Model, dict[str, str]]:
    """Return a part of a model with a reader behind each of its results.

    An engine fuses nodes in another way if their result is an output of the model. It may
    leave an activation alone, and compute the product before it in integers. A Neg is not
    optimised away, and rounds nothing.

    Args:
        model: The part, in any format; not changed.
        ends: Outputs that are outputs of the whole model as well; nobody reads these.

    Returns:
        The part, and by name of an output that is negated, the name of the result.
    """
    copy = copy_model(model)
    namer, negated = Namer(copy), dict[str, str]()
    for place, value in enumerate(copy.graph.outputs):
        if value.name in ends or value.dtype not in _NEGATED or value.is_graph_input():
            continue
        node = ir.node(Neg.op_type, [value], name=namer.node(Neg.op_type))
        (made,) = node.outputs
        name = namer.value(value.name)
        made.name, made.type, made.shape = name, value.type, value.shape
        copy.graph.append(node)
        copy.graph.outputs[place] = made
        negated[name] = str(value.name)
    return copy, negated


def run_part(
    engine: Engine,
    model: ir.Model,
    ends: Collection[str],
    rows: Sequence[Mapping[str, Data]],
) -> list[Outputs]:
    """Run a part of a model.

    Args:
        engine: Runs it.
        model: The part, in any format.
        ends: Outputs that are outputs of the whole model as well.
        rows: By sample, values by name, of any shapes and types; its inputs are among them.

    Raises:
        EngineError: The engine does not run it.
    """
    names = [str(value.name) for value in model.graph.inputs]
    read, negated = negate_ends(model, ends)
    with engine.prepare(read) as session:
        found = [session.run({name: row[name] for name in names}) for row in rows]
    return [
        {
            negated.get(name, name): -np.asarray(value) if name in negated else value
            for name, value in outputs.items()
        }
        for outputs in found
    ]
