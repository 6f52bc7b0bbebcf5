"""Whether a model is well formed: onnx's checker, scopes, types and shapes.

Each name is defined once and before its use. What the checker accepted before is not checked
again. Noted types and shapes are compared with values that were seen.
"""

from __future__ import annotations

import re
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import shape_text
from onnx_passes.errors import ModelError
from onnx_passes.model.inference import annotate
from onnx_passes.model.load import write_noted_types
from onnx_passes.model.walk import (
    captured_values,
    node_attributes,
    node_head,
    node_inputs,
    node_outputs,
    nodes_of,
    shape_fields,
    subgraphs_of,
    topological_order,
    value_name,
    value_type,
)
from onnx_passes.ops.bodies import attach_bodies, bodies_attached
from onnx_passes.runtime.engine_base import Data
from onnx_passes.runtime.engine_models import GraphWriter, is_large, opsets_into, split_weights
from onnx_passes.verify.region import backward_slice
from onnx_passes.verify.snapshot import initializers_of


def infer_types(model: ir.Model) -> str | None:
    """Note types and shapes at the values of a model, as far as onnx can infer them.

    Return why inference failed, and leave the model as it was; None if it did not fail.
    """
    try:
        with bodies_attached(model):
            annotate(model)
    except (onnx.shape_inference.InferenceError, ir.passes.PassError, ValueError) as error:
        cause = error.__cause__ or error
        return " ".join(str(cause).split())[:200]
    return None


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_SIMPLE = (
    ir.AttributeType.FLOAT,
    ir.AttributeType.FLOATS,
    ir.AttributeType.INT,
    ir.AttributeType.INTS,
    ir.AttributeType.STRING,
    ir.AttributeType.STRINGS,
)
_ONNX = ("", "ai.onnx.ml")
_WRITTEN = (ir.TensorType, type(None))
"""Types that can always be written; others are, each time."""


@dataclass
class CheckedNodes:
    """Nodes and tensors that the checker has accepted, under one set of opset imports.

    ``context`` is IR version and opset imports: under others nothing is known. ``forms`` is
    what decides the checker's answer on a node or tensor. ``held`` keeps small tensors alive,
    so that ids stay unique.
    """

    context: Hashable = None
    forms: set[Hashable] = field(default_factory=set)
    held: dict[int, ir.TensorProtocol] = field(default_factory=dict)

    def accept(self, model: ir.Model, check: Callable[[onnx.ModelProto], object]) -> bool:
        """Ask the checker about the parts of a model that it has not accepted yet.

        Names and order of the model are sound; ``check`` raises what the checker raises. If
        this returns false, or the model has subgraphs or functions, ask about the whole model.
        """
        if model.functions:
            return False
        context = (model.ir_version, tuple(sorted(model.opset_imports.items())))
        if context != self.context:
            self.context, self.forms, self.held = context, set(), {}
        fresh = self._fresh_nodes(model.graph)
        if fresh is None:
            return False
        of_tensors, values = self._fresh_initializers(model.graph)
        if any(not value.name for value in values):
            return False
        forms, nodes = fresh
        try:
            check(_proto_of(model, values, nodes))
        except Exception:  # it is reported of the whole model
            return False
        self.forms.update(forms, of_tensors)
        return True

    def _fresh_nodes(self, graph: ir.Graph) -> tuple[list[Hashable], list[ir.Node]] | None:
        """Return new forms, and the nodes to be looked at; None where one holds a graph."""
        known, nodes = set(self.forms), list[ir.Node]()
        for node in graph:
            attributes = node_attributes(node).values()
            if any(attribute.type in _GRAPHS for attribute in attributes):
                return None
            form = self._form(node, attributes)
            if form is None or form not in known:
                nodes.append(node)
                known.add(form)
        return list(known - self.forms - {None}), nodes

    def _form(self, node: ir.Node, attributes: Iterable[ir.Attr]) -> Hashable | None:
        """Return what decides the checker's answer; None where it is to be asked each time."""
        domain, op_type, overload, _, _ = node_head(node)
        outputs = node_outputs(node)
        if domain not in _ONNX or not all(type(value_type(v)) in _WRITTEN for v in outputs):
            return None
        held: list[Hashable] = []
        for attribute in attributes:
            kind, value = attribute.type, attribute.value
            if kind == ir.AttributeType.TENSOR and value is not None:
                value = self._tensor(value)
            elif kind not in _SIMPLE:
                return None
            if value is None or attribute.is_ref():
                return None
            held.append((attribute.name, kind, value))
        operands = tuple([v is not None and bool(value_name(v)) for v in node_inputs(node)])
        results = tuple([bool(value_name(v)) for v in outputs])
        form = (domain, op_type, overload, operands, results, tuple(held))
        try:
            hash(form)
        except TypeError:
            return None
        return form

    def _tensor(self, tensor: ir.TensorProtocol) -> Hashable:
        """Return what decides the checker's answer on a tensor.

        Of a large one that is its type and shape, which is all that it is shown.
        """
        if id(tensor) in self.held:
            return id(tensor)
        if is_large(tensor):
            return (tensor.dtype, tuple(tensor.shape.numpy()))
        self.held[id(tensor)] = tensor
        return id(tensor)

    def _fresh_initializers(self, graph: ir.Graph) -> tuple[list[Hashable], list[ir.Value]]:
        """Return new forms of tensors, and the initializers to be looked at."""
        new: dict[Hashable, ir.Value] = {}
        for value in initializers_of(graph).values():
            if value.const_value is not None:
                form = self._tensor(value.const_value)
                if form not in self.forms or not value.name:
                    new[form] = value
        return list(new), list(new.values())


