"""Fuse a Pad into the convolution or the pooling behind it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import node_of, opset_at
from onnx_passes.passes.common.shapes import Dim, dims_of, ints_of
from onnx_passes.passes.constants import constant_of, numbers_of
from onnx_passes.plain import PlainDict

WINDOWS = ("Conv", "AveragePool", "MaxPool")
DEPTH = 4
"""How many nodes above a Pad may say that its elements are not minus infinity."""


@passes.verify.tolerance
@passes.register("fuse")
class FusePad(passes.Transformation, passes.RewriteRuleSetPass):
    """Fuse a Pad into the convolution or the pooling behind it.

    Before: ``Conv(Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]), w)``
    After:  ``Conv<pads = [1, 1, 1, 1]>(x, w)``

    Sound because a Conv pads with zeros, an AveragePool with ``count_include_pad`` with zeros
    that count, and a MaxPool with what is below every finite number. ONNX Runtime takes the
    least finite number for it, so that a window of minus infinity alone would become that.
    Elements of the tensor are greater by what computes them: a Relu, a Clip, a Sigmoid.
    Where they are NaN, MaxPool is not defined. The contract is a tolerance: an engine may
    choose another kernel for a Conv that pads.

    Leaves alone: modes other than constant; amounts that are computed, negative, or of batch
    or channels; other numbers than zero before a Conv or an AveragePool, and than minus
    infinity (the lowest integer) before a MaxPool; a MaxPool of what may be minus infinity,
    as the result of a Conv or an input may; a window that sets ``auto_pad`` to SAME;
    a pooling that rounds up, is dilated, would pad by a window or more, or returns indices;
    an AveragePool that pads and does not count it; pooling of tensors of unknown or no size; a
    Pad that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True

    def rules(self) -> Iterator[Rule]:
        for name in WINDOWS:
            yield Rule(partial(_padded, name), _padding, _can_pad)


def _padded(operator: str, op: Op, x: Var) -> Var:
    t = op.Pad(x, _allow_other_inputs=True, _outputs=["t"])
    return getattr(op, operator)(t, _allow_other_inputs=True, _outputs=["y"])


def _can_pad(context: MatchContext, x: Value, t: Value, y: Value, **_: object) -> bool:
    pad, window = node_of(t), node_of(y)
    if pad.attributes.get_string("mode", "constant") != "constant" or opset_at(context) < 7:
        return False
    if window.op_type == "MaxPool":
        if not _is_lowest(pad, x, opset_at(context)):
            return False
    elif _number(pad) != 0:
        return False
    pads = _pads(x, pad, window)
    return pads is not None and (window.op_type == "Conv" or _pools_the_same(window, pads))


def _padding(op: Op, x: Value, t: Value, y: Value, **_: object) -> Value:
    window = node_of(y)
    attributes: PlainDict = dict(window.attributes)
    attributes.pop("auto_pad", None)
    attributes["pads"] = _pads(x, node_of(t), window)
    if window.op_type == "AveragePool":
        attributes["count_include_pad"] = 1
    return getattr(op, window.op_type)(x, *window.inputs[1:], **attributes)


def _pads(x: Value, pad: ir.Node, window: ir.Node) -> list[int] | None:
    """Return the sums of both paddings of the spatial axes, None where they are not one."""
    dims, amounts = dims_of(x), _amounts(pad)
    (named,) = pad.inputs[3:4] or (None,)
    if amounts is None or (dims is None and named is not None):
        return None
    rank = len(amounts) // 2 if dims is None else len(dims)
    axes = list(range(rank))
    if named is not None:
        given = ints_of(named)
        if given is None:
            return None
        axes = [axis % rank for axis in given]
    if window.op_type != "Conv" and not _holds_something(dims):
        return None
    if rank < 3 or len(amounts) != 2 * len(axes) or min(amounts, default=0) < 0:
        return None
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = amounts[index], amounts[index + len(axes)]
    if any(before[:2] + after[:2]):
        return None
    kind = window.attributes.get_string("auto_pad", "NOTSET")
    if kind not in ("NOTSET", "VALID"):
        return None
    own = list(window.attributes.get_ints("pads") or ()) if kind == "NOTSET" else []
    own = own or [0] * (2 * (rank - 2))
    new = before[2:] + after[2:]
    return [a + b for a, b in zip(own, new, strict=True)] if len(own) == len(new) else None


def _holds_something(dims: list[Dim] | None) -> bool:
    """Whether there is an element besides padding in each window of a pooling."""
    return dims is not None and all(isinstance(d, int) and d > 0 for d in dims[2:])


def _amounts(pad: ir.Node) -> list[int] | None:
    if len(pad.inputs) > 1:
        return ints_of(pad.inputs[1])
    given = pad.attributes.get_ints("pads")  # before opset 11
    return None if given is None else list(given)


def _number(pad: ir.Node) -> Any:
    """Return what is padded with, None where it is computed."""
    if len(pad.inputs) < 3 or pad.inputs[2] is None:
        return pad.attributes.get_float("value", 0.0)
    tensor = constant_of(pad.inputs[2])
    return tensor.numpy().reshape(-1)[0] if tensor is not None and tensor.size == 1 else None


def _is_lowest(pad: ir.Node, x: Value, opset: int) -> bool:
    number = _number(pad)
    if x.dtype is None or number is None:
        return False
    if x.dtype.is_floating_point():
        return bool(number == -np.inf) and _range(x, opset, DEPTH)[0] > -np.inf
    return x.dtype.is_integer() and int(number) == np.iinfo(x.dtype.numpy()).min


def _range(value: Value | None, opset: int, depth: int) -> tuple[float, float]:
    """Return what elements that are not NaN lie in, by the operators that compute them."""
    # Rarely needed, and it imports descriptions of operators.
    from onnx_passes.ops.call import Operands
    from onnx_passes.ops.domains.intervals import UNBOUNDED, of_array, of_type
    from onnx_passes.ops.node_queries import range_of

    if value is None:
        return UNBOUNDED
    array, node = numbers_of(value), value.producer()
    if array is not None:
        return of_array(array)
    if node is None or value.index() or not depth:
        return of_type(value.dtype)
    return range_of(
        Operands(node, partial(_range, opset=opset, depth=depth - 1), numbers_of, opset)
    )


def _pools_the_same(window: ir.Node, pads: list[int]) -> bool:
    get = window.attributes
    if get.get_int("ceil_mode") or set(get.get_ints("dilations") or ()) - {1}:
        return False
    if len(window.outputs) > 1:
        return False
    kernel = list(get.get_ints("kernel_shape") or ())
    if not all(amount < size for amount, size in zip(pads, kernel * 2, strict=True)):
        return False
    own = any(get.get_ints("pads") or ())
    counted = bool(get.get_int("count_include_pad"))
    return window.op_type == "MaxPool" or counted or not own
