"""Tolerances of outputs that are computed by way of values below float32.

The type of an output says how its last value is rounded. An output of float32 behind a Cast
from float16 has the errors of float16. A rewrite that rounds one value less moves it by more
than a tolerance of float32 allows.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.arrays import float_limits
from onnx_passes.contracts import Tolerance
from onnx_passes.model.ort_sessions import LOW, Types, types_of
from onnx_passes.model.walk import (
    all_graphs,
    all_tensors,
    captured_values,
    named_type,
    subgraphs_of,
)
from onnx_passes.runtime.engine_models import infer_types
from onnx_passes.verify.tensor_difference import default_tolerance

STEPS = 4
"""Machine epsilons of 16 bits that a rewrite may move an output by: a formula of a few nodes
rounds at each of them, where its operator rounds once."""
_SIXTEEN_BITS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_TYPELESS = frozenset(
    getattr(ir.AttributeType, name)
    for name in (
        *("FLOAT", "FLOATS", "INT", "INTS", "STRING", "STRINGS"),
        *("GRAPH", "GRAPHS", "TENSOR", "TENSORS"),
    )
)
"""Attributes that name no type, but for integers; tensors and graphs are looked at anyway."""
_READS_NO_ELEMENT = ("Shape", "Size", "ConstantOfShape", "EyeLike")


def low_tolerances(model: ir.Model) -> dict[str, Tolerance]:
    """Return a tolerance for each output that depends on a rounding below float32.

    It is that of the coarsest type among the computed values that the output depends on. Such
    errors are relative to the largest element of an output: the small ones carry the error of
    the large ones. Inputs and constants are as they are, without error.

    Args:
        model: The original; not changed.

    Returns:
        By name of the output.
    """
    types, found = coarsest_types(model), dict[str, Tolerance]()
    for value in model.graph.outputs:
        coarsest = types.get(value)
        if coarsest is not None and (value.dtype is None or value.dtype.is_floating_point()):
            found[str(value.name)] = low_tolerance(coarsest)
    return found


def low_tolerance(dtype: ir.DataType) -> Tolerance:
    """Return how far roundings to a type may move an output, by its largest element."""
    rtol, atol = default_tolerance(dtype.numpy())
    if dtype in _SIXTEEN_BITS:
        rtol = max(rtol, STEPS * float(float_limits(dtype.numpy()).eps))
    return Tolerance(rtol, atol)


def coarsest_types(model: ir.Model) -> dict[ir.Value, ir.DataType]:
    """Return the coarsest type below float32 that each value depends on, if there is one."""
    if not _may_have_low_types(model):
        return {}  # inference takes as long as a pass
    walk = _Coarsest(infer_types(model), model)
    walk.graph(model.graph)
    return walk.coarsest


def _may_have_low_types(model: ir.Model) -> bool:
    """Whether a type below float32 is noted, held, or named by an attribute of a node.

    Operators of ONNX compute no other types than those of their operands, or that an
    attribute names.
    """
    if model.functions:
        return True
    numbers = {dtype.value for dtype in LOW}
    if any(tensor.dtype in LOW for tensor in all_tensors(model)):
        return True
    for graph in all_graphs(model):
        if any(value.dtype in LOW for value in graph.inputs):
            return True
        for node in graph:
            if node.domain or any(value.dtype in LOW for value in node.outputs):
                return True
            for attribute in node.attributes.data.values():
                if attribute.is_ref() or attribute.type not in _TYPELESS:
                    return True
                if attribute.type == ir.AttributeType.INT and attribute.value in numbers:
                    return True
    return False


class _Coarsest:
    """Finds the coarsest type that each value depends on, in order of computation."""

    def __init__(self, types: Types, model: ir.Model) -> None:
        self.types = types
        self.coarsest: dict[ir.Value, ir.DataType] = {}
        self.functions = model.functions

    def graph(self, graph: ir.Graph) -> None:
        """Visit the nodes of a graph, which come after what they read."""
        for node in graph:
            for inner in subgraphs_of(node):
                # A state of a loop is as coarse as what any round makes of it.
                self.graph(inner)
            self.node(node)

    def node(self, node: ir.Node) -> None:
        if node.op_type in _READS_NO_ELEMENT:
            return
        found = [
            self.coarsest.get(value)
            for value in (*node.inputs, *captured_values(node))
            if value is not None
        ]
        within = (one for body in subgraphs_of(node) for one in body.all_nodes())
        found += [self.coarsest.get(value) for one in within for value in one.outputs]
        found += self._inside(node)
        inherited = _coarser(found)
        fixed = all(v is None or _is_constant(v) for v in node.inputs)
        for value in node.outputs:
            own = [t for t in types_of(value, self.types) if t in LOW and not fixed]
            coarsest = _coarser([inherited, *own])
            if coarsest is not None:
                self.coarsest[value] = coarsest

    def _inside(self, node: ir.Node) -> list[ir.DataType | None]:
        """Return the low types that a called function casts to."""
        function = self.functions.get(node.op_identifier())
        if function is None:
            return []
        targets = (inner.attributes.get("to") for inner in function.all_nodes())
        named = set(map(named_type, targets))
        return [dtype for dtype in LOW if dtype in named]


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is None:
        return value.is_initializer() and not value.is_graph_input()
    return producer.op_identifier() == ("", "Constant", "")


def _coarser(found: list[ir.DataType | None]) -> ir.DataType | None:
    known = [dtype for dtype in found if dtype is not None]
    return max(known, key=lambda dtype: default_tolerance(dtype.numpy()), default=None)
