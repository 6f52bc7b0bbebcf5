"""How far rounding may move the results of a model.

Tolerances follow the coarsest type that a result went through. Double precision and nearby
weights distinguish rounding from wrong results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes.arrays import Array, float_limits
from onnx_passes.contracts import Tolerance
from onnx_passes.model.copy import copy_model
from onnx_passes.model.ort_sessions import LOW, Types, types_of
from onnx_passes.model.walk import (
    all_graphs,
    all_nodes,
    all_tensors,
    captured_values,
    named_type,
    subgraphs_of,
)
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.node_queries import RESIZING, gives_no_floats, makes_steps
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import MALFORMED, Unsupported, is_float
from onnx_passes.runtime.engine_base import Data
from onnx_passes.runtime.engine_models import infer_types
from onnx_passes.verify.judge import default_tolerance
from onnx_passes.verify.node_equality import constant_tensor

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


Feeds: TypeAlias = Mapping[str, Array]

MOST = 1 << 24
"""Terms of sums, and elements, up to which bounds are computed: they take 16 bytes each."""

LIKELY = 1 << 22
"""Terms of sums, and elements, up to which likely bounds are computed."""

_SAME = 1e-9
"""How far double precision may be off, as a share of the largest element."""


def is_rounding(
    before: ir.Model, after: ir.Model, feeds: Feeds, expected: Array, actual: Array, name: str
) -> bool:
    """Whether rounding explains all elements that differ in one output.

    Outputs of the models correspond by position. False too if an operator has no bound, or an
    infinite one: then the limit of the type decides.
    """
    if not is_float(ir.DataType.from_numpy(expected.dtype)):
        return False
    return rounding_verdict(before, after, feeds, expected, actual, name) is True


def rounding_verdict(
    before: ir.Model, after: ir.Model, feeds: Feeds, expected: Array, actual: Array, name: str
) -> bool | None:
    """Return whether rounding explains all elements that differ in one output.

    False if an element differs by more than rounding can do. None if none does, and some have
    no bound: an operator has none, it is infinite, or an integer comes from a float near a
    step.
    """
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    place = [str(o.name) for o in before.graph.outputs].index(name)
    computed_in = _computed_in(before, after)
    bounds = [
        _bounds(model, feeds, place, RoundingSemantics(computed_in, most=MOST), folds=folds)
        for model, folds in ((before, False), (after, True))
    ]
    if any(b is None or b.shape != expected.shape for b in bounds):
        return None
    old, new = (b.data for b in bounds if b is not None)
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (e == a) | (np.isnan(e) & np.isnan(a))
        near = np.abs(e - old["value"]) <= old["error"]
        near &= np.abs(a - old["value"]) <= new["error"]
        known = np.isfinite(old["error"]) & np.isfinite(new["error"])
    if np.any(~same & ~near & known):
        return False
    return True if np.all(same | (near & known)) else None


def agree_in_double(before: ir.Model, after: ir.Model, feeds: Feeds, name: str) -> bool:
    """Whether both sides give the same in double precision where rounding has no bound.

    Then a rule is right in its values there, however many digits an engine loses. Whether it
    keeps a tolerance is another question, and asked of ordinary inputs. NaN has no bound
    either: a maximum that passes over it depends on the order in which an engine reads.
    Outputs of the models correspond by position.
    """
    place = [str(o.name) for o in before.graph.outputs].index(name)
    old, new = (_bounds(model, feeds, place, RoundingSemantics()) for model in (before, after))
    if old is None or new is None or old.shape != new.shape:
        return False
    left, right = old.data["value"], new.data["value"]
    unbounded = ~np.isfinite(old.data["error"]) | ~np.isfinite(new.data["error"])
    same = left == right
    if left.dtype.kind == "f":
        unbounded |= np.isnan(left)
        size = float(np.max(np.abs(left), initial=0.0, where=np.isfinite(left)))
        with np.errstate(invalid="ignore"):
            same |= np.abs(left - right) <= _SAME * size
            same |= np.isnan(left) & np.isnan(right)
    return bool(np.any(unbounded)) and bool(np.all(same))


def error_bounds(
    model: ir.Model, feeds: Mapping[str, Data], name: str, most: int
) -> Array | None:
    """Return how far random roundings are likely to take each element of an output.

    ``most`` limits the elements, or terms of sums, of an operator. None if an operator is
    larger or has no bound.
    """
    place = [str(o.name) for o in model.graph.outputs].index(name)
    semantics = RoundingSemantics(_computed_in(model), likely=True, most=most)
    arrays = {name: data for name, data in feeds.items() if isinstance(data, np.ndarray)}
    found = _bounds(model, arrays, place, semantics) if len(arrays) == len(feeds) else None
    return None if found is None else found.data["error"]


def _bounds(
    model: ir.Model,
    feeds: Feeds,
    place: int,
    semantics: RoundingSemantics,
    *,
    folds: bool = False,
) -> Tensor | None:
    """Return one output in double precision, with bounds on rounding; None where untold.

    If a rewrite ``folds``, constants are results that were rounded.
    """
    flat = model
    if model.functions:
        flat = model.clone()
        InlinePass()(flat)
    try:
        tensors = {
            name: constant(array, ir.DataType.from_numpy(array.dtype), semantics)
            for name, array in feeds.items()
        }
        semantics.folds = folds
        results = evaluate(flat.graph, tensors, semantics)
    except (Unsupported, *MALFORMED):
        return None
    found = results[str(flat.graph.outputs[place].name)]
    return found if found.data.dtype.names else None


def _computed_in(*models: ir.Model) -> ir.DataType | None:
    """Return the coarsest type that an operator computes in whatever its operands are."""
    found = [
        operator.computed_in
        for model in models
        for node in model.graph.all_nodes()
        if (operator := operator_of(node)) is not None and operator.computed_in is not None
    ]
    info: Any = ml_dtypes.finfo
    return max(found, key=lambda t: float(info(t.numpy()).eps), default=None)


_MOVED = frozenset(
    (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
)
"""Types of weights that are moved: scales of 16 bits round no less than those of 32."""


def makes_any_steps(model: ir.Model) -> bool:
    """Whether a model holds an operator whose result jumps where an operand moves a little."""
    return any(map(makes_steps, all_nodes(model)))


def move_weights(model: ir.Model, seed: int, units: int = 1) -> ir.Model:
    """Return a model whose float weights each stay, or move by ``units`` in the last place.

    Weights are initializers and constants, those of bodies and functions included. Those that
    reach no more than sizes, indices, comparisons and casts to other types stay: one unit in
    the last place of these is another function. An odd ``seed`` moves weights the other way
    than the even one before it: few weights are moved both ways in few runs.
    """
    moved = copy_model(model)
    rng, turn = np.random.default_rng(seed // 2), units * (1 - 2 * (seed % 2))
    reaching = _reaching(moved)
    for value, tensor in _weights(moved):
        if tensor.dtype not in _MOVED or value not in reaching:
            continue
        array = _moved(tensor.numpy(), rng, turn)
        new = ir.Tensor(array, dtype=tensor.dtype, name=value.name)  # ir.tensor is slow
        if (node := value.producer()) is None:
            value.const_value = new
        else:
            node.attributes.clear()
            node.attributes["value"] = ir.AttrTensor("value", new)
    return moved


def move_inputs(
    model: ir.Model, feeds: Mapping[str, Data], seed: int, units: int = 1
) -> dict[str, Data]:
    """Return inputs whose floats move as :func:`move_weights` moves weights."""
    rng, turn = np.random.default_rng(seed // 2), units * (1 - 2 * (seed % 2))
    reaching = {str(v.name) for v in _reaching(model) if v.is_graph_input()}
    moved = [dtype.numpy() for dtype in _MOVED]
    return {
        name: _moved(data, rng, turn)
        if name in reaching and isinstance(data, np.ndarray) and data.dtype in moved
        else data
        for name, data in feeds.items()
    }


def _weights(model: ir.Model) -> Iterator[tuple[ir.Value, ir.TensorProtocol]]:
    for graph in all_graphs(model):
        values = [node.outputs[0] for node in graph if node.op_type == "Constant"]
        if isinstance(graph, ir.Graph):
            values += graph.initializers.values()
        for value in values:
            tensor = constant_tensor(value)
            if tensor is not None:
                yield value, tensor


_FIRST = RESIZING | {"Pow"}
"""Operators whose first operand alone moves."""

_TURNS = 65521
"""Random turns that are drawn, and repeated. Rows of weights have no prime length."""


def _moved(array: Array, rng: np.random.Generator, turn: int) -> Array:
    """Return floats of any shape, each moved by some units in the last place, or not."""
    turns = rng.integers(-1, 2, min(array.size, _TURNS), np.int8) * np.int8(turn)
    # One more in the bits of a float is its neighbour away from zero.
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
    moved = (bits + np.resize(turns, array.shape)).view(array.dtype)
    return np.asarray(np.where((array != 0) & np.isfinite(moved), moved, array))


def _reaching(model: ir.Model) -> set[ir.Value]:
    """Return the values that decide elements of what a graph gives, by way of floats.

    An exponent that moves is another function: one beside 2 has no value for negative numbers.
    Integers and booleans are an end of this way, for the outputs of a model and what they
    alone are made of.
    """
    pending = [value for graph in all_graphs(model) for value in graph.outputs]
    found, ends = set[ir.Value](), _integer_ends(model.graph)
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        node = value.producer()
        if node is None or (gives_no_floats(node) and value not in ends):
            continue
        read = node.inputs[:1] if node.op_type in _FIRST else node.inputs
        pending += [value for value in read if value is not None]
    return found


def _integer_ends(graph: ir.Graph) -> set[ir.Value]:
    """Return the values that nothing reads but what makes integer outputs of a graph."""
    ends, outputs = set[ir.Value](), set(graph.outputs)
    for node in reversed(graph):
        for value in node.outputs:
            made = [v for user in value.consumers() for v in user.outputs]
            whole = value.dtype is not None and not is_float(value.dtype)
            if whole and (made or value in outputs) and ends.issuperset(made):
                ends.add(value)
    return ends
