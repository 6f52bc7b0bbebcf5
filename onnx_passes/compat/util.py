"""Helpers for passes written for the seed system, under its module name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.digest import canonical_hash
from onnx_passes.ops.bodies import QONNX_ALIASES
from onnx_passes.passes.base import Op, Pass, Value
from onnx_passes.passes.constants import constant, is_constant
from onnx_passes.passes.registry import PassT

__all__ = [
    "collect_attrs",
    "constant_match",
    "dropwhile",
    "evaluate_model",
    "false_like",
    "get_const_or_none",
    "get_range",
    "identical_constants",
    "inject_pre_post_condition",
    "is_constant",
    "is_isomorphic",
    "is_same_op",
    "is_scalar",
    "is_signed",
    "load_reference_data",
    "ones_like",
    "true_like",
    "unbroadcast",
    "zeros_like",
]

QONNX, BREVITAS = QONNX_ALIASES
"""Names of QONNX's domain."""


def collect_attrs(
    node: ir.Node, attrs: Mapping[str, tuple[ir.AttributeType, object]]
) -> dict[str, ir.Attr]:
    """Return the attributes of a node, with defaults for those that it does not have.

    Args:
        node: The node.
        attrs: Types and defaults by name.
    """
    return {
        name: node.attributes.get(name) or ir.Attr(name, kind, default)
        for name, (kind, default) in attrs.items()
    }


def is_signed(data_type: ir.DataType) -> bool:
    """Whether a type has numbers below 0."""
    return data_type.is_signed()


def is_scalar(v: Value) -> bool:
    """Whether a value is known to have one element."""
    return v.shape is not None and v.shape.is_static() and np.prod(v.shape.numpy()) == 1


def get_const_or_none(v: Value | None) -> Array | None:
    """Return the tensor that a value always holds, or None."""
    return constant(v) if v is not None and is_constant(v) else None


def identical_constants(a: Value, b: Value) -> bool:
    """Whether two values are constants with equal elements, after broadcasting.

    Args:
        a: A value.
        b: The other value.
    """
    first, second = get_const_or_none(a), get_const_or_none(b)
    return first is not None and second is not None and bool(np.all(first == second))


def constant_match(a: object, b: object) -> bool:
    """Whether two constants, given as values or as numbers, are equal everywhere.

    Args:
        a: A value, a number or an array.
        b: Likewise.
    """
    first, second = (get_const_or_none(x) if isinstance(x, ir.Value) else x for x in (a, b))
    return (first is not None or second is not None) and bool(np.all(first == second))


def inject_pre_post_condition(
    cls: PassT,
    pre: Callable[[Pass, ir.Model], None],
    post: Callable[[Pass, ir.passes.PassResult], None],
) -> PassT:
    """Let a pass check more before and after it runs.

    Args:
        cls: The class; changed in place.
        pre: Called with the pass and the model, before the conditions that it has.
        post: Called with the pass and its result, after them.
    """
    own_pre, own_post = cls.requires, cls.ensures

    def requires(self: Pass, model: ir.Model) -> None:
        pre(self, model)
        own_pre(self, model)

    def ensures(self: Pass, result: Any) -> None:
        own_post(self, result)
        post(self, result)

    changed: Any = cls
    changed.requires, changed.ensures = requires, ensures
    return cls


def is_same_op(a: ir.Node | None, b: ir.Node | None) -> bool:
    """Whether two nodes call one operator in one way; their inputs may differ.

    Args:
        a: A node; None for none.
        b: The other node; None for none.
    """
    if a is None or b is None or a is b:
        return a is b

    def form(node: ir.Node) -> tuple[object, ...]:
        return node.op_identifier(), node.version, node.attributes, len(node.inputs)

    return bool(form(a) == form(b))


def is_isomorphic(model: ir.Model, other: ir.Model) -> bool:
    """Whether two models are the same but for names and the order of nodes.

    Args:
        model: A model.
        other: The other model.
    """
    return canonical_hash(model) == canonical_hash(other)