def _proto_of(
    model: ir.Model, initializers: Sequence[ir.Value], nodes: Sequence[ir.Node]
) -> onnx.ModelProto:
    """Return a model of some nodes, in which all that they read is defined."""
    proto = onnx.ModelProto(ir_version=model.ir_version, domain=model.domain or "")
    opsets_into(proto.opset_import, model.opset_imports)
    writer = GraphWriter.of_model(proto.graph, model)
    writer.interface_into(proto.graph, model.graph)
    for value in initializers:
        writer.initializer_into(proto.graph, value)
    writer.nodes_into(proto.graph, nodes)
    known = {"", *(entry.name for entry in (*proto.graph.input, *proto.graph.initializer))}
    rest: dict[str, None] = {}
    for node in proto.graph.node:
        rest |= dict.fromkeys(name for name in node.input if name not in known)
        known.update(node.output)
    rest |= dict.fromkeys(out.name for out in proto.graph.output if out.name not in known)
    proto.graph.input.extend(map(_any, rest))
    attach_bodies(proto)
    return proto


def _any(name: str) -> onnx.ValueInfoProto:
    """Declare a value that the checker is not asked about."""
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ())


# A location that starts so is not looked for on disk by the checker.
_NO_FILE = "#"

_UNNAMED = "output "
_FIRST_FREE_INITIALIZERS = 4


def complaints(
    model: ir.Model,
    *,
    full: bool = False,
    lenient: bool = False,
    known: CheckedNodes | None = None,
) -> list[str]:
    """Return what the checker has to say, one sentence each; empty if nothing.

    Names and order of the model are sound. ``full`` infers types and shapes, and then always
    asks about everything. ``lenient`` accepts what engines accept: outputs without a type or
    shape, and domains other than ONNX's own without an opset import.
    """
    if known is not None and lenient and not full and known.accept(model, _ask_leniently):
        return []
    try:
        proto = split_weights(model).proto
    except (ir.serde.SerdeError, ValueError, TypeError) as error:
        return [f"the model cannot be written as ONNX: {_one_line(str(error))}"]
    _name_nodes(proto.graph)
    write_noted_types(model, proto)
    if lenient:
        _complete(proto, model.graph.all_nodes())
    _release(proto)
    try:
        onnx.checker.check_model(proto, full_check=full)
    except onnx.checker.ValidationError as error:
        return [_validation(str(error))]
    except onnx.shape_inference.InferenceError as error:
        return _inference(str(error))
    except (ValueError, RuntimeError) as error:  # raised for what it cannot read
        return [_one_line(str(error))]
    return []


def _ask_leniently(proto: onnx.ModelProto) -> None:
    """Ask about a part of a model; raise what the checker raises."""
    _complete(proto, proto.graph.node)
    _release(proto)
    onnx.checker.check_model(proto)


