"""Replace linear layers and their activations by Gemms of rows."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import node_of, opset_at, read_once
from onnx_passes.passes.common.shapes import dims_of, ints_of, sizes_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, ints

JOINED = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "Selu", "Softplus", "Softsign")
"""Activations that ONNX Runtime computes within a Gemm, but not within a MatMul."""
OTHERS = ("Gelu", "HardSwish", "Mish")
ACTIVATIONS = (*JOINED, *OTHERS)
NARROW = 128
"""Up to so many channels, adding the bias on its own takes 3 % of a layer's time and more."""

_NUMBERS = (0.5, 2.0, -1.5, 0.25, -0.75)
_LAYER = {"w": (Spec("d e", mixed=_NUMBERS),), "b": (Spec("e", mixed=_NUMBERS),)}
_ROWS = {
    "x": (Spec(node="Reshape", of=("rows", "target")),),
    "rows": data("a*b d"),
    "target": ints("a b d"),
}
_FLOAT = (ir.DataType.FLOAT,)


@passes.verify.tolerance
@passes.register("suit-onnxruntime")
class FlattenLinearLayers(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace linear layers and their activations by Gemms of rows.

    Before: ``Relu(Add(MatMul(x, w), b))`` of ``x`` with more than two dimensions
    After:  ``Reshape(Relu(Gemm(Reshape(x, [-1, 48]), w, b)), [-1, 16, 64])``

    So it is with LeakyRelu, Sigmoid, Tanh, Elu, Selu, Softplus and Softsign, which ONNX
    Runtime applies within the Gemm. With Gelu, HardSwish or Mish, or no activation, it is so
    for up to 128 input channels. There a Reshape before or behind, or a layer behind, makes
    up for one of the two Reshapes. A layer that reads such rows is always one of them.

    A chain of such layers takes 0.6 of the time at 16 channels, 0.7 at 32, 0.8 at 64 and
    0.95 at 256 (ONNX Runtime 1.31).

    Sound because a MatMul with a matrix treats all leading dimensions as rows, and an
    activation is applied to each element. The contract is a tolerance: Gemm may begin its
    sums with the summand.

    Leaves alone: other types than float; weights and biases that are not constant; a bias
    that is not a row; matrices; tensors with more than one leading dimension of unknown size,
    or a size of 0; values in between that something else reads; opsets before 7. Functions,
    where shapes are unknown.
    """

    needs = ("shape-inference",)
    always_pays = False
    exclusive = True
    commute = True
    hints: ClassVar[Hints] = {
        "*": Hint({"x": data("a b d", "a b c d"), **_LAYER}, types=_FLOAT, since=7),
        **dict.fromkeys(
            (*OTHERS, "no-activation"), Hint({**_ROWS, **_LAYER}, types=_FLOAT, since=7)
        ),
    }

    def rules(self) -> Iterator[Rule]:
        for name in ACTIVATIONS:
            yield Rule(partial(_activated, name), _on_rows, _pays, name)
        yield Rule(_linear, _on_rows, _pays, "no-activation")


def _linear(op: Op, x: Var, w: Var, b: Var) -> Var:
    return op.Add(op.MatMul(x, w, _outputs=["t"]), b, _outputs=["y"])


def _activated(activation: str, op: Op, x: Var, w: Var, b: Var) -> Var:
    total = op.Add(op.MatMul(x, w, _outputs=["t"]), b)
    return getattr(op, activation)(total, _outputs=["y"])


def _pays(context: MatchContext, x: Value, w: Value, b: Value, t: Value, y: Value) -> bool:
    product, last = node_of(t), node_of(y)
    if opset_at(context) < 7 or not _is_linear(product, b) or _leading(x) is None:
        return False
    if last.op_type in JOINED or _rows_behind(x) is not None:
        return True
    if (sizes_of(w) or [NARROW + 1])[0] > NARROW:
        return False
    reader = next(iter(y.consumers()), None) if read_once(y) else None
    if last.op_type == "Add" and reader is not None and reader.op_type in ACTIVATIONS:
        return False  # the rule of the activation decides
    return _reshaped(x) is not None or (reader is not None and _takes_rows(reader, y))


def _is_linear(product: ir.Node, summand: Value | None) -> bool:
    """Whether a MatMul has a constant matrix, and a constant row of its width is added."""
    x, w = product.inputs
    sizes = sizes_of(w)
    if constant_of(w) is None or x is None or sizes is None or len(sizes) != 2:
        return False
    if x.dtype is not ir.DataType.FLOAT:
        return False
    return (
        0 not in sizes and constant_of(summand) is not None and sizes_of(summand) == sizes[1:]
    )


def _takes_rows(reader: ir.Node, y: Value) -> bool:
    """Whether the only reader of a result reshapes it, or is a layer that reads rows."""
    if reader.op_type == "Reshape":
        target = ints_of(reader.inputs[1])
        return target is not None and 0 not in target
    product = reader.outputs[0]
    if reader.op_type != "MatMul" or reader.inputs[0] is not y or not read_once(product):
        return False
    (total,) = product.consumers()
    summands = [value for value in total.inputs if value is not product]
    return total.op_type == "Add" and len(summands) == 1 and _is_linear(reader, summands[0])


def _leading(x: Value) -> list[int] | None:
    """Return the leading dimensions as a Reshape takes them, if it can work them out."""
    leading = (dims_of(x) or [])[:-1]
    known = [dim if isinstance(dim, int) else -1 for dim in leading]
    return known if len(known) > 1 and known.count(-1) < 2 and 0 not in known else None


def _reshaped(x: Value) -> Value | None:
    """Return what a Reshape that has no other reader makes a value of."""
    node = x.producer()
    return node.inputs[0] if node and node.op_type == "Reshape" and read_once(x) else None


def _rows_behind(x: Value) -> Value | None:
    """Return the rows of a value that a Gemm has made, with or without an activation."""
    last = x.producer()
    rows = last.inputs[0] if last is not None and last.op_type == "Reshape" else None
    node = None if rows is None else rows.producer()
    if node is not None and node.op_type in ACTIVATIONS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Gemm" or node.attributes.get_int("transB"):
        return None
    weight, dims = sizes_of(node.inputs[1]), dims_of(x)
    return rows if weight and dims and weight[-1] == dims[-1] else None


def _shape(op: Op, sizes: list[int]) -> Value:
    return op.Constant(value=ir.tensor(np.array(sizes, np.int64)))


def _on_rows(op: Op, x: Value, w: Value, b: Value, y: Value, **_: object) -> Value:
    leading, (inner, outer) = _leading(x), sizes_of(w) or [0, 0]
    assert leading is not None, "check has seen to it"
    rows = _rows_behind(x)
    if rows is None:
        rows = op.Reshape(_reshaped(x) or x, _shape(op, [-1, inner]))
    made: Value = op.Gemm(rows, w, b)
    last = node_of(y)
    if last.op_type != "Add":
        made = getattr(op, last.op_type)(made, **last.attributes)
    return op.Reshape(made, _shape(op, [*leading, outer]))
