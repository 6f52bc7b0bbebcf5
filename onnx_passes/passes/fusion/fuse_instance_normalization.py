"""Replace the formula of InstanceNormalization by the operator."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import commuted, has_opset, node_of, scalar_of, spells
from onnx_passes.passes.common.normalization_matching import NUMBERS, NormalizationPass
from onnx_passes.passes.common.shapes import dims_of, ints_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled, ints


def _over(dims: str, *axes: int) -> Hint:
    """Return what means over some axes of one tensor have in common."""
    operands = ints(" ".join(map(str, axes)))
    return Hint(
        {"x": data(dims), "mean.1": operands, "variance.1": operands},
        {"ReduceMean.axes": (list(axes),)},
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseInstanceNormalization(NormalizationPass):
    """Replace the formula of InstanceNormalization by the operator.

    Before: ``(x - mean) / Sqrt(ReduceMean((x - mean) ** 2) + epsilon) * scale + bias`` with
            ``mean = ReduceMean(x)`` over all axes but the first two, and constants by channel
    After:  ``InstanceNormalization(x, scale, bias)``

    Found with a square as a power or a product, with a product with the reciprocal for the
    quotient, and in any order of sums and products.

    Sound because this is how the operator is defined. The contract is a tolerance: a kernel
    sums in another order.

    Leaves alone: models before opset 6; means over other axes, or that drop axes; an unknown
    number of channels; a scale or bias that is missing, not constant, or not by channel; other
    types than float; inner values that are read elsewhere; an epsilon of 0, or one that
    callers may override. Functions, where shapes are unknown.
    """

    operator = "InstanceNormalization"
    since = 6
    centred = True
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "epsilon": filled("", 1e-5, 1e-3, 0.1),
                **{
                    name: tuple(
                        Spec(dims, mixed=(0.5, 1.0, 2.0, -1.5))
                        for dims in ("c 1", "1 c 1", "c 1 1")
                    )
                    for name in "wb"
                },
            },
            {"ReduceMean.keepdims": (1, None), "ReduceMean.noop_with_empty_axes": (None,)},
            (ir.DataType.FLOAT,),
            cases=(_over("n c l", 2), _over("n c h w", 2, 3), _over("n c h w", 3, 2)),
        )
    }

    def rules(self) -> Iterator[Rule]:
        for form in (self._quotient, self._product, self._swapped):
            for place in (0, 1):
                yield Rule(partial(_scaled, form, place), _instance, _is_instance)


def _scaled(
    form: Callable[[Op, Var, Var], Var],
    place: int,
    op: Op,
    x: Var,
    epsilon: Var,
    w: Var,
    b: Var,
) -> Var:
    """The pattern of a formula with scale and bias behind it."""
    operands = [commuted(op, "Mul", form(op, x, epsilon), w)]
    operands.insert(place, b)
    return op.Add(*operands)


def _is_instance(
    context: MatchContext,
    x: Value,
    epsilon: Value,
    w: Value,
    b: Value,
    variance: Value,
    mean: Value,
) -> bool:
    dims, means = dims_of(x), [node_of(variance), node_of(mean)]
    if dims is None or len(dims) < 3 or 0 in dims or x.dtype is not ir.DataType.FLOAT:
        return False
    further = [value for node in means for value in node.inputs[1:]]
    return (
        has_opset(context, FuseInstanceNormalization.since)
        and all(_is_spatial(node, len(dims)) for node in means)
        and _epsilon(epsilon) is not None
        and None not in (_by_channel(w, x), _by_channel(b, x))
        and spells(context, NUMBERS, x, epsilon, w, b, *further)
    )


def _instance(op: Op, x: Value, epsilon: Value, w: Value, b: Value, **_: object) -> Value:
    rows = [
        op.Constant(value=ir.tensor(np.array(_by_channel(value, x), np.float32)))
        for value in (w, b)
    ]
    return op.InstanceNormalization(x, *rows, epsilon=_epsilon(epsilon))


def _is_spatial(mean: ir.Node, rank: int) -> bool:
    """Whether a mean is taken over all axes but the first two, which it keeps."""
    axes = mean.attributes.get_ints("axes") or ()
    if len(mean.inputs) > 1:
        axes = ints_of(mean.inputs[1]) or ()
    kept = mean.attributes.get_int("keepdims", 1)
    return bool(kept) and {axis % rank for axis in axes} == {*range(2, rank)}


def _epsilon(value: Value) -> float | None:
    """Return a number above 0 of one element, if it is one in single precision."""
    found, tensor = scalar_of(value), constant_of(value)
    small = float(np.finfo(np.float32).tiny)
    if found is None or tensor is None or len(tensor.shape) > 1 or not found >= small:
        return None
    return found


def _by_channel(value: Value, x: Value) -> list[float] | None:
    """Return the numbers of a constant that broadcasts by channel, one for each."""
    tensor, dims = constant_of(value), dims_of(x)
    if tensor is None or dims is None or not isinstance(dims[1], int):
        return None
    shape = [int(size) for size in tensor.shape.numpy()]
    if len(shape) > len(dims):
        return None
    shape = [1] * (len(dims) - len(shape)) + shape
    if shape != [1, dims[1], *[1] * (len(dims) - 2)]:
        return None
    numbers: list[float] = tensor.numpy().reshape(-1).tolist()
    return numbers