def _release(proto: onnx.ModelProto) -> None:
    """Accept absent tensors, and initializers that are not inputs.

    Large constants have become initializers, which old models must list as inputs.
    """
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = _NO_FILE
    proto.ir_version = max(proto.ir_version, _FIRST_FREE_INITIALIZERS)


def _complete(
    proto: onnx.ModelProto, nodes: Iterable[ir.Node] | Iterable[onnx.NodeProto]
) -> None:
    """Remove outputs without a type or shape, and import all domains that nodes have."""
    kept = [value for value in proto.graph.output if _is_complete(value.type)]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    domains = {node.domain for node in nodes if node.domain}
    for domain in sorted(domains - {entry.domain for entry in proto.opset_import}):
        proto.opset_import.add(domain=domain, version=1)


def _is_complete(type_: onnx.TypeProto) -> bool:
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        return bool(getattr(type_, kind).HasField("shape"))
    return kind is not None


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Give nodes without a name one by which the user finds them."""
    for node in graph.node:
        if not node.name and node.output:
            node.name = _UNNAMED + node.output[0]
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                _name_nodes(subgraph)


def _label(name: str | None, op: str) -> str:
    if name and name.startswith(_UNNAMED):
        return f"the {op} node that computes {name.removeprefix(_UNNAMED)!r}"
    return f"node {name or ''!r} ({op})"


def _validation(text: str) -> str:
    """Shorten ``fault. ==> Context: Bad node spec for node. Name: n OpType: Op``."""
    fault, *contexts = text.split("==> Context:")
    fault = _one_line(fault).rstrip(".")
    fault = re.sub(
        r"^Node\([^)]*\) with schema\((.*?)\) has", r"under schema \1 it has", fault
    )
    nodes = [
        _label(name, op)
        for context in contexts
        for name, op in re.findall(r"Name: (.{0,999}?) ?OpType: (\w+)", context)
    ]
    return f"{nodes[0]}: {fault}" if nodes else fault


def _inference(text: str) -> list[str]:
    text = text.removeprefix("[ShapeInferenceError] ").removeprefix("Inference error(s): ")
    found = []
    for line in text.splitlines():
        # Follows from the fault that left the type unknown.
        if not line.strip() or "expected to have type but instead is null" in line:
            continue
        match = re.match(r"\(op_type:(\w+)(?:, node name: (.*?))?\): (?:\[\w+\] )?(.*)", line)
        if match is None:
            found.append(_one_line(line))
            continue
        op, name, fault = match.groups()
        if "elem type" in fault:
            fault = re.sub(r"\((\d+)\)", _element, fault)
        found.append(f"{_label(name, op)}: {_one_line(fault)}")
    return found or [_one_line(text)]


def _element(match: re.Match[str]) -> str:
    number = int(match[1])
    known = number in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(number).lower() if known else match[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())


MOST = 20
"""Kinds of faults reported; a broken model has many, and the first ones matter."""
_NAMES = re.compile(r"'[^']*'|function op \w+|\b(the|node|that computes)\b|[()\s]")


def without_names(fault: str) -> str:
    """Return what is wrong with a model without the names of nodes and values."""
    return _NAMES.sub("", fault)


def first_few(faults: Iterable[str]) -> list[str]:
    """Return the first fault of each kind, and how many more there are like it."""
    kinds: dict[str, list[str]] = {}
    for fault in faults:
        kinds.setdefault(without_names(fault), []).append(fault)
    found = [
        first if not others else f"{first}, and {len(others)} more like it"
        for first, *others in kinds.values()
    ]
    more = len(found) - MOST
    return found[:MOST] + ([f"{more} more kinds of faults"] if more > 0 else [])


def check_structure(
    model: ir.Model, *, full: bool = False, known: CheckedNodes | None = None
) -> list[str]:
    """Check a model without running it, changing it, or serialising its weights.

    First, on the IR itself: every value has a definition, there is no cycle, nodes are in
    order, and no name occurs twice in nested scopes. Every domain has an opset import, outputs
    exist, and initializers hold what they declare. Where nothing is found, onnx's own checker
    is asked, which knows operators, their attributes and their number of inputs. ``full`` also
    infers types and shapes, and complains if they contradict; some models that engines accept
    do not survive this. ``known`` grows.
    """
    found = list(dict.fromkeys(_faults(model)))
    return found or complaints(model, full=full, lenient=True, known=known)


def _faults(model: ir.Model) -> Iterator[str]:
    graph = model.graph
    if not graph.outputs:
        yield "the model has no outputs"
    if model.ir_version < _FIRST_FREE_INITIALIZERS:
        for value in graph.initializers.values():
            if not value.is_graph_input():
                yield (
                    f"initializer {value.name!r} is not a graph input, as IR version "
                    f"{model.ir_version} demands"
                )
    yield from _Scopes(model.opset_imports, "").faults(graph)
    for function in model.functions.values():
        name = f" of function {function.domain}::{function.name}"
        yield from _Scopes(function.opset_imports, name).faults(function.graph)


class _Scopes:
    """One tree of nested graphs: the main graph's, or a function's."""

    def __init__(self, opsets: Mapping[str, int], suffix: str) -> None:
        self.opsets = {_domain(domain) for domain in opsets}
        self.suffix = suffix
        # What the graphs around the present node define so far, and under which names.
        self.visible: set[ir.Value] = set()
        self.names: dict[str, ir.Value] = {}

    def faults(self, graph: ir.Graph, holder: str = "") -> Iterator[str]:
        """Check a graph and those in it; ``holder`` is the outer node as text, or empty."""
        here = f" in the subgraph of {holder}" if holder else self.suffix
        defined: list[ir.Value] = []
        yield from self._define(graph.inputs, "input", here, defined)
        held = initializers_of(graph)
        initializers = [v for v in held.values() if not v.is_graph_input()]
        yield from self._define(initializers, "initializer", here, defined)
        for name, value in held.items():
            yield from _initializer_faults(name, value, here)
        late = False
        for node in nodes_of(graph):
            if _domain(node.domain) not in self.opsets:
                label = f"{_node_label(node)}{here}"
                yield f"{label} is of the domain {node.domain!r}, which has no opset import"
            for used in node_inputs(node):
                if used is None or used in self.visible:
                    continue
                label = f"{_node_label(node)}{here}"
                producer = used.producer()
                if producer is not None and producer.graph is graph:
                    late = True
                else:
                    yield f"{label} uses {used.name!r}, {_whereabouts(used)}"
            for subgraph in subgraphs_of(node):
                yield from self.faults(subgraph, _node_label(node))
            made = node_outputs(node)
            if len(made) == 1 and self._defines(made[0]):
                defined.append(made[0])
            else:  # a label takes long: only if something may be wrong
                place = f" of {_node_label(node)}{here}"
                yield from self._define(made, "output", place, defined)
        if late:
            yield from _order_faults(graph, here)
        yield from self._output_faults(graph, here, set(defined))
        self.visible.difference_update(defined)
        for value in defined:
            if self.names.get(value.name or "") is value:
                del self.names[value.name or ""]

    def _defines(self, value: ir.Value) -> bool:
        """Define a value, if it is new and has a new name."""
        name: str | None = value_name(value)
        if not name or name in self.names or value in self.visible:
            return False
        self.visible.add(value)
        self.names[name] = value
        return True

    def _define(
        self, values: Iterable[ir.Value], word: str, here: str, defined: list[ir.Value]
    ) -> Iterator[str]:
        for value in values:
            if value in self.visible:
                yield f"{word} {value.name!r}{here} is listed twice"
                continue
            self.visible.add(value)
            defined.append(value)
            if not value.name:
                if value.uses() or value.is_graph_output() or word != "output":
                    yield f"an {word}{here} has no name"
            elif value.name in self.names:
                yield f"the name {value.name!r} is defined twice: again as {word}{here}"
            else:
                self.names[value.name] = value

    def _output_faults(
        self, graph: ir.Graph, here: str, defined: set[ir.Value]
    ) -> Iterator[str]:
        seen: set[ir.Value] = set()
        for value in graph.outputs:
            if value in seen:
                yield f"the graph output {value.name!r}{here} is listed twice"
            elif value in self.visible and value not in defined:
                yield (
                    f"the graph output {value.name!r}{here} is a value of an outer graph; "
                    "it needs an Identity"
                )
            elif value not in defined:
                yield f"the graph output {value.name!r}{here} has no definition: " + (
                    _whereabouts(value)
                )
            seen.add(value)


def _order_faults(graph: ir.Graph, here: str) -> Iterator[str]:
    try:
        topological_order(graph)
    except ModelError as error:
        yield f"{error.message}{here}"
        return
    place = {node: index for index, node in enumerate(graph)}
    for node in graph:
        for value in node.inputs:
            if value is None or (producer := value.producer()) is None:
                continue
            if place.get(producer, -1) > place[node]:
                yield (
                    f"{_node_label(node)}{here} uses {value.name!r}, which comes later, from "
                    f"{_node_label(producer)}; topological-sort puts nodes in order"
                )


def _initializer_faults(name: str, value: ir.Value, here: str) -> Iterator[str]:
    what = f"initializer {name!r}{here}"
    if value.name != name:
        yield f"{what} names itself {value.name!r}"
    tensor = value.const_value
    if tensor is None:
        yield f"{what} has no value"
        return
    if value.dtype is not None and value.dtype != tensor.dtype:
        yield (
            f"{what} is declared {value.dtype.name.lower()}, and holds "
            f"{tensor.dtype.name.lower()}"
        )
    held = tuple(tensor.shape.numpy())
    declared = value.shape
    if declared is not None and (
        len(declared) != len(held)
        or any(isinstance(d, int) and d != h for d, h in zip(declared, held, strict=True))
    ):
        yield f"{what} is declared {declared}, and holds {shape_text(held)}"


def _whereabouts(value: ir.Value) -> str:
    producer = value.producer()
    if producer is None:
        return "which nothing defines"
    if producer.graph is None:
        return f"which came from {_node_label(producer)}, a node that was removed"
    return f"which {_node_label(producer)} computes out of reach, in another graph"


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _node_label(node: ir.Node) -> str:
    if node.name or not node.outputs:
        return f"node {node.name or ''!r} ({node.op_type})"
    return f"the {node.op_type} node that computes {node.outputs[0].name!r}"


Evaluate = Callable[[ir.Node, Mapping[str, Array]], Mapping[str, Data] | None]
"""Gives what the standard makes of a node's operands; None where that is not known."""

