"""Fold a BatchNormalization into the weights of the layer before it."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.linear_layers import LAYERS, Linear
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.constants import constant_of


@passes.verify.tolerance
@passes.register("fuse")
class FuseBatchNormalization(Transformation, RewriteRuleSetPass):
    """Fold a BatchNormalization into the weights of the layer before it.

    Before: ``BatchNormalization(Conv(x, w, b), scale, bias, mean, variance)``
    After:  ``Conv(x, w * f, (b - mean) * f + bias)`` with
            ``f = scale / sqrt(variance + epsilon)``

    Sound because the layer is linear, and the normalisation scales and shifts each of its
    output channels. The contract is a tolerance: the weights are rounded once more. They are
    computed in double precision.

    Leaves alone: training mode; statistics or weights that are computed or that callers may
    override; a layer that something else reads; a Gemm with ``transA``, with factors, or with
    a bias that is not a row; results that are not finite.
    """

    needs = ("shape-inference",)

    def rules(self) -> Iterator[Rule]:
        for name in LAYERS:
            yield Rule(partial(_normalised, name), _fused, _can_be_fused)


def _normalised(layer: str, op: Op, x: Var, w: Var, s: Var, b: Var, m: Var, v: Var) -> Var:
    t = getattr(op, layer)(x, w, _allow_other_inputs=True, _outputs=["t"])
    return op.BatchNormalization(t, s, b, m, v, _outputs=["y"])


def _can_be_fused(context: object, w: Value, t: Value, y: Value, **_: object) -> bool:
    layer, norm = node_of(t), node_of(y)
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    constants = [*norm.inputs[1:5], w, *([] if bias is None else [bias])]
    if (
        len(t.uses()) != 1
        or t.is_graph_output()
        or any(constant_of(c) is None for c in constants)
    ):
        return False
    if len({c.dtype for c in map(constant_of, constants) if c is not None}) != 1:
        return False
    if len(norm.outputs) != 1 or (norm.attributes.get_int("training_mode") or 0):
        return False
    if not norm.attributes.get_int("spatial", 1) or not _is_plain(layer):
        return False
    return _weights(layer, norm) is not None


def _is_plain(layer: ir.Node) -> bool:
    if layer.op_type != "Gemm":
        return True
    factors = (layer.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    return not layer.attributes.get_int("transA", 0) and set(factors) == {1.0}


def _fused(op: Op, x: Value, t: Value, y: Value, **_: object) -> Value:
    layer = node_of(t)
    found = _weights(layer, node_of(y))
    assert found is not None, "check has seen to it"
    weights, bias = (op.Constant(value=ir.tensor(array)) for array in found)
    return getattr(op, layer.op_type)(x, weights, bias, **layer.attributes)


def _weights(node: ir.Node, norm: ir.Node) -> tuple[Array, Array] | None:
    """Return the weights and the bias of the layer that does both."""
    layer = Linear.of(node)
    scale, shift, mean, variance = (_wide(value) for value in norm.inputs[1:5])
    if layer is None or scale.shape != (layer.channels,):
        return None
    with np.errstate(all="ignore"):
        epsilon = norm.attributes.get_float("epsilon", 1e-5) or 0.0
        factor = scale / np.sqrt(variance + epsilon)
        scaled = layer.scaled(factor)
        both = None if scaled is None else scaled.shifted(shift - mean * factor)
        if both is None or both.bias is None:
            return None
        weights, bias = both.scaled_weights(_finite), _finite(both.bias, both.dtype)
        return None if weights is None or bias is None else (weights, bias)


def _finite(array: Array, dtype: ir.DataType) -> Array | None:
    """Return numbers in a type of lower precision, None where they are not finite there."""
    found = array.astype(dtype.numpy())
    return found if np.isfinite(found).all() else None


def _wide(value: Value | None) -> Array:
    tensor = constant_of(value)
    assert tensor is not None, "check has seen to it"
    return tensor.numpy().astype(np.float64)
