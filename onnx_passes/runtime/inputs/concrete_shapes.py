"""A model whose shapes are those of one sample, and what its nodes demand of sizes.

A graph input is traced to the nodes that give its values a meaning.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir

from onnx_passes.model.inference import infer
from onnx_passes.model.protos import graphs_of
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.ops.call import Operands
from onnx_passes.ops.domains.intervals import UNBOUNDED
from onnx_passes.ops.input_hints import (
    StaticShape,
    Use,
    ValueHint,
    constant_of,
    exactly,
    static_shape,
)
from onnx_passes.ops.node_queries import admitted, flops_of
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.runtime.engine_models import split_weights
from onnx_passes.runtime.inputs.dimensions import size_of

_BODIES = frozenset({"Loop", "Scan", "SequenceMap"})


class Tracer:
    """Follows the inputs of one model."""

    def __init__(self, model: ir.Model) -> None:
        self._leaves: dict[ir.Value, list[ir.Value]] = {}
        for node in model.graph.all_nodes():
            for inner, outer in _returned(node):
                self._leaves.setdefault(inner, []).append(outer)

    def hint(self, value: ir.Value, rng: np.random.Generator) -> ValueHint:
        """Return everything that the uses of a graph input say about its values.

        ``rng`` decides what hints leave open.
        """
        hint, words = ValueHint(), list[str]()
        for use, layout in self._uses(value, rng):
            found = exactly(False) if _starts_for_ever(use) else admitted(use)
            if found is not None:
                hint = hint & (found if layout else _rearranged(found))
                words += found.words if value.dtype == ir.DataType.STRING else ()
        return replace(hint, words=tuple(dict.fromkeys(words)))

    def _uses(self, start: ir.Value, rng: np.random.Generator) -> Iterator[tuple[Use, bool]]:
        """Yield uses, each with whether elements are still where they were in the input."""
        queue, seen = deque([(start, True)]), {start}
        while queue:
            value, layout = queue.popleft()
            following = [(outer, True) for outer in self._leaves.get(value, ())]
            for node, index in value.uses():
                yield Use(node, index, rng), layout
                following.extend(_followed(node, index))
            for after, keeps in following:
                if after not in seen:
                    seen.add(after)
                    queue.append((after, layout and keeps))


def _rearranged(hint: ValueHint) -> ValueHint:
    """Return what holds for elements in another order: what does not repeat does not there."""
    exact, found = hint.exact, hint.without_layout()
    differ = exact is not None and np.unique(exact).size == exact.size > 1
    return replace(found, distinct=0) if differ or hint.distinct is not None else found


def _starts_for_ever(use: Use) -> bool:
    """Whether a value lets a Loop begin that has no trip count, and nothing that ends it.

    Its body returns the condition as it is.
    """
    node = use.node
    if node.op_type != "Loop" or node.domain or use.index != 1 or node.inputs[0] is not None:
        return False
    body = node.attributes["body"].as_graph()
    value: ir.Value | None = body.outputs[0] if body.outputs else None
    while value is not None and (made := value.producer()) is not None:
        if made.graph is not body or made.op_type != "Identity":
            return made.graph is not body
        value = made.inputs[0]
    return True


def _returned(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield pairs of an output of a branch or body and the node's output that it becomes."""
    for graph in subgraphs_of(node):
        inner = list(graph.outputs)
        if node.op_type == "Loop":
            inner = inner[1:]  # the first is the condition
        yield from zip(inner, node.outputs, strict=False)


def _followed(node: ir.Node, index: int) -> Iterator[tuple[ir.Value, bool]]:
    if node.domain:
        return
    if node.op_type in _BODIES:
        yield from _into_body(node, index)
        return
    operator = operator_of(node)
    if operator is None:
        return
    converts = node.op_type == "Cast"
    if (operator.view or converts) and index == 0:
        yield node.outputs[0], True
    elif index in operator.moves or index in operator.chooses:
        for output in node.outputs:
            yield output, False