_MOST_NODES = 64
"""Nodes that are evaluated for the values that contradict what is noted, the nearest ones."""


def find_wrong_annotations(
    before: ir.Model,
    after: ir.Model,
    samples: Sequence[Mapping[str, Array]],
    evaluate: Evaluate | None = None,
) -> list[str]:
    """Return what is wrong with types and shapes that only ``after`` has.

    An engine may give another shape than the standard: ONNX Runtime does not reduce an empty
    tensor along an axis that is counted from the end. What the standard gives is right then,
    and what follows from such a value says nothing. Nor does what follows from a shape that
    the model before has wrong, also in a body, or from a loop that is not entered. Both models
    have the same nodes. ``evaluate`` decides if values contradict; without it they are
    believed.
    """
    old = {str(v.name): (v.type, v.shape) for v in _values(before)}
    noted = [v for v in _values(after) if old.get(str(v.name)) != (v.type, v.shape)]
    named = [(value, str(value.name), _note(value)) for value in noted]
    found: list[str] = []
    for values in samples:
        sizes = named_sizes(after.graph.inputs, values)
        wrong: dict[str, str] = {}
        right: set[Hashable] = set()  # most values have one of a few types and shapes
        for value, name, note in named:
            array = values.get(name)
            if array is None or (seen := (*note, array.dtype, array.shape)) in right:
                continue
            text = _told(value, array, sizes)
            if text is None:
                right.add(seen)
            else:
                wrong[name] = text
        if wrong and evaluate is not None:
            noted_wrong = {
                str(value.name)
                for value in _values(before)
                if (array := values.get(str(value.name))) is not None
                and _told(value, array, sizes) is not None
            }
            noted_wrong.update(_of_false_bodies(before, values, sizes))
            odd = _odd_values(after.graph, wrong, values, sizes, evaluate, noted_wrong)
            wrong = {name: text for name, text in wrong.items() if name not in odd}
        found += [text for text in wrong.values() if text not in found]
    return found


