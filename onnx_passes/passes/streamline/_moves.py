"""Move nodes, factors and terms behind other operators."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.graph_edits import discard, supersede
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import TermCall, TermRule, Values, call
from onnx_passes.passes.common.shapes import ints_of, widens
from onnx_passes.passes.quantised._quantisers import table_of
from onnx_passes.passes.replace import Namer
from onnx_passes.passes.streamline._integer_ranges import cancels, may_skip
from onnx_passes.passes.streamline._rule_constants import (
    along,
    at_axis,
    constant,
    floats,
    move_row,
    narrow,
    rank_of,
)


class Mover:
    """Replaces nodes by new ones."""

    def __init__(self, model: ir.Model) -> None:
        """Look at the names of the model."""
        self.names = Namer(model)
        self._count = Counter(v.name or "" for n in all_nodes(model) for v in n.outputs)

    def node(
        self, like: ir.Node, inputs: list[ir.Value | None], *shapes: ir.Shape | None
    ) -> ir.Node:
        """Make a copy of a node with other inputs.

        Shapes are those of its outputs, None if not known.
        """
        made = ir.Node(
            like.domain,
            like.op_type,
            inputs,
            list(like.attributes.values()),
            overload=like.overload,
            num_outputs=len(shapes),
            name=self.names.node(like.op_type),
        )
        for out, old, shape in zip(made.outputs, like.outputs, shapes, strict=False):
            out.name = self.names.value(f"{like.op_type}_out")
            out.type, out.shape = old.type, shape
            self._count[out.name] += 1
        return made

    def constant(self, graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
        """Add a constant to a graph."""
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
        node.name = self.names.node("Constant")
        node.outputs[0].name = self.names.value("Constant_out")
        node.outputs[0].type = ir.TensorType(tensor.dtype)
        node.outputs[0].shape = ir.Shape(tensor.shape.numpy())
        graph.insert_before(graph[0], node)
        return node.outputs[0]

    def swap(self, old: ir.Node, inner: ir.Node, *outer: ir.Node) -> None:
        """Replace a node, and drop what nothing reads any more.

        ``inner`` comes first, then an ``outer`` node for each of the first outputs. Other
        outputs are those of ``inner`` at the same places, or not read.
        """
        graph = old.graph
        assert graph is not None, "the node is in a graph"
        graph.insert_before(old, [inner, *outer])
        before = [value.producer() for value in old.inputs if value is not None]
        made = [*(node.outputs[0] for node in outer), *inner.outputs[len(outer) :]]
        for value, new in zip(old.outputs, made, strict=False):
            new.type, new.shape = value.type, value.shape
            supersede(value, new, self._count)
        discard(old)
        _drop_unread(before)


def _drop_unread(nodes: list[ir.Node | None]) -> None:
    for node in nodes:
        unread = node is not None and not any(
            v.uses() or v.is_graph_output() for v in node.outputs
        )
        if node is not None and unread and node.graph is not None:
            discard(node)


Found: TypeAlias = "Sequence[Array | Value] | None"
"""Constants that can be moved behind an operator; None if there are none."""


def behind(
    before: TermCall,
    find: Callable[[Values], Found],
    *outer: str,
    dropped: str = "",
    name: str = "",
) -> TermRule:
    """Return the rule that puts constants behind an operator.

    Of operands of ``before`` that are sums or products, the new operator reads the first
    operand. ``outer`` is what is done with each constant; with fewer constants, the first
    ones. It does not read the operand ``dropped``.
    """

    def make(op: Op, values: Values, found: Sequence[Array | Value]) -> Value:
        first = [t if isinstance(t, str) else str(t.operands[0]) for t in before.operands]
        given = node_of(values[before.result]).attributes if before.result else {}
        made = getattr(op, before.kind)(*(values[n] for n in first if n != dropped), **given)
        for kind, number in zip(outer, found, strict=False):
            known = number if isinstance(number, ir.Value) else constant(op, number)
            made = getattr(op, kind)(made, known)
        return made

    return TermRule(before, find, make, name=name)


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
        if not of_weights and widens(v["x"], v["s"]):  # an image may have one channel
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


def are_signs(x: Value, term: Array) -> bool:
    """Whether thresholds and a term make -1 and 1, whose products hardware counts."""
    node = x.producer()
    if node is None or (node.domain, node.op_type) != (CUSTOM, "MultiThreshold"):
        return False
    found = table_of(*node.inputs[1:3])
    one = found is not None and found[0].shape[-1] == 1 and (found[1] == 2).all()
    return bool(one and term.size and (term == -1).all())


def _term(v: Values) -> Found:
    """Find what a term becomes by a Conv that pads nothing."""
    array, weights, rank = floats(v["a"]), floats(v["w"]), rank_of(v["x"])
    if array is None or weights is None or rank != weights.ndim or not weights.size:
        return None
    if floats(v["x"]) is not None or may_skip(node_of(v["y"])) or are_signs(v["x"], array):
        return None
    row = along(array, 1, rank)
    groups = node_of(v["y"]).attributes.get_int("group", 1) or 1
    channels, outputs = weights.shape[1] * groups, weights.shape[0]
    if row is None or row.size not in (1, channels) or outputs % groups:
        return None
    if widens(v["x"], v["a"]) or cancels(v["x"], row):  # an image may have one channel
        return None
    full = np.broadcast_to(row.astype(np.float64), (channels,)).reshape(groups, 1, -1)
    taps = weights.astype(np.float64).reshape(*weights.shape[:2], -1).sum(-1)
    sums = (taps.reshape(groups, outputs // groups, -1) * full).sum(-1).reshape(-1)
    return [at_axis(sums.astype(np.float32), 1, rank)[0]]


def _is_empty(w: Value) -> bool:
    """Whether weights may have no element: engines disagree on sums of nothing."""
    return w.shape is None or not w.shape.is_static() or 0 in w.shape.numpy()


def move_rows(node: ir.Node, array: Array) -> list[Array] | None:
    """Return a constant as it is combined with each result of an operator.

    The node moves elements of its first operand, cuts or pools them; ``array`` does not widen
    that. Returns what does the same behind the operator, for each output; None if no constants
    do.
    """
    rank = rank_of(node.inputs[0])
    if node.domain != "" or node.op_type not in ("Slice", "Split"):
        row = move_row(node, array)
        return None if row is None else [row]
    if rank is None or array.ndim > rank:
        return None
    wide = array.reshape([1] * (rank - array.ndim) + list(array.shape))
    if node.op_type == "Split":
        return _split(node, wide)
    sliced = _slice(node, wide)
    return None if sliced is None else [narrow(sliced)]


def _split(node: ir.Node, wide: Array) -> list[Array] | None:
    axis = node.attributes.get_int("axis", 0) or 0
    if wide.shape[axis] == 1:
        return [narrow(wide) for _ in node.outputs]
    sizes = [None if out.shape is None else out.shape[axis] for out in node.outputs]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes) or sum(known) != wide.shape[axis]:
        return None
    return [narrow(part) for part in np.split(wide, np.cumsum(known)[:-1], axis)]


def _slice(node: ir.Node, wide: Array) -> Array | None:
    """Cut a constant as a Slice with known places cuts what it is combined with."""
    given = [None if value is None else ints_of(value) for value in node.inputs[1:]]
    starts, ends, axes, steps = (*given, None, None, None, None)[:4]
    lacks = [v is not None and g is None for v, g in zip(node.inputs[1:], given, strict=True)]
    if starts is None or ends is None or any(lacks):
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if wide.shape[axis] != 1:
            places = range(*slice(start, end, step).indices(wide.shape[axis]))
            wide = np.take(wide, list(places), axis=axis)
    return wide
