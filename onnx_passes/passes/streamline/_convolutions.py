"""Rules that move factors and terms behind Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes._support.rules import TermRule, Values, call
from onnx_passes.passes.base import Value
from onnx_passes.passes.streamline._move_behind import Found, behind
from onnx_passes.passes.streamline._products import may_skip
from onnx_passes.passes.streamline._terms import along, at_axis, floats, rank_of


def conv_rules(kind: str) -> list[TermRule]:
    """Return the rules for the factor of data and of weights, without a bias and with one."""
    inputs = (("x", call("Mul", "w", "s")), (call("Mul", "x", "s"), "w"))
    return [
        behind(
            call(kind, *operands, *bias, result="y"),
            _factors(kind, of_weights=operands[0] == "x"),
            *("Mul", "Add"),
            dropped="b",
        )
        for operands in inputs
        for bias in ((), ("b",))
    ]


def _factors(kind: str, *, of_weights: bool) -> Callable[[Values], Found]:
    axis = 0 if kind == "Conv" else 1
    """Axis of the output channels of weights; those of a group in a ConvTranspose."""

    def row(w: Value, s: Value, y: Value) -> Array | None:
        array, rank = floats(s), rank_of(w)
        if array is None or rank is None or rank < 2 or not array.all() or _is_empty(w):
            return None
        groups = node_of(y).attributes.get_int("group", 1) or 1
        if of_weights:
            found = along(array, axis, rank)
            tiles = kind == "ConvTranspose" and found is not None and found.size > 1
            return np.tile(found, groups) if tiles and found is not None else found
        return _of_inputs(along(array, 1, rank), w, axis, groups)

    def find(v: Values) -> Found:
        found, rank = row(v["w"], v["s"], v["y"]), rank_of(v["w"])
        bias = floats(v["b"]) if "b" in v else np.zeros(0)
        if found is None or rank is None or bias is None or bias.ndim != 1:
            return None
        factor = found.reshape(()) if found.size == 1 else at_axis(found, 1, rank)[0]
        return [factor, at_axis(bias, 1, rank)[0]] if "b" in v else [factor]

    return find


def _of_inputs(row: Array | None, w: Value, axis: int, groups: int) -> Array | None:
    """Return factors of input channels as those of output channels.

    That is so if there is one, or if each output channel reads one input channel.
    """
    if row is None or row.size == 1:
        return row
    shape = [] if w.shape is None else w.shape.numpy()
    inputs, outputs = (shape[1], shape[0]) if axis == 0 else (shape[0], shape[1] * groups)
    depthwise = inputs == (1 if axis == 0 else groups) and row.size == groups
    return np.repeat(row, outputs // groups) if depthwise else None


def conv_terms() -> list[TermRule]:
    """Return the rules for a term in front of a Conv, without a bias and with one."""
    inputs = (call("Add", "x", "a"), "w")
    return [
        behind(call("Conv", *inputs, *bias, result="y"), _term, "Add") for bias in ((), ("b",))
    ]


def _term(v: Values) -> Found:
    """Find what a term becomes by a Conv that pads nothing."""
    array, weights, rank = floats(v["a"]), floats(v["w"]), rank_of(v["x"])
    if array is None or weights is None or rank != weights.ndim or not weights.size:
        return None
    if floats(v["x"]) is not None or may_skip(node_of(v["y"])):
        return None
    row = along(array, 1, rank)
    groups = node_of(v["y"]).attributes.get_int("group", 1) or 1
    channels, outputs = weights.shape[1] * groups, weights.shape[0]
    if row is None or row.size not in (1, channels) or outputs % groups:
        return None
    full = np.broadcast_to(row.astype(np.float64), (channels,)).reshape(groups, 1, -1)
    taps = weights.astype(np.float64).reshape(*weights.shape[:2], -1).sum(-1)
    sums = (taps.reshape(groups, outputs // groups, -1) * full).sum(-1).reshape(-1)
    return [at_axis(sums.astype(np.float32), 1, rank)[0]]


def _is_empty(w: Value) -> bool:
    """Whether weights may have no element: engines disagree on sums of nothing."""
    return w.shape is None or not w.shape.is_static() or 0 in w.shape.numpy()


__all__ = ["conv_rules", "conv_terms"]
