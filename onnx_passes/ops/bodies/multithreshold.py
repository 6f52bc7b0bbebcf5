"""MultiThreshold: how many thresholds a value reaches."""

from __future__ import annotations

from onnx import TensorProto

from onnx_passes.ops.bodies.attach import body
from onnx_passes.ops.bodies.domains import CUSTOM, QONNX_ALIASES
from onnx_passes.ops.bodies.writer import BodyCall, Writer

_LAYOUT_BY_RANK = {2: "NC", 3: "NWC", 4: "NCHW"}


def channel_axis(call: BodyCall, rank: int | None) -> int | None:
    """Return the axis that QONNX's MultiThreshold has a row of thresholds for.

    Args:
        call: The node.
        rank: Rank of its first input; None where it is not known.

    Returns:
        The axis; None if the layout is left to the rank and that is not known.
    """
    layout = call.text("data_layout", "")
    if not layout:
        if rank is None:
            return None
        layout = _LAYOUT_BY_RANK.get(rank, "")
    return layout.index("C") if "C" in layout else 1


@body("MultiThreshold", *QONNX_ALIASES)
def multi_threshold(to: Writer) -> str:
    """``count(x >= thresholds[channel]) * out_scale + out_bias``."""
    x, thresholds = to.inputs
    shape = to.call.shape(0)
    rank = len(shape) if shape is not None else len(to.call.text("data_layout", "")) or None
    axis = channel_axis(to.call, rank)
    if rank is None or axis is None:
        table = _table_of_any_rank(to, x, thresholds)
    else:
        # [channels, steps] becomes [1, channels, 1, 1, steps] beside [N, C, H, W, 1].
        table = to.unsqueeze(thresholds, [i for i in range(rank) if i != axis])
    steps = to.Cast(to.at_least(to.unsqueeze(x, [-1]), table), to=TensorProto.FLOAT)
    count = to.sum_last(steps, rank)
    scale, bias = to.call.number("out_scale", 1.0), to.call.number("out_bias", 0.0)
    return to.Add(to.Mul(count, to.number(scale)), to.number(bias))


def _table_of_any_rank(to: Writer, x: str, thresholds: str) -> str:
    """Reshape the thresholds by the rank that the value turns out to have."""
    rank = to.Size(to.Shape(x))
    is_three = to.Cast(to.Equal(rank, to.integer(3)), to=TensorProto.INT64)
    axis = to.Add(is_three, to.integer(1))
    behind = to.Sub(to.Sub(rank, axis), to.integer(1))
    ones = [to.Expand(to.shape(1), to.Reshape(count, to.shape(1))) for count in (axis, behind)]
    dims = to.Shape(thresholds)
    channels = to.Gather(dims, to.shape(0))
    levels = to.Gather(dims, to.shape(1))
    return to.Reshape(thresholds, to.Concat(ones[0], channels, ones[1], levels, axis=0))


@body("MultiThreshold", CUSTOM)
def weighted_thresholds(to: Writer) -> str:
    """``sum(weights * (x >= thresholds))`` over the last axis, whatever the layout.

    Thresholds and weights broadcast to the shape of the input with one more axis.
    """
    x, thresholds, weights = to.inputs
    steps = to.Cast(to.at_least(to.unsqueeze(x, [-1]), thresholds), to=TensorProto.FLOAT)
    ranks = [to.call.shape(index) for index in range(3)]
    known = None
    if ranks[0] is not None and ranks[1] is not None and ranks[2] is not None:
        known = max(len(ranks[0]), len(ranks[1]) - 1, len(ranks[2]) - 1)
    return to.sum_last(to.Mul(weights, steps), known)