def get_range(value: Value) -> tuple[Array | None, Array | None]:
    """Return bounds of a value, as ``RangeAnnotation`` of the seed system notes them.

    Returns:
        Least and greatest elements: those of a constant; those noted in the metadata, as
        JSON under ``range``; or those of the type. None if there are none.
    """
    tensor = get_const_or_none(value)
    if tensor is not None:
        return tensor, tensor
    low, high = json.loads(value.metadata_props.get("range", "[null, null]"))
    bounds = [
        getattr(value.dtype, end, None) if noted is None else noted
        for noted, end in ((low, "min"), (high, "max"))
    ]
    least, greatest = (None if bound is None else np.asarray(bound) for bound in bounds)
    return least, greatest


def evaluate_model(
    model: ir.Model, inputs: Sequence[Array], full_context_dump: bool = False, **_: object
) -> tuple[list[Array], dict[str, Array]]:
    """Run a model on ONNX Runtime as it is written, on one thread of the processor.

    Args:
        model: Stays as it is.
        inputs: Data in the order of the inputs, of their shapes and types.
        full_context_dump: Whether to return inner values too.
        **_: What the seed system hands to a session; not used.

    Returns:
        The outputs in order, and values by name.
    """
    from onnx_passes.model.ort_sessions import open_session
    from onnx_passes.ops.scripted import inject_custom_ops

    copy = inject_custom_ops(model.clone())
    count = len(copy.graph.outputs)
    if full_context_dump:
        known = set(copy.graph.outputs)
        made = [v for n in copy.graph for v in n.outputs if v.name and v not in known]
        copy.graph.outputs.extend(made)
    session = open_session(ir.to_proto(copy))
    names = [value.name for value in session.get_outputs()]
    feeds = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=False)}
    found = session.run(names, feeds)
    return found[:count], dict(zip(names, found, strict=True))


def load_reference_data(p: Pass) -> tuple[list[Array], list[Array]]:
    """Load what the section ``reference`` of a pipeline file names, from the working folder.

    Returns:
        Inputs and expected outputs.
    """
    section = p.config.get("reference") or {}
    found = []
    for name in ("inp", "out"):
        items = section.get(name) or []
        arrays = [x if isinstance(x, np.ndarray) else np.load(x) for x in items]
        found.append(arrays)
    return found[0], found[1]


def _like(op: Op, x: Value, number: int) -> Value:
    scalar = op.CastLike(op.Constant(value_int=number), x)
    made: Value = op.Expand(scalar, op.Shape(x))
    return made


def ones_like(op: Op, x: Value) -> Value:
    """Make a tensor of ones with the type and shape of another.

    Args:
        op: Builds nodes.
        x: The value.
    """
    return _like(op, x, 1)


def zeros_like(op: Op, x: Value) -> Value:
    """Make a tensor of zeros with the type and shape of another.

    Args:
        op: Builds nodes.
        x: The value.
    """
    return _like(op, x, 0)


def _truth(op: Op, x: Value, number: int) -> Value:
    scalar = op.Cast(op.Constant(value_int=number), to=int(ir.DataType.BOOL))
    made: Value = op.Expand(scalar, op.Shape(x))
    return made


def true_like(op: Op, x: Value) -> Value:
    """Make a tensor that is true everywhere, with the shape of another.

    Args:
        op: Builds nodes.
        x: The value.
    """
    return _truth(op, x, 1)


def false_like(op: Op, x: Value) -> Value:
    """Make a tensor that is false everywhere, with the shape of another.

    Args:
        op: Builds nodes.
        x: The value.
    """
    return _truth(op, x, 0)


def unbroadcast(
    x: Array,
    squeeze: bool = True,
    approximate: bool = False,
    rtol: float = 1.0e-5,
    atol: float = 1.0e-4,
) -> Array:
    """Leave out what broadcasting repeats.

    Args:
        x: The array, of any shape and type.
        squeeze: Whether leading axes of size 1 go.
        approximate: Whether elements that are close count as equal.
        rtol: Relative tolerance of that.
        atol: Absolute tolerance of that.
    """
    for axis in range(x.ndim):
        first = np.take(x, [0], axis=axis) if x.shape[axis] else x
        same = np.array_equal(np.broadcast_to(first, x.shape), x)
        if same or (approximate and np.allclose(first, x, rtol, atol)):
            x = first
    while squeeze and x.ndim and x.shape[0] == 1:
        x = x[0]
    return x
