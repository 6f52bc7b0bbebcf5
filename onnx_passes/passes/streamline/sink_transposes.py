"""Move a Transpose behind an elementwise operator, or a Pad."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, is_quantiser
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.common.shapes import ints_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.streamline._moves import Mover
from onnx_passes.passes.streamline._rule_constants import numbers, rank_of


@passes.verify.equality
@passes.register("reorder")
class SinkTransposes(passes.Transformation):
    """Move a Transpose behind an elementwise operator, or a Pad.

    Before: ``Relu(Transpose(x))``, ``Add(Transpose(x), c)``,
            ``Mul(Transpose(x), Transpose(y))``, ``Pad(Transpose(x), pads)``,
            ``MultiThreshold(DepthToSpace(x), t, w)``
    After:  ``Transpose(Relu(x))``, ``Transpose(Add(x, c'))``, ``Transpose(Mul(x, y))``,
            ``Transpose(Pad(x, pads'))``, where ``c'`` is the constant with its axes in the
            order of ``x``, and ``pads'`` are those of these axes;
            ``DepthToSpace(MultiThreshold(x, t', w'))``

    For every operator that is described as elementwise, with any number of operands, for
    quantisers and thresholds of our own domain, in subgraphs too. DepthToSpace goes behind
    quantisers and thresholds alone, which get a row for each channel in front of it.

    Sound because an elementwise operator does not see where an element stands, and a Pad puts
    the same around an axis wherever that is.

    Leaves alone: permutations that differ; operands that are computed and no Transpose;
    constants of more axes; ranks that are not known; operators with several outputs; pads
    that are computed, or attributes of opsets before 11; behind DepthToSpace constants that
    differ along other axes than the channels, or channels whose number is not known.

    Attributes:
        operators: Names of the operators; empty for all.
    """

    needs = ("shape-inference",)
    tested_on = ("transposed", "transposed", "turn")
    tested_after = ("raise-opset", "infer-thresholds")

    operators: tuple[str, ...] = ()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Move each Transpose as far as it goes."""
        mover, count = Mover(model), 0
        for graph in list(graphs_within(model.graph)):
            for node in list(graph):
                if node.graph is graph and self._is_wanted(node):
                    count += self._move(node, graph, mover)
        return ir.passes.PassResult(model, modified=count > 0)

    def _is_wanted(self, node: ir.Node) -> bool:
        if node.domain == "" and node.op_type == "Pad":
            return not self.operators or "Pad" in self.operators
        if len(node.outputs) != 1 or not node.inputs:
            return False
        if self.operators and node.op_type not in self.operators:
            return False
        if node.domain != "":
            return is_quantiser(node.domain, node.op_type) or _is_thresholds(node)
        operator = operator_of(node)
        return operator is not None and operator.elementwise

    def _move(self, node: ir.Node, graph: ir.Graph, mover: Mover) -> bool:
        moved = [v.producer() for v in node.inputs if v is not None and _permutation(v)]
        perms = [_permutation(v) for v in node.inputs if v is not None and _permutation(v)]
        perm = perms[0] if perms else None
        if perm is None or any(other != perm for other in perms):
            return perm is None and _move_past_thresholds(node, graph, mover)
        if node.op_type == "Pad":
            return _move_past_pad(node, graph, mover, perm)
        inputs: list[ir.Value | None] = []
        for value in node.inputs:
            if value is None or _permutation(value):
                source = None if value is None else value.producer()
                inputs.append(None if source is None else source.inputs[0])
                continue
            # The last axis of a table of thresholds is that of its steps.
            array = _reorder(value, [*perm, len(perm)] if _is_thresholds(node) else perm)
            if array is None:
                return False
            tensor = constant_of(value)
            same = tensor is not None and array.ndim == 0
            inputs.append(value if same else mover.constant(graph, ir.tensor(array)))
        assert moved[0] is not None, "it has a permutation"
        _put_behind(node, moved[0], inputs, perm, mover)
        return True


def _move_past_thresholds(node: ir.Node, graph: ir.Graph, mover: Mover) -> bool:
    """Let thresholds or a quantiser read what DepthToSpace reads."""
    value = node.inputs[0]
    moved = None if value is None else value.producer()
    if value is None or moved is None or (moved.domain, moved.op_type) != ("", "DepthToSpace"):
        return False
    if not (_is_thresholds(node) or is_quantiser(node.domain, node.op_type)):
        return False
    tables = [
        _of_blocks(table, moved, steps=_is_thresholds(node)) for table in node.inputs[1:]
    ]
    if any(table is None for table in tables):
        return False
    made = [mover.constant(graph, ir.tensor(table)) for table in tables if table is not None]
    source = moved.inputs[0]
    inner = mover.node(node, [source, *made], None if source is None else source.shape)
    outer = mover.node(moved, [inner.outputs[0]], node.outputs[0].shape)
    mover.swap(node, inner, outer)
    return True


def _of_blocks(table: ir.Value | None, moved: ir.Node, *, steps: bool) -> Array | None:
    """Return a constant with a row for each channel in front of DepthToSpace.

    With ``steps`` its last axis is that of thresholds.
    """
    array = None if table is None else numbers(table)
    shape = moved.outputs[0].shape
    if array is None or shape is None or array.ndim > 4 + steps:
        return None
    wide = array.reshape([1] * (4 + steps - array.ndim) + list(array.shape))
    if wide.shape[1] not in (1, shape[1]) or any(wide.shape[axis] != 1 for axis in (0, 2, 3)):
        return None
    if wide.shape[1] == 1:
        return array
    count = (moved.attributes.get_int("blocksize") or 1) ** 2
    if moved.attributes.get_string("mode", "DCR") == "CRD":
        return np.repeat(wide, count, axis=1)
    return np.concatenate([wide] * count, axis=1)


def _put_behind(
    node: ir.Node,
    transpose: ir.Node,
    inputs: list[ir.Value | None],
    perm: list[int],
    mover: Mover,
) -> None:
    """Let a node read other inputs, and transpose what it computes of them."""
    inner = mover.node(node, inputs, _shape_before(node.outputs[0], perm))
    outer = mover.node(transpose, [inner.outputs[0]], node.outputs[0].shape)
    outer.attributes["perm"] = ir.AttrInt64s("perm", perm)
    mover.swap(node, inner, outer)


def _move_past_pad(node: ir.Node, graph: ir.Graph, mover: Mover, perm: list[int]) -> bool:
    value = node.inputs[0]
    transpose = None if value is None else value.producer()
    pads = ints_of(node.inputs[1]) if len(node.inputs) > 1 else None
    given = node.inputs[3] if len(node.inputs) > 3 else None
    axes = list(range(len(perm))) if given is None else ints_of(given)
    if value is None or transpose is None or pads is None or axes is None:
        return False
    if not _permutation(value):
        return False
    around = dict.fromkeys(range(len(perm)), (0, 0))
    for place, axis in enumerate(axes):
        around[perm[axis]] = pads[place], pads[place + len(axes)]
    moved = [around[axis][end] for end in (0, 1) for axis in range(len(perm))]
    constant = mover.constant(graph, ir.tensor(np.array(moved, np.int64)))
    inputs = [transpose.inputs[0], constant, *node.inputs[2:3]]
    _put_behind(node, transpose, inputs, perm, mover)
    return True


def _is_thresholds(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == (CUSTOM, "MultiThreshold")


def _permutation(value: ir.Value) -> list[int]:
    """Return the permutation that makes a value; empty for a value of anything else."""
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Transpose"):
        return []
    perm, rank = node.attributes.get_ints("perm"), rank_of(node.inputs[0])
    return list(perm) if perm is not None else list(reversed(range(rank or 0)))


def _reorder(value: ir.Value, perm: list[int]) -> Array | None:
    """Return a constant in the order of axes before a Transpose."""
    tensor = constant_of(value)
    if tensor is None or tensor.dtype is ir.DataType.STRING or len(tensor.shape) > len(perm):
        return None
    array = tensor.numpy()
    if array.ndim == 0:
        return array
    array = array.reshape([1] * (len(perm) - array.ndim) + list(array.shape))
    return np.transpose(array, [perm.index(i) for i in range(len(perm))]).copy()


def _shape_before(value: ir.Value, perm: list[int]) -> ir.Shape | None:
    if value.shape is None or len(value.shape) != len(perm):
        return None
    return ir.Shape([value.shape[perm.index(i)] for i in range(len(perm))])