def _into_body(node: ir.Node, index: int) -> Iterator[tuple[ir.Value, bool]]:
    attribute = node.attributes.get("body")
    if attribute is None or attribute.is_ref():
        return
    inputs = attribute.as_graph().inputs
    if node.op_type == "Loop" and 2 <= index < len(inputs):
        yield inputs[index], True
    elif node.op_type != "Loop" and index < len(inputs):
        yield inputs[index], False


ShapeOf = Callable[[ir.Value | None], StaticShape | None]
"""Returns the shape of a value in one sample; None if it is not known."""


@dataclass(frozen=True)
class UnmetDemand:
    """A demand, in numbers, that sizes do not meet.

    A size times ``factor`` may meet it.
    """

    text: str
    factor: float


def find_unmet_demand(node: ir.Node, shape_of: ShapeOf) -> UnmetDemand | None:
    """Return a demand of a node that is not met; None if none is known."""
    find = _DEMANDS.get(node.op_type)
    found = () if find is None or node.domain else find(node, shape_of)
    return next(
        (UnmetDemand(t, want / size if size else 1.0) for t, size, want in found), None
    )


_Found = Iterator[tuple[str, int, int]]
"""Demands that are not met: the text, the size, and the next one that meets it."""


def _window(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before, filters = shape_of(node.inputs[0]), _input_shape(node, 1, shape_of)
    spatial = before[2:] if before else ()
    if node.op_type == "ConvTranspose" or not spatial:
        yield from _nothing(node, before, shape_of)
        return
    window = node.attributes.get_ints("kernel_shape") or (filters or ())[2:]
    steps = node.attributes.get_ints("dilations") or [1] * len(spatial)
    pads = node.attributes.get_ints("pads") or [0] * 2 * len(spatial)
    padded_up = node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    padded_up |= bool(node.attributes.get_int("ceil_mode", 0))
    for axis, (size, extent, step) in enumerate(zip(spatial, window, steps, strict=False)):
        reach = (extent - 1) * step + 1
        padded = size + pads[axis] + pads[axis + len(spatial)]
        if padded < reach and not padded_up:
            text = f"a window of {reach} over {padded} elements of axis {axis + 2}"
            yield text, padded, reach
    yield from _nothing(node, before, shape_of)


def _nothing(node: ir.Node, before: StaticShape | None, shape_of: ShapeOf) -> _Found:
    """Yield a demand where a row has no element; there may be no row."""
    shapes = (before, *map(shape_of, node.outputs))
    if any(size <= 0 for shape in shapes for size in (shape or ())[1:]):
        yield f"{node.op_type} of {_shown(before)} has no element", 1, 1


def _reshape(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    # Before opset 5 the target is an attribute, which inference has read.
    wanted = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    if not before:
        return
    elements = math.prod(before)
    if after is not None and math.prod(after) == elements:
        return
    if wanted is not None:
        target = [
            before[axis] if size == 0 and axis < len(before) else int(size)
            for axis, size in enumerate(wanted)
        ]
        known = math.prod(size for size in target if size >= 0)
        text = f"{_shown(before)}, {elements} elements, as {wanted.tolist()}"
        if -1 in target and (known <= 0 or elements % known):
            yield text, elements, max(1, -(-elements // max(1, known))) * known
        elif -1 not in target and elements != known:
            yield text, elements, known
    elif after is not None:
        yield f"{_shown(before)} as {_shown(after)}", elements, math.prod(after)


def _reflection(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before = shape_of(node.inputs[0])
    if node.attributes.get_string("mode", "constant") != "reflect" or not before:
        return
    known = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    pads = (
        node.attributes.get_ints("pads") or ()
        if known is None
        else [int(pad) for pad in known.ravel()]
    )
    axes = constant_of(node.inputs[3]) if len(node.inputs) > 3 else None
    places = range(len(before)) if axes is None else [int(axis) for axis in axes]
    for index, axis in enumerate(places):
        most = max(pads[index :: max(1, len(pads) // 2)], default=0)
        if before[axis] <= most:
            yield f"reflects {most} of {before[axis]} elements", before[axis], most + 1


def _inner(node: ir.Node, shape_of: ShapeOf) -> _Found:
    one, other = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    if not one or not other:
        return
    turned = {name for name in ("transA", "transB") if node.attributes.get_int(name, 0)}
    size = one[0 if "transA" in turned else -1]
    wanted = other[-1 if "transB" in turned or len(other) == 1 else -2]
    if size != wanted:
        # Weights stay as they are, on either side.
        fixed = constant_of(node.inputs[0]) is not None
        text = f"multiplies {_shown(one)} by {_shown(other)}"
        yield text, *((wanted, size) if fixed else (size, wanted))


def _gathered(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before, indices = shape_of(node.inputs[0]), constant_of(node.inputs[1])
    if not before or indices is None or not indices.size or indices.dtype.kind != "i":
        return
    size = before[node.attributes.get_int("axis", 0)]
    least = max(int(np.max(indices)) + 1, -int(np.min(indices)))
    if size < least:
        yield f"takes element {least - 1} of {size}", size, least


def _divided(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before = shape_of(node.inputs[0])
    if not before:
        return
    if node.op_type == "SpaceToDepth":
        unit, sizes = node.attributes.get_int("blocksize", 1), before[2:]
    else:
        # By `num_outputs` the last part may be smaller.
        uneven = len(node.inputs) > 1 or not {"split", "num_outputs"}.isdisjoint(
            node.attributes
        )
        unit = 1 if uneven else len(node.outputs)
        sizes = (before[node.attributes.get_int("axis", 0)],)
    for size in sizes:
        if unit and size % unit:
            yield f"divides {size} elements by {unit}", size, -(-size // unit) * unit


def _input_shape(node: ir.Node, index: int, shape_of: ShapeOf) -> StaticShape | None:
    return shape_of(node.inputs[index]) if index < len(node.inputs) else None


def _shown(shape: Sequence[int] | None) -> str:
    return str(list(shape or ()))


_DEMANDS: dict[str, Callable[[ir.Node, ShapeOf], _Found]] = {
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool", "LpPool", "ConvTranspose"), _window),
    "Reshape": _reshape,
    "Pad": _reflection,
    **dict.fromkeys(("Gemm", "MatMul"), _inner),
    "Gather": _gathered,
    **dict.fromkeys(("SpaceToDepth", "Split"), _divided),
}

DEMANDING = frozenset(_DEMANDS)
"""The operators that demand something of sizes."""


_BLAMED = re.compile(r"\(op_type:(?P<type>\w*), node name: (?P<place>\d+)(?P<nested>\.?)\)")
_DECLARED = "existing shape differ"
"""What onnx says where it infers another shape than is declared."""
_KEPT = 4
"""Samples whose shapes are kept, as one choice of sizes is asked for more than once."""

_Type = tuple[ir.TypeProtocol | None, ir.Shape | None]
_Noted = tuple[ir.Value, ir.TypeProtocol | None, ir.Shape | None]
"""A value, and its type and shape in one sample."""


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """Return the model without its weights, and with its functions inlined where possible."""
    proto = split_weights(model).proto
    if not proto.functions:
        return proto
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except Exception:  # the inliner raises what C++ throws; without it less is known, no more
        return proto
    return inlined


def specialize_shapes(
    proto: onnx.ModelProto, shapes: Mapping[str, StaticShape], sizes: Mapping[str, int]
) -> tuple[ir.Model, bool]:
    """Fix every shape and infer those in between.

    Returns the model, and whether shape inference finds no contradiction in it. ``proto`` is
    not changed.
    """
    concrete = ShapeSpecializer(proto).fix(shapes, sizes)
    return concrete.model, concrete.fault is None


@dataclass(frozen=True)
class Fault:
    """A node whose sizes do not add up.

    ``place`` is its number among all nodes, those of a body behind the node that has it; -1 if
    not known. ``text`` is a demand in numbers, or what shape inference says; a size times
    ``factor`` may meet it. A ``doubtful`` fault may not matter to engines: it is in a body,
    which may not run, or against the declared type of a result.
    """

    place: int
    text: str
    factor: float | None = None
    doubtful: bool = False


class Concrete:
    """A model in the shapes of one sample.

    ``fault`` is the first node whose sizes do not add up; None if there is none.
    """

    def __init__(
        self, shaping: ShapeSpecializer, proto: onnx.ModelProto, fault: Fault | None
    ) -> None:
        """Read nothing yet."""
        self.shaping, self.fault, self._proto = shaping, fault, proto

    @property
    def model(self) -> ir.Model:
        """The model, until that of another sample is asked for."""
        return self.shaping.show(self) if self.shaping.shared else self._own

    @cached_property
    def noted(self) -> list[_Noted]:
        """The values of the shared model with the types and shapes of this sample."""
        return list(self.shaping.note(self.shaping.nodes.graph, self._proto.graph))

    @property
    def fits(self) -> bool:
        """Whether sizes add up, and nothing becomes empty that has a known shape."""
        shapes = (shape for _, _, shape in self.noted if shape is not None)
        return self.fault is None and not any(0 in tuple(shape) for shape in shapes)

    @cached_property
    def operations(self) -> int:
        """The scalar operations of one run, each output element at least one.

        Bodies count once, those of an If both. What has no known shape counts nothing.
        """
        # A long graph repeats few calls, and each is a formula to evaluate.
        called: dict[object, int] = {}
        total = 0
        for node in self.model.graph.all_nodes():
            key = _call_of(node) or node
            if key not in called:
                called[key] = _operations(node)
            total += called[key]
        return total

    @cached_property
    def _own(self) -> ir.Model:
        return ir.from_proto(self._proto)


_LONG = 1 << 12
"""Elements of an attribute from which on shape inference does without it."""


def _take_long_lists(graph: onnx.GraphProto) -> dict[str, list[onnx.AttributeProto]]:
    """Take long lists off the trees of a graph, whose shapes do not follow from them.

    Returns them by the name of the node. Each inference would read them again: a forest has
    some hundred megabytes.
    """
    found: dict[str, list[onnx.AttributeProto]] = {}
    for node in graph.node:
        if node.domain != "ai.onnx.ml" or not node.op_type.startswith("TreeEnsemble"):
            continue
        for place in reversed(range(len(node.attribute))):
            each = node.attribute[place]
            if max(len(each.ints), len(each.floats), len(each.strings)) > _LONG:
                found.setdefault(node.name, []).append(each)
                del node.attribute[place]
    return found


class ShapeSpecializer:
    """Puts one model in the shapes of any number of samples, with the nodes read once.

    The nodes are not ``shared`` where functions are called.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        """Read no node yet."""
        self._proto = onnx.ModelProto()
        self._proto.CopyFrom(proto)
        self._names = _number(self._proto.graph)
        self._long = _take_long_lists(self._proto.graph)
        self.shared = not proto.functions
        self._shown: Concrete | None = None
        self._kept: dict[tuple[object, ...], Concrete] = {}
        self._types: dict[bytes, _Type] = {}

    def fix(self, shapes: Mapping[str, StaticShape], sizes: Mapping[str, int]) -> Concrete:
        """Fix every shape and infer those in between, as ``specialize_shapes`` does."""
        key = (*shapes.items(), *sizes.items())
        if key not in self._kept:
            found = self._fix(shapes, sizes)
            self._kept = dict([*self._kept.items()][1 - _KEPT :])
            self._kept[key] = found
        return self._kept[key]

    def _fix(self, shapes: Mapping[str, StaticShape], sizes: Mapping[str, int]) -> Concrete:
        size = cache(lambda name: size_of(name, sizes))
        fixed = onnx.ModelProto()
        fixed.CopyFrom(self._proto)
        for info in (*fixed.graph.input, *fixed.graph.value_info, *fixed.graph.output):
            _fix(info.type, shapes.get(info.name), size)
        fault: Fault | None = None
        for strict in (True, True, False):
            try:
                fixed = infer(fixed, strict_mode=strict)
            except Exception as error:  # for contradictions, and models it cannot take
                if fault is None or fault.doubtful:  # others count before these
                    fault = _blamed(str(error))
                if _DECLARED in str(error):
                    _forget(fixed.graph)
                continue
            break
        certain = None if fault is not None and fault.doubtful else fault
        return Concrete(self, fixed, self._unmet(fixed.graph, certain) or fault)

    def _unmet(self, graph: onnx.GraphProto, fault: Fault | None) -> Fault | None:
        """Return the first node whose demands are not met, or what inference found before."""
        infos = _infos(graph)

        def shape_of(value: ir.Value | None) -> StaticShape | None:
            shape = None if value is None else self._type(infos.get(str(value.name)))[1]
            if shape is None and value is not None:
                shape = value.shape if value.const_value is not None else None
            return tuple(shape.numpy()) if shape is not None and shape.is_static() else None

        for place, node in self._demanding:
            if fault is not None and 0 <= fault.place < place:
                break
            found: UnmetDemand | None = None
            with suppress(IndexError, TypeError, ValueError):  # of nodes that are malformed
                found = find_unmet_demand(node, shape_of)
            if found is not None:
                return Fault(place, found.text, found.factor)
        return fault

    @cached_property
    def nodes(self) -> ir.Model:
        """The model, with nodes whose names are their numbers."""
        bare = onnx.ModelProto()
        bare.CopyFrom(self._proto)
        del bare.graph.value_info[:]  # without notes it is read in half of the time
        for node in bare.graph.node if self._long else ():
            node.attribute.extend(self._long.get(node.name, ()))
        return ir.from_proto(bare)

    @cached_property
    def _by_place(self) -> dict[int, ir.Node]:
        return {int(str(n.name).rstrip(".")): n for n in self.nodes.graph.all_nodes()}

    def node(self, place: int) -> ir.Node | None:
        """Return a node by its number; None if there is none."""
        return self._by_place.get(place)

    def place_of(self, name: str) -> int:
        """Return the number of a node.

        A node without a name is called "of type " and its type. Of several, the first; -1 if
        there is none.
        """
        return self._names.index(name) if name in self._names else -1

    def name_of(self, place: int) -> str:
        """Return the name and type of a node by its number, "" if there is none."""
        node = self.node(place)
        if node is None:
            return ""
        named = not self._names[place].startswith("of type ")
        outputs = ", ".join(str(value.name) for value in node.outputs)
        return f"{node.op_type} {self._names[place] if named else outputs}"

    @cached_property
    def tracer(self) -> Tracer:
        """What follows the inputs of the shared nodes."""
        return Tracer(self.nodes)

    @cached_property
    def _demanding(self) -> list[tuple[int, ir.Node]]:
        found = (node for node in self.nodes.graph if node.op_type in DEMANDING)
        return [(int(str(node.name)), node) for node in found if node.inputs]

    def show(self, concrete: Concrete) -> ir.Model:
        """Give the values of the shared nodes the types and shapes of one sample."""
        if self._shown is not concrete:
            for value, type_, shape in concrete.noted:
                value.type, value.shape = type_, shape
            self._shown = concrete
        return self.nodes

    def note(self, shared: ir.Graph, graph: onnx.GraphProto) -> Iterator[_Noted]:
        """Yield the values of a graph and of its bodies, with their types and shapes.

        ``graph`` is the shared one in the shapes of a sample.
        """
        infos = _infos(graph)
        for value in shared.inputs:
            yield value, *self._type(infos.get(str(value.name)))
        for node, proto in zip(shared, graph.node, strict=True):
            for value in node.outputs:
                yield value, *self._type(infos.get(str(value.name)))
            bodies = zip(subgraphs_of(node), graphs_of(proto.attribute), strict=True)
            for inner, body in bodies:
                yield from self.note(inner, body)

    def _type(self, info: onnx.ValueInfoProto | None) -> _Type:
        """Read the type and shape of a value; what is shared cannot be written to."""
        if info is None or not info.HasField("type"):
            return None, None
        key = info.type.SerializeToString()
        if key not in self._types:
            value = ir.serde.deserialize_value_info_proto(info, None)
            if value.shape is not None:
                value.shape.freeze()
            self._types[key] = value.type, value.shape
        return self._types[key]


def _call_of(node: ir.Node) -> object:
    """Return what the operations of an element-wise node depend on; None for other nodes."""
    operator = operator_of(node)
    if operator is None or not operator.elementwise or node.attributes:
        return None
    types = (None if value is None else value.dtype for value in node.inputs)
    return operator, *types, *map(static_shape, node.outputs)


def _operations(node: ir.Node) -> int:
    shapes = [static_shape(value) for value in node.outputs]
    elements = sum(math.prod(shape) for shape in shapes if shape is not None)
    return max(elements, flops_of(Operands(node, lambda _: UNBOUNDED, constant_of)) or 0)


def _number(graph: onnx.GraphProto) -> list[str]:
    """Give all nodes their numbers as names, with a point behind it in a body.

    Returns the names that they had, or their types, by number.
    """
    names: list[str] = []
    stack = [(iter(graph.node), "")]
    while stack:
        node = next(stack[-1][0], None)
        if node is None:
            stack.pop()
            continue
        names.append(node.name or f"of type {node.op_type}")
        node.name = f"{len(names) - 1}{stack[-1][1]}"
        stack += [(iter(body.node), ".") for body in reversed([*graphs_of(node.attribute)])]
    return names


def _infos(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    return {i.name: i for i in (*graph.input, *graph.value_info, *graph.output)}


def _blamed(message: str) -> Fault:
    """Return the first node that shape inference names, in a body if there is no other."""
    faults: list[Fault] = []
    named = [*_BLAMED.finditer(message)]
    ends = [*(found.start() for found in named[1:]), len(message)]
    for found, end in zip(named, ends[: len(named)], strict=True):
        text = message[found.end() : end].replace("[ShapeInferenceError]", "").strip(" :\n")
        if text != "Inference error(s)":  # of a node in a body of this one
            doubtful = bool(found["nested"]) or _DECLARED in text
            faults.append(Fault(int(found["place"]), text, doubtful=doubtful))
    outer = (fault for fault in faults if not fault.doubtful)
    return next(outer, faults[0] if faults else Fault(-1, message))


def _fix(
    type_proto: onnx.TypeProto,
    shape: StaticShape | None,
    find_size: Callable[[str], int | None],
) -> None:
    if shape is not None and type_proto.HasField("tensor_type"):
        type_proto.tensor_type.shape.SetInParent()  # that of an input may be unknown
    for tensor in _tensor_types(type_proto):
        if shape is not None:
            tensor.shape.ClearField("dim")
            tensor.shape.dim.extend(
                onnx.TensorShapeProto.Dimension(dim_value=size) for size in shape
            )
        for dim in tensor.shape.dim:
            if dim.dim_param and (size := find_size(dim.dim_param)) is not None:
                dim.dim_value = size


def _forget(graph: onnx.GraphProto) -> None:
    """Leave the shapes of results to inference."""
    del graph.value_info[:]
    for info in graph.output:
        for tensor in _tensor_types(info.type):
            tensor.ClearField("shape")


def _tensor_types(type_proto: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor]:
    match type_proto.WhichOneof("value"):
        case "tensor_type":
            if type_proto.tensor_type.HasField("shape"):
                yield type_proto.tensor_type
        case "sequence_type":
            yield from _tensor_types(type_proto.sequence_type.elem_type)
        case "optional_type":
            yield from _tensor_types(type_proto.optional_type.elem_type)
