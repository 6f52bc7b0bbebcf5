"""What operators along some axes share: rows of elements, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Elements, Scalar


def gathered(x: Elements, axes: list[int]) -> tuple[Elements, tuple[int, ...]]:
    """Return an array with some axes flattened into one at the end, and the sizes before.

    Args:
        x: Elements of any shape.
        axes: Axes counted from the front.
    """
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = x.transpose([*rest, *axes])
    outer = moved.shape[: len(rest)]
    size = int(np.prod(moved.shape[len(rest) :], dtype=np.int64))
    return moved.reshape((*outer, size)), outer


def finite_top(a: TypedPrimitives, terms: Elements) -> Elements:
    """Return the greatest element along the last axis, within the finite numbers.

    Args:
        a: Primitives of the element type.
        terms: Elements [..., n].
    """
    return np.asarray(a.clip(a.fold("max", terms), *a.extremes()))


def along_axes(
    call: Call,
    x: Tensor,
    axes: list[int],
    label: str,
    function: Callable[[Call, TypedPrimitives, Elements], Elements],
) -> Tensor:
    """Return a tensor whose elements depend on all elements along some axes.

    Args:
        call: The call, for its arithmetic.
        x: A tensor of any shape, which the result has, too.
        axes: The axes, counted from the front.
        label: Name of the function, for an arithmetic that does not expand formulas.
        function: Gets rows [..., n] of the elements along the axes, and returns as many.
    """
    rest = [i for i in range(len(x.shape)) if i not in axes]
    rows, outer = gathered(x.data, axes)
    a = call.primitives(x.dtype)
    if call.semantics.expands:
        found = function(call, a, rows)
    else:
        found = opaque_rows(call, a, rows, label)
    shape = (*outer, *(x.shape[i] for i in axes))
    return Tensor(found.reshape(shape).transpose(np.argsort([*rest, *axes])), x.dtype)


def opaque_rows(call: Call, a: TypedPrimitives, rows: Elements, label: str) -> Elements:
    """Take each element of a row as a function of the whole row.

    Args:
        call: The call, for its arithmetic.
        a: Primitives of the element type.
        rows: Elements [..., n].
        label: Name of the function.
    """
    parts = [
        call.semantics.along(lambda row, i=i: a.function(f"{label}[{i}]", *row), rows)
        for i in range(rows.shape[-1])
    ]
    return np.stack(parts, -1) if parts else rows


def summed(call: Call, function: Callable[..., Scalar], *rows: Elements) -> Elements:
    """Return a function of rows, as columns that broadcast with them.

    Args:
        call: The call, for its arithmetic.
        function: Gets a row of each array.
        *rows: Elements [..., n].
    """
    return call.semantics.along(function, *rows)[..., None]
