"""Move operators of single elements before a Squeeze, next to the Conv."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from onnx_passes import passes
from onnx_passes.passes.base import Op, Rule, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import axes_of, rank_of, widens
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, ints

BINARY = ("Add", "Mul")
UNARY = ("Relu", "LeakyRelu", "Sigmoid", "Tanh")
"""Operators that fusions fold into a Conv, or that engines compute within it."""

_LAYER = {
    "t": (Spec(node="Conv", of=("x", "w")),),
    "x": data("n c 1 w"),
    "w": data("m c 1 1"),
    "squeezed.1": ints("2"),
}
_CONSTANTS = (
    *(Spec(dims, fill=(0.5, -2.0)) for dims in ("", "1")),
    Spec("1 m 1", mixed=(0.5, -2.0, 1.0)),
)


@passes.verify.equality
@passes.register("fuse")
class MoveBeforeSqueeze(passes.Transformation, passes.RewriteRuleSetPass):
    """Move operators of single elements before a Squeeze, next to the Conv.

    Before: ``Relu(Add(Squeeze(Conv(x, w), [2]), b))``
    After:  ``Squeeze(Relu(Add(Conv(x, w), Unsqueeze(b, [2]))), [2])``

    So it is with Mul, LeakyRelu, Sigmoid and Tanh. Exporters write a convolution along one
    axis as one along two. Then a bias is behind the Squeeze, where neither fusions nor engines
    see that it is the Conv's.

    Sound because a Squeeze changes no element, and an axis of size 1 behind the others keeps
    each element of the constant at its place.

    Leaves alone: what a Conv does not compute; a Squeeze that names no axes, or that something
    else reads; constants that callers may override, that make the tensor bigger, or that have
    several elements and another rank.
    """

    needs = ("shape-inference",)
    exclusive = True
    commute = True
    hints: ClassVar[Hints] = {
        "*": Hint(_LAYER, since=13),
        **dict.fromkeys(BINARY, Hint({**_LAYER, "c": _CONSTANTS}, since=13)),
    }

    def rules(self) -> Iterator[Rule]:
        for name in BINARY:
            yield Rule(partial(_with_constant, name), _moved, _is_layer, name)
        for name in UNARY:
            yield Rule(partial(_alone, name), _moved, _is_layer, name)


def _squeezed(op: Op, t: Var) -> Var:
    return op.Squeeze(t, _allow_other_inputs=True, _outputs=["squeezed"])


def _with_constant(name: str, op: Op, t: Var, c: Var) -> Var:
    return getattr(op, name)(_squeezed(op, t), c, _outputs=["y"])


def _alone(name: str, op: Op, t: Var) -> Var:
    return getattr(op, name)(_squeezed(op, t), _outputs=["y"])


def _is_layer(
    context: object, t: Value, squeezed: Value, y: Value, c: Value | None = None
) -> bool:
    layer = t.producer()
    if layer is None or (layer.domain, layer.op_type) != ("", "Conv"):
        return False
    if axes_of(node_of(squeezed)) is None:
        return False
    return c is None or _goes_along(c, squeezed)


def _goes_along(c: Value, squeezed: Value) -> bool:
    tensor = constant_of(c)
    if tensor is None or widens(squeezed, c):
        return False
    return tensor.size == 1 or len(tensor.shape) == rank_of(squeezed)


def _moved(op: Op, t: Value, squeezed: Value, y: Value, c: Value | None = None) -> Value:
    node, last = node_of(squeezed), node_of(y)
    operands = [t]
    if c is not None:
        tensor = constant_of(c)
        assert tensor is not None, "check has seen to it"
        one = tensor.size == 1
        operands.append(c if one else op.Unsqueeze(c, *node.inputs[1:], **node.attributes))
    made = getattr(op, last.op_type)(*operands, **last.attributes)
    return op.Squeeze(made, *node.inputs[1:], **node.attributes)
