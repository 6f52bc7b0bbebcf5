"""What the passes that find normalisations over the last axes share."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import pattern

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import (
    PRECISE,
    commuted,
    has_opset,
    node_of,
    number,
    spells,
)
from onnx_passes.passes.common.shapes import dims_of, ints_of, sizes_of, widens
from onnx_passes.passes.constants import constant_of

NUMBERS = (1.0, 2.0, 0.5, -0.5)

FORMS = ("quotient", "product", "product-swapped")
"""Names of the rules that find a formula."""


class NormalizationPass(passes.Transformation, passes.RewriteRuleSetPass):
    """Rules that find a normalisation step by step: formula, scale, bias, casts.

    The formula becomes the operator with a scale of ones; each further rule lets it take over
    what follows it. So all combinations are found without a pattern for each. ``since`` is the
    first opset of the operator. If ``centred``, the mean is subtracted, and a bias may be
    added.
    """

    needs = ("shape-inference",)
    exclusive = True
    operator: ClassVar[str] = ""
    since: ClassVar[int] = 0
    centred: ClassVar[bool] = False

    def rules(self) -> Iterator[Rule]:
        forms = self._quotient, self._product, self._swapped
        for form, name in zip(forms, FORMS, strict=True):
            yield Rule(form, self._normalized, self._is_normalized, name)
        for name in ("Mul", "Add") if self.centred else ("Mul",):
            for place in (0, 1):
                followed = partial(_followed, self.operator, name, place)
                yield Rule(followed, self._with_parameter, self._may_follow)
        yield Rule(self._cast, self._without_cast, self._is_cast, "cast")

    def _quotient(self, op: Op, x: Var, epsilon: Var) -> Var:
        deviation = self._deviation(op, x)
        return op.Div(deviation, _root(op, _shifted(op, deviation, epsilon)))

    def _product(self, op: Op, x: Var, epsilon: Var) -> Var:
        deviation = self._deviation(op, x)
        return op.Mul(deviation, _inverse_root(op, _shifted(op, deviation, epsilon)))

    def _swapped(self, op: Op, x: Var, epsilon: Var) -> Var:
        deviation = self._deviation(op, x)
        return op.Mul(_inverse_root(op, _shifted(op, deviation, epsilon)), deviation)

    def _deviation(self, op: Op, x: Var) -> Var:
        if not self.centred:
            return x
        return op.Sub(x, op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"]))

    def _is_normalized(
        self,
        context: MatchContext,
        x: Value,
        epsilon: Value,
        mean: Value | None = None,
        **values: Value,
    ) -> bool:
        means = [node_of(v) for v in (values["variance"], mean) if v is not None]
        axes = {_first_axis(node, x) for node in means}
        further = [value for node in means for value in node.inputs[1:]]
        sizes = sizes_of_last(x, *axes) if len(axes) == 1 else None
        return (
            has_opset(context, self.since)
            and x.dtype in PRECISE
            and sizes is not None
            and _epsilon(epsilon, x) is not None
            and spells(context, NUMBERS, x, epsilon, *further)
        )

    def _normalized(self, op: Op, x: Value, epsilon: Value, **values: Value) -> Value:
        axis = _first_axis(node_of(values["variance"]), x)
        sizes = sizes_of_last(x, axis)
        assert x.dtype is not None, "check has seen to it"
        assert sizes is not None, "check has seen to it"
        attributes = {"axis": axis, "epsilon": _epsilon(epsilon, x)}
        if x.dtype is not ir.DataType.FLOAT:
            attributes["stash_type"] = int(x.dtype)
        ones = op.Constant(value=ir.tensor(np.ones(sizes, x.dtype.numpy())))
        return _call(op, self.operator, x, ones, **attributes)

    def _may_follow(
        self, context: MatchContext, x: Value, s: Value, w: Value, n: Value
    ) -> bool:
        node = node_of(n)
        sizes = sizes_of_last(x, node.attributes.get_int("axis", -1))
        if sizes is None or len(node.outputs) > 1 or widens(x, w) or w is n:
            return False
        row = sizes_of(w) == sizes if constant_of(w) is None else _row(w, sizes) is not None
        if not row:
            return False
        return context.root.op_type == "Add" or holds(s, 1.0)

    def _with_parameter(self, op: Op, x: Value, s: Value, w: Value, n: Value) -> Value:
        node = node_of(n)
        sizes = sizes_of_last(x, node.attributes.get_int("axis", -1))
        row = _row(w, sizes or [])
        if row is not None and sizes_of(w) != sizes:
            w = op.Constant(value=ir.tensor(row))
        (user,) = n.consumers()
        parameters = (w,) if user.op_type == "Mul" else (s, w)
        return _call(op, self.operator, x, *parameters, **node.attributes)

    def _cast(self, op: Op, x: Var, s: Var) -> Var:
        wide = op.Cast(x, to=ir.DataType.FLOAT)
        return op.Cast(getattr(op, self.operator)(wide, s, _outputs=["n"]))

    def _is_cast(self, context: MatchContext, x: Value, s: Value, n: Value) -> bool:
        node = node_of(n)
        return (
            x.dtype is ir.DataType.FLOAT16
            and context.root.attributes.get_int("to") == x.dtype
            and len(node.outputs) == 1
            and node.attributes.get_int("stash_type", 1) == ir.DataType.FLOAT
            and holds(s, 1.0)
        )

    def _without_cast(self, op: Op, x: Value, s: Value, n: Value) -> Value:
        ones = constant_of(s)
        assert ones is not None, "check has seen to it"
        scale = op.Constant(value=ir.tensor(ones.numpy().astype(np.float16)))
        return _call(op, self.operator, x, scale, **node_of(n).attributes)


def _followed(operator: str, follower: str, place: int, op: Op, x: Var, s: Var, w: Var) -> Var:
    """The pattern of a normalisation without bias that a parameter follows."""
    operands = [getattr(op, operator)(x, s, _outputs=["n"])]
    operands.insert(place, w)
    return getattr(op, follower)(*operands)


def _shifted(op: Op, deviation: Var, epsilon: Var) -> Var:
    square = pattern.OrValue([op.Mul(deviation, deviation), op.Pow(deviation, number(2.0))])
    variance = op.ReduceMean(square, _allow_other_inputs=True, _outputs=["variance"])
    return commuted(op, "Add", variance, epsilon)


def _root(op: Op, shifted: Var) -> Var:
    return pattern.OrValue([op.Sqrt(shifted), op.Pow(shifted, number(0.5))])


def _inverse_root(op: Op, shifted: Var) -> Var:
    root = _root(op, shifted)
    inverse = [op.Reciprocal(root), op.Div(number(1.0), root)]
    return pattern.OrValue([*inverse, op.Pow(shifted, number(-0.5))])


def _first_axis(node: ir.Node, x: Value) -> int | None:
    """Return the first axis over which a mean is taken, from the end, if it is of the last."""
    dims = dims_of(x)
    if not dims or not node.attributes.get_int("keepdims", 1):
        return None
    axes = node.attributes.get_ints("axes") or ()
    if len(node.inputs) > 1:
        axes = ints_of(node.inputs[1]) or ()
    if not axes:
        return None
    reduced = {axis % len(dims) for axis in axes}
    return -len(reduced) if reduced == {*range(len(dims))[-len(reduced) :]} else None


def sizes_of_last(x: Value, axis: int | None) -> list[int] | None:
    """Return the sizes from an axis on, if all are known and none is 0."""
    dims = dims_of(x)
    if dims is None or axis is None or not -len(dims) <= axis < len(dims):
        return None
    sizes = [dim for dim in dims[axis:] if isinstance(dim, int) and dim]
    return sizes if len(sizes) == len(dims[axis:]) else None


def holds(value: Value | None, number: float) -> bool:
    """Whether a value is a constant of nothing but a number."""
    tensor = constant_of(value)
    return tensor is not None and bool(np.all(tensor.numpy() == number))


def _row(value: Value, sizes: list[int]) -> Array | None:
    """Return a constant as it acts on rows of the given sizes, if it is one for all rows."""
    tensor = constant_of(value)
    if tensor is None:
        return None
    array = tensor.numpy()
    outer, inner = array.shape[: -len(sizes)], array.shape[-len(sizes) :]
    fits = all(a in (1, b) for a, b in zip(reversed(inner), reversed(sizes), strict=False))
    if {*outer} - {1} or not fits:
        return None
    return np.array(np.broadcast_to(array.reshape(inner), sizes))


def _epsilon(value: Value, x: Value) -> float | None:
    """Return a number above 0 that an attribute can hold."""
    tensor = constant_of(value)
    if tensor is None or tensor.size != 1 or (len(tensor.shape) and widens(x, value)):
        return None
    found = float(tensor.numpy().item())
    small = np.finfo(np.float32)
    return found if float(small.tiny) <= found <= float(small.max) else None


def _call(op: Op, operator: str, *inputs: Value, **attributes: object) -> Value:
    return getattr(op, operator)(*inputs, **attributes)
