"""What a quantizer makes of a small error next to a breakpoint: a whole step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.scores import widen
from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.ort_sessions import LOW, types_of
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.bodies.operator_bodies import is_quantiser
from onnx_passes.runtime.engine_base import Feeds, Outputs
from onnx_passes.runtime.engine_models import infer_types, with_barriers
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.low_precision import coarsest_types, low_tolerance
from onnx_passes.verify.tensor_difference import default_tolerance

_QUANTIZERS = ("QuantizeLinear", "DynamicQuantizeLinear")
_SIGNS = ("Add", "Sub")


def agree_between_steps(
    original: ir.Model,
    feeds: Feeds,
    known: Outputs,
    new: Outputs,
    contract: Tolerance,
    low: Mapping[str, Tolerance],
) -> set[str]:
    """Return the outputs that are what the original gives if its quantizers read other values.

    The original runs twice more, with all that its quantizers read moved up and down by what
    the tolerance allows. An element that does not move then has to agree as ever. One that
    moves was next to a breakpoint, and may lie between what the runs give.

    Args:
        original: Before.
        feeds: Inputs of the original.
        known: What the original gives, by names of the result.
        new: What the result gives.
        contract: What was promised.
        low: Tolerances of outputs that depend on values below float32.
    """
    if not any(map(_quantizes, all_nodes(original))):
        return set()
    runs = [_run(_moved(original, operator), feeds) for operator in _SIGNS]
    promise = Promise(contract, overrides=low, low=frozenset(low))
    agreeing: set[str] = set()
    for position, (name, old) in enumerate(known.items()):
        sides = [old, *(run[position] for run in runs if len(run) > position)]
        actual = new.get(name)
        arrays = [side for side in (*sides, actual) if isinstance(side, np.ndarray)]
        if len(arrays) < len(_SIGNS) + 2 or len({(a.shape, a.dtype) for a in arrays}) > 1:
            continue
        *between, actual = arrays
        nearest = _nearest(between, actual)
        if not promise.broken({name: nearest}, {name: actual}):
            agreeing.add(name)
    return agreeing


def _quantizes(node: ir.Node) -> bool:
    return node.op_type in _QUANTIZERS or is_quantiser(node.domain, node.op_type)


def _nearest(between: Sequence[Array], actual: Array) -> Array:
    """Return what is nearest to an array between the least and greatest of others."""
    wide = [widen(array) for array in between]
    least, most = np.minimum.reduce(wide), np.maximum.reduce(wide)
    return np.asarray(np.clip(widen(actual), least, most).astype(actual.dtype))


def _moved(model: ir.Model, operator: str) -> ir.Model:
    """Return a copy in which quantizers read values that are a little greater, or less."""
    copy = copy_model(model)
    types, coarsest = infer_types(copy), coarsest_types(copy)
    for number, node in enumerate(list(all_nodes(copy))):
        value = node.inputs[0] if node.inputs else None
        if not _quantizes(node) or value is None or node.graph is None:
            continue
        if value.const_value is not None:
            continue  # weights are what they are
        dtype = next(iter(types_of(value, types)))
        if dtype is not None and dtype.is_floating_point():
            share = _share(coarsest.get(value, dtype))
            chain = _by_share(value, share, dtype, operator)
            for place, made in enumerate(chain):
                # Names of nested graphs may not coincide with those around them.
                made.outputs[0].name = f"quantizer_{number}_{place}"
            node.graph.insert_before(node, chain)
            node.replace_input_with(0, chain[-1].outputs[0])
    return copy


def _share(dtype: ir.DataType) -> float:
    if dtype in LOW:
        return low_tolerance(dtype).rtol or 0.0
    return default_tolerance(dtype.numpy())[0]


def _by_share(
    value: ir.Value, share: float, dtype: ir.DataType, operator: str
) -> list[ir.Node]:
    """Return nodes that move a value by a share of its largest element."""
    number = ir.tensor(np.asarray(share, np.float32).astype(dtype.numpy()))
    constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", number)])
    size = ir.Node("", "Abs", [value])
    most = ir.Node("", "ReduceMax", [size.outputs[0]], [ir.AttrInt64("keepdims", 0)])
    step = ir.Node("", "Mul", [most.outputs[0], constant.outputs[0]])
    moved = ir.Node("", operator, [value, step.outputs[0]])
    return [constant, size, most, step, moved]


def _run(model: ir.Model, feeds: Feeds) -> list[object]:
    try:
        with OnnxRuntimeEngine(prepacking=False).prepare(with_barriers(model)) as session:
            return list(session.run(feeds).values())
    except EngineError:
        return []
