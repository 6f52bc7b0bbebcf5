"""Convert indices to int32 where they fit."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import annotated_names
from onnx_passes.passes.common.shapes import dims_of, ints_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer

LOW, HIGH = -(2**31), 2**31 - 1

OPERANDS = {
    "Gather": (1,),
    "GatherElements": (1,),
    "ScatterElements": (1,),
    "Slice": (1, 2, 3, 4),
}
"""The operands of each operator that may be int32; they must all be of one type. GatherND,
ScatterND, Reshape, Expand and Tile take int64 only, by the operators' schemas."""

_NARROWER = frozenset(
    (ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8,
     ir.DataType.UINT16)
)  # fmt: skip


@passes.verify.equality
@passes.register()
class NarrowIndices(passes.Transformation):
    """Convert indices to int32 where they fit.

    Before: ``y = Gather(x, i)`` with the constant ``int64[3] i = {0, 2, -1}``
    After:  ``y = Gather(x, j)`` with the constant ``int32[3] j = {0, 2, -1}``

    Of Gather, GatherElements, ScatterElements and Slice, whose indices ONNX lets be int32. A
    Cast to int64 of a narrower type is left out, or goes to int32 only. The end of a Slice
    beyond int32 means "to the end", and becomes the greatest int32 where the size of the axis
    is known to be less.

    Sound because every index is the same number, and fits: constants are looked at, and what
    was cast from a narrower type fits by its type.

    Leaves alone: what picks among integers of int64, as shape arithmetic does, through which
    onnx infers shapes only where indices are int64 too; indices without known bounds; inputs
    of the model, whose type is the user's; operators that take int64 only; functions, whose
    constants have no initializers; models before opset 11, in which the engines differ.
    """

    needs = ("shape-inference",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Narrow the indices of each node, if all that must be of one type can be."""
        if model.graph.opset_imports.get("", 0) < 11 or model.ir_version < 4:
            return ir.passes.PassResult(model, modified=False)
        namer = Namer(model)
        narrowed: dict[tuple[ir.Value, bytes], ir.Value] = {}
        annotated = annotated_names(model)
        modified = False
        for graph in graphs_within(model.graph):
            for node in list(graph):
                places = OPERANDS.get(node.op_type, ()) if not node.domain else ()
                modified |= _narrow(model, node, places, narrowed, namer)
        for old in dict.fromkeys(value for value, _ in narrowed):
            unread = not old.uses() and not old.is_graph_output()
            if unread and old.is_initializer() and old.name not in annotated:
                assert old.graph is not None, "an initializer is in a graph"
                del old.graph.initializers[old.name or ""]
        return ir.passes.PassResult(model, modified=modified)


def _narrow(
    model: ir.Model,
    node: ir.Node,
    places: tuple[int, ...],
    narrowed: dict[tuple[ir.Value, bytes], ir.Value],
    namer: Namer,
) -> bool:
    """Narrow the operands of a node that must be of one type, or leave them all."""
    operands = {p: v for p in places if p < len(node.inputs) and (v := node.inputs[p])}
    data = node.inputs[0] if node.inputs else None
    if data is None or data.dtype in (None, ir.DataType.INT64):
        return False
    if not any(value.dtype is ir.DataType.INT64 for value in operands.values()):
        return False
    found: dict[int, Array | ir.Value] = {}
    for place, value in operands.items():
        if value.dtype is ir.DataType.INT32:
            continue
        narrow = _narrower(node, place, value)
        if narrow is None:
            return False
        found[place] = narrow
    for place, narrow in found.items():
        value = operands[place]
        # One constant may be clamped for one Slice and not fit as well for the next.
        key = (value, narrow.tobytes() if isinstance(narrow, np.ndarray) else b"")
        if key not in narrowed:
            narrowed[key] = (
                _constant(model, f"{value.name}_int32", narrow, namer)
                if isinstance(narrow, np.ndarray)
                else _cast(value, narrow, namer)
            )
        node.replace_input_with(place, narrowed[key])
    return True


def _narrower(node: ir.Node, place: int, value: ir.Value) -> Array | ir.Value | None:
    """Return the numbers of a constant, or what a Cast reads; None if they may not fit."""
    numbers = _numbers(value)
    if numbers is not None:
        if node.op_type == "Slice" and place in (1, 2):
            numbers = _clamped(node, numbers)
        fits = not numbers.size or (numbers.min() >= LOW and numbers.max() <= HIGH)
        return numbers.astype(np.int32) if fits else None
    cast = value.producer()
    if cast is not None and (cast.domain, cast.op_type) == ("", "Cast"):
        source = cast.inputs[0]
        if source is not None and source.dtype in _NARROWER:
            return source
    return None


def _numbers(value: ir.Value) -> Array | None:
    tensor = constant_of(value)
    return None if tensor is None or tensor.dtype is not ir.DataType.INT64 else tensor.numpy()


def _clamped(node: ir.Node, numbers: Array) -> Array:
    """Clamp starts or ends of axes that are known to be shorter."""
    dims = dims_of(node.inputs[0])
    given = node.inputs[3] if len(node.inputs) > 3 else None
    axes = list(range(numbers.size)) if given is None else ints_of(given)
    if dims is None or axes is None:
        return numbers
    sizes = [dims[axis] for axis in axes]
    short = np.array([isinstance(size, int) and size <= HIGH for size in sizes], dtype=bool)
    return np.where(short, np.clip(numbers, LOW, HIGH), numbers)


def _constant(model: ir.Model, name: str, numbers: Array, namer: Namer) -> ir.Value:
    tensor = ir.Tensor(np.ascontiguousarray(numbers))
    value = ir.val(namer.value(name), const_value=tensor)
    model.graph.register_initializer(value)
    return value


def _cast(value: ir.Value, source: ir.Value, namer: Namer) -> ir.Value:
    """Return the source of a Cast if it is int32, or a Cast of it to int32 beside the old."""
    old = value.producer()
    if source.dtype is ir.DataType.INT32:
        return source
    assert old is not None, "a Cast made the value"
    assert old.graph is not None, "it is in a graph"
    new = ir.Node("", "Cast", [source], [ir.AttrInt64("to", int(ir.DataType.INT32))])
    new.outputs[0].name = namer.value(f"{value.name}_int32")
    new.name = namer.node(new.outputs[0].name)
    new.outputs[0].type = ir.TensorType(ir.DataType.INT32)
    new.outputs[0].shape = value.shape and value.shape.copy()
    old.graph.insert_before(old, new)
    return new.outputs[0]