def _odd_values(
    graph: ir.Graph,
    ends: Collection[str],
    values: Mapping[str, Array],
    sizes: dict[str, int],
    evaluate: Evaluate,
    known: Collection[str],
) -> set[str]:
    """Return what leads to some values and has a shape of the engine's, not the standard's.

    What is computed from such a value is among them. So is what is computed from values that
    are known to be odd.
    """
    odd = set(known)
    nodes = backward_slice(ends, graph, lambda _: False)
    makers = [node for node in nodes if any(value.name in ends for value in node.outputs)]
    # What follows from the first that is wrong need not be asked.
    first = [str(value.name) for node in makers[:1] for value in node.outputs]
    asked = {*backward_slice(first, graph, lambda _: False)[-_MOST_NODES:], *makers}
    for node in nodes:
        made = {str(value.name): value for value in node.outputs if value.name}
        if any(
            v is not None and v.name in odd for v in (*node.inputs, *captured_values(node))
        ):
            odd |= made.keys()
            continue
        if node.op_type in ("Loop", "Scan") and node.domain == "":
            # What is stacked in no iteration has no element whose sizes are known.
            odd |= {
                n for n in made if (a := values.get(n)) is not None and a.shape[:1] == (0,)
            }
            continue
        if node not in asked:
            continue
        for name, array in (evaluate(node, values) or {}).items():
            seen = values.get(name)
            if seen is None or name not in made or not isinstance(array, np.ndarray):
                continue
            if (seen.shape, seen.dtype) != (array.shape, array.dtype):
                odd |= {name} if _told(made[name], array, sizes) is None else set()
    return odd


