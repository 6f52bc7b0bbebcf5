"""Rules that move factors and terms behind Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.streamline._terms import (
    Array,
    along,
    at_axis,
    constant,
    floats,
    rank_of,
)


@dataclass(frozen=True)
class Rule:
    """A pattern with its guard and its replacement."""

    pattern: Callable[..., Any]
    check: Callable[..., bool]
    rewrite: Callable[..., Value]


def conv_rules(kind: str) -> list[Rule]:
    """Return the rules for the factor of data and of weights, without a bias and with one."""
    return [
        _factor(kind, behind_weights=behind_weights, with_bias=with_bias)
        for behind_weights in (True, False)
        for with_bias in (False, True)
    ]


def _factor(kind: str, *, behind_weights: bool, with_bias: bool) -> Rule:
    axis = 0 if kind == "Conv" else 1
    """Axis of the output channels of weights; those of a group in a ConvTranspose."""

    def pattern(op: Op, x: Var, w: Var, s: Var, b: Var) -> Var:
        data, weights = (x, op.Mul(w, s)) if behind_weights else (op.Mul(x, s), w)
        inputs = (data, weights, b) if with_bias else (data, weights)
        return getattr(op, kind)(*inputs, _outputs=["y"])

    def row(w: Value, s: Value, y: Value) -> Array | None:
        array, rank = floats(s), rank_of(w)
        if array is None or rank is None or rank < 2 or not array.all() or _is_empty(w):
            return None
        groups = node_of(y).attributes.get_int("group", 1) or 1
        if behind_weights:
            found = along(array, axis, rank)
            tiles = kind == "ConvTranspose" and found is not None and found.size > 1
            return np.tile(found, groups) if tiles and found is not None else found
        return _of_inputs(along(array, 1, rank), w, axis, groups)

    def check(
        context: Any, w: Value, s: Value, y: Value, b: Value | None = None, **_: Any
    ) -> bool:
        bias = None if b is None else floats(b)
        return row(w, s, y) is not None and (
            not with_bias or (bias is not None and bias.ndim == 1)
        )

    def rewrite(
        op: Op, x: Value, w: Value, s: Value, y: Value, b: Value | None = None
    ) -> Value:
        found, rank = row(w, s, y), rank_of(w)
        assert found is not None, "check has seen to it"
        assert rank is not None, "check has seen to it"
        factor = found.reshape(()) if found.size == 1 else at_axis(found, 1, rank)[0]
        result: Value = getattr(op, kind)(x, w, **node_of(y).attributes)
        result = op.Mul(result, constant(op, factor))
        bias = None if b is None else floats(b)
        if bias is not None:
            result = op.Add(result, constant(op, at_axis(bias, 1, rank)[0]))
        return result

    return Rule(pattern, check, rewrite)


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


def conv_term(*, with_bias: bool) -> Rule:
    """Return the rule for a term in front of a Conv that pads nothing."""

    def pattern(op: Op, x: Var, a: Var, w: Var, b: Var) -> Var:
        inputs = (op.Add(x, a), w, b) if with_bias else (op.Add(x, a), w)
        return op.Conv(*inputs, _outputs=["y"])

    def term(x: Value, a: Value, w: Value, y: Value) -> Array | None:
        array, weights, rank = floats(a), floats(w), rank_of(x)
        if array is None or weights is None or rank != weights.ndim or not weights.size:
            return None
        attributes = node_of(y).attributes
        if any(attributes.get_ints("pads") or ()):
            return None
        if attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            return None
        row = along(array, 1, rank)
        groups = attributes.get_int("group", 1) or 1
        channels, outputs = weights.shape[1] * groups, weights.shape[0]
        if row is None or row.size not in (1, channels) or outputs % groups:
            return None
        full = np.broadcast_to(row.astype(np.float64), (channels,)).reshape(groups, 1, -1)
        taps = weights.astype(np.float64).reshape(*weights.shape[:2], -1).sum(-1)
        sums = (taps.reshape(groups, outputs // groups, -1) * full).sum(-1).reshape(-1)
        return at_axis(sums.astype(np.float32), 1, rank)[0]

    def check(
        context: Any, x: Value, a: Value, w: Value, y: Value, b: Value | None = None
    ) -> bool:
        return floats(x) is None and term(x, a, w, y) is not None

    def rewrite(
        op: Op, x: Value, a: Value, w: Value, y: Value, b: Value | None = None
    ) -> Value:
        found = term(x, a, w, y)
        assert found is not None, "check has seen to it"
        inputs = (x, w) if b is None else (x, w, b)
        made: Value = op.Add(op.Conv(*inputs, **node_of(y).attributes), constant(op, found))
        return made

    return Rule(pattern, check, rewrite)


def _is_empty(w: Value) -> bool:
    """Whether weights may have no element: engines disagree on sums of nothing."""
    return w.shape is None or not w.shape.is_static() or 0 in w.shape.numpy()


__all__ = ["Rule", "conv_rules", "conv_term"]
