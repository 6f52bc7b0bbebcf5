"""Operators that fold an axis into one element, and those built on such folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import operator
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.semantics import Primitives, Scalar, Unsupported, is_float, scalars


def reduction_axes(call: Call, rank: int) -> list[int]:
    """Return the axes that a Reduce node folds.

    Where none are named that is all of them, or, with ``noop_with_empty_axes``, none.
    """
    axes = call.static_ints(1) if call.given(1) is not None else call.integers("axes")
    if not axes:
        return [] if call.integer("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({normalize_axis(a, rank) for a in axes})


def fold(
    x: Tensor, axes: Sequence[int], keep: bool, function: Callable[[list[Scalar]], Scalar]
) -> Tensor:
    """Replace the elements along ``axes`` by a function of them."""
    rank = len(x.shape)
    rest = [i for i in range(rank) if i not in axes]
    moved = x.data.transpose([*rest, *axes])
    outer = moved.shape[: len(rest)]
    values = [function(list(moved[index].reshape(-1))) for index in _indices(outer)]
    data = scalars(values, outer)
    if keep:
        data = data.reshape([1 if i in axes else d for i, d in enumerate(x.shape)])
    return Tensor(data, x.dtype)


def _indices(shape: tuple[int, ...]) -> list[Any]:
    # A trailing Ellipsis keeps a 0-dimensional result an array.
    return [(*index, ...) for index in np.ndindex(*shape)]


def _reducer(
    name: str, function: Callable[[Call, Primitives, ir.DataType, list[Scalar]], Scalar]
) -> None:
    @operator(name)
    def _(call: Call) -> Tensor:
        x = call.required(0)
        a = call.primitives(x.dtype)
        axes = reduction_axes(call, len(x.shape))
        if not axes and call.integer("noop_with_empty_axes", 0):
            return x
        keep = bool(call.integer("keepdims", 1))
        return fold(x, axes, keep, lambda terms: function(call, a, x.dtype, terms))


def _sum(call: Call, _: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    return call.semantics.total(terms, dtype)


def _mean(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    if not terms:
        raise Unsupported("the mean of nothing")
    # ONNX Runtime divides the sum it has for ReduceSum, bit for bit.
    return a.div(call.semantics.total(terms, dtype), call.literal(len(terms), dtype))


def _extreme(name: str) -> Callable[[Call, Primitives, ir.DataType, list[Scalar]], Scalar]:
    def extreme(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
        if not terms:
            raise Unsupported("the extreme of nothing")
        if is_float(dtype) and not call.semantics.expands and len(terms) > 1:
            # Which NaN a kernel sees depends on its order, so that only a function is known.
            return a.function(f"Reduce_{name}", *terms)
        return reduce(getattr(a, name), terms)

    return extreme


def _product(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    if is_float(dtype) and not call.semantics.expands and len(terms) > 2:
        return a.function("Product", *terms)
    return reduce(a.mul, terms) if terms else call.literal(1, dtype)


def _squares(call: Call, _: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    return call.semantics.dot(terms, terms, dtype)


def _l1(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    return call.semantics.total([a.abs(t) for t in terms], dtype)


def _l2(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    return a.sqrt(_squares(call, a, dtype, terms))


def _log_sum(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    return a.log(call.semantics.total(terms, dtype))


def _log_sum_exp(call: Call, a: Primitives, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    if is_float(dtype) and not call.semantics.expands:
        return a.function("LogSumExp", *terms)
    if not is_float(dtype):
        # Signed and unsigned integers share a sort; their exponentials are not the same.
        return a.function(f"LogSumExp of {dtype.name}", *terms)
    return a.log(call.semantics.total([a.exp(t) for t in terms], dtype))


_reducer("ReduceSum", _sum)
_reducer("ReduceMean", _mean)
_reducer("ReduceMax", _extreme("max"))
_reducer("ReduceMin", _extreme("min"))
_reducer("ReduceProd", _product)
_reducer("ReduceSumSquare", _squares)
_reducer("ReduceL1", _l1)
_reducer("ReduceL2", _l2)
_reducer("ReduceLogSum", _log_sum)
_reducer("ReduceLogSumExp", _log_sum_exp)


@operator("ArgMax", "ArgMin")
def _(call: Call) -> Tensor:
    x = call.required(0)
    axis = normalize_axis(call.integer("axis", 0), len(x.shape))
    keep = bool(call.integer("keepdims", 1))
    found = fold(x, [axis], keep, lambda terms: _position(call, x.dtype, terms))
    return Tensor(found.data, ir.DataType.INT64)


def _position(call: Call, dtype: ir.DataType, terms: list[Scalar]) -> Scalar:
    """Return where the extreme of some terms is: the first place, or the last one."""
    if not terms:
        raise Unsupported("the place of the extreme of nothing")
    last = bool(call.integer("select_last_index", 0))
    least = call.node.op_type == "ArgMin"
    index, semantics = ir.DataType.INT64, call.semantics
    if is_float(dtype) and not semantics.expands:
        # What a NaN is held for depends on the kernel.
        return semantics.function(f"{call.node.op_type}[{last:d}]", index, *terms)
    best, place = terms[0], call.literal(0, index)
    for i, term in enumerate(terms[1:], 1):
        pair = (term, best) if least else (best, term)
        better = semantics.apply("less_equal" if last else "less", dtype, *pair)
        best = semantics.apply("select", dtype, better, term, best)
        place = semantics.apply("select", index, better, call.literal(i, index), place)
    return place


@operator("CumSum")
def _(call: Call) -> Tensor:
    x = call.required(0)
    axis = normalize_axis(call.static_ints(1)[0], len(x.shape))
    moved = np.moveaxis(x.data, axis, -1)
    if call.integer("reverse", 0):
        moved = moved[..., ::-1]
    exclusive = call.integer("exclusive", 0)
    result = np.empty(moved.shape, np.object_)
    for index in np.ndindex(*moved.shape):
        terms = list(moved[index[:-1]][: index[-1] + (0 if exclusive else 1)])
        result[index] = call.semantics.total(terms, x.dtype)
    if call.integer("reverse", 0):
        result = result[..., ::-1]
    return Tensor(np.moveaxis(result, -1, axis), x.dtype)


@operator("Softmax", "LogSoftmax")
def _(call: Call) -> Tensor:
    x = call.required(0)
    rank, op_type = len(x.shape), call.node.op_type
    axis = normalize_axis(call.integer("axis", -1 if call.opset >= 13 else 1), rank)
    # Before opset 13 all axes from this one on were flattened together.
    axes = [axis] if call.opset >= 13 else list(range(axis, rank))
    a = call.primitives(x.dtype)
    rest = [i for i in range(rank) if i not in axes]
    moved = x.data.transpose([*rest, *axes])
    result = np.empty(moved.shape, np.object_)
    for index in np.ndindex(*moved.shape[: len(rest)]):
        row = moved[(*index, ...)]
        values = _softmax(call, a, x.dtype, list(row.reshape(-1)), op_type)
        result[(*index, ...)] = scalars(values, row.shape)
    return Tensor(result.transpose(np.argsort([*rest, *axes])), x.dtype)


def _softmax(
    call: Call, a: Primitives, dtype: ir.DataType, row: list[Scalar], op_type: str
) -> list[Scalar]:
    if not call.semantics.expands:
        return [a.function(f"{op_type}[{i}]", *row) for i in range(len(row))]
    powers = [a.exp(v) for v in row]
    total = call.semantics.total(powers, dtype)
    if op_type == "Softmax":
        return [a.div(p, total) for p in powers]
    return [a.sub(v, a.log(total)) for v in row]