def _values(model: ir.Model) -> list[ir.Value]:
    return [v for node in model.graph for v in node.outputs if v.name]


def _of_false_bodies(
    model: ir.Model, values: Mapping[str, Array], sizes: dict[str, int]
) -> Iterator[str]:
    """Yield results of bodies that declare of what goes in or out what it is not."""
    for node in model.graph:
        for body in subgraphs_of(node):
            pairs = zip(reversed(body.inputs), reversed(node.inputs), strict=False)
            ends = zip(reversed(body.outputs), reversed(node.outputs), strict=False)
            for inner, outer in (*pairs, *ends):
                array = None if outer is None else values.get(str(outer.name))
                if array is not None and inner.shape is not None:
                    stacked = array.ndim > len(inner.shape) and len(array)
                    if _told(inner, array[0] if stacked else array, sizes) is not None:
                        yield from (str(value.name) for value in node.outputs)


def _note(value: ir.Value) -> tuple[Hashable, ...]:
    """Return the type and the dimensions that are noted of a value."""
    shape = value.shape
    return value.dtype, None if shape is None else tuple(shape_fields(shape)[0])


def named_sizes(inputs: Sequence[ir.Value], values: Mapping[str, Data]) -> dict[str, int]:
    """Return the sizes of the dimensions that inputs name; only arrays have sizes."""
    found: dict[str, int] = {}
    for value in inputs:
        shape, array = value.shape, values.get(str(value.name))
        if isinstance(array, np.ndarray) and shape is not None and len(shape) == array.ndim:
            for dim, size in zip(shape, array.shape, strict=True):
                if isinstance(dim, ir.SymbolicDim) and dim.value:
                    found.setdefault(str(dim.value), size)
    return found


_type_of = cache(ir.DataType.from_numpy)
"""It looks through several tables, and there are a handful of types."""


def _told(value: ir.Value, array: Array, sizes: dict[str, int]) -> str | None:
    dtype, shape = value.dtype, value.shape
    if dtype is not None and dtype is not ir.DataType.STRING:
        seen = _type_of(array.dtype)
        if seen != dtype and seen.bitwidth == dtype.bitwidth:
            return f"{value.name} is noted to be {dtype.name}, and is {seen.name}"
    if shape is None:
        return None
    dims, _ = shape_fields(shape)
    fits = len(dims) == array.ndim and all(
        dim == size or (not isinstance(dim, int) and sizes.get(str(dim.value), size) == size)
        for dim, size in zip(dims, array.shape, strict=True)
    )
    if fits:  # no text for correct values: there are thousands
        return None
    told = f"[{', '.join(str(d) if isinstance(d, int) else str(d.value) for d in shape)}]"
    was = f"[{', '.join(map(str, array.shape))}]"
    return f"{value.name} is noted to have shape {told}, and has {was}"
