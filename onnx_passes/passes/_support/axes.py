"""Axes that operators name, and how those of two operators come together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnx_passes.passes._support.shapes import dims_of, ints_of


def axes_of(node: ir.Node) -> list[int] | None:
    """Return the axes that a node names, as they are; None if it computes or names none.

    They are an attribute, or the second input in later opsets.
    """
    if "axis" in node.attributes:
        return [node.attributes.get_int("axis") or 0]
    if "axes" in node.attributes:
        return list(node.attributes.get_ints("axes") or ()) or None
    return (ints_of(node.inputs[1]) or None) if len(node.inputs) > 1 else None


def rank_of(value: ir.Value | None) -> int | None:
    """Return the rank of a value, if it is known."""
    dims = dims_of(value)
    return None if dims is None else len(dims)


def counted(axes: Iterable[int] | None, rank: int | None) -> list[int] | None:
    """Return axes counted from the front, in order.

    None where that takes a rank that is not known, and where an axis is named twice.

    Args:
        axes: Axes from either end; None if they are not known.
        rank: Rank of the tensor; None if it is not known.
    """
    if axes is None:
        return None
    found = list(axes)
    if rank is None and min(found, default=0) < 0:
        return None
    front = sorted(axis + (rank or 0) if axis < 0 else axis for axis in found)
    return front if len(set(front)) == len(front) else None


def beyond(taken: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Return where axes of a tensor lie in one that has the axes ``taken`` besides them.

    Args:
        taken: Axes of the bigger tensor that the other one lacks.
        axes: Axes of the smaller tensor, from the front.
    """
    places = (k for k in range(len(taken) + max(axes, default=-1) + 1) if k not in taken)
    all_places = list(places)
    return [all_places[axis] for axis in axes]
