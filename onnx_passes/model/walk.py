"""Walk over everything a model holds: graphs, nodes, tensors, subgraphs and functions.

The order of nodes, sizes, and the places that hold tensors are here as well.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Literal

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.tensor_bytes import byte_count, immutable, lists_elements


def reader(example: object, *names: str, **slots: str) -> Callable[[Any], Any]:
    """Return a function that reads some fields, as a tuple if they are several.

    ``slots`` name, by property, slots that are not the property's name with an underscore.
    """
    found = {name: slots.get(name, f"_{name}") for name in names}
    return attrgetter(*(s if hasattr(example, s) else name for name, s in found.items()))


_NODE = ir.Node("", "Identity", [ir.Value(name="")])
_SLOTS_OF_SHAPE = ("_dims", "_denotations")


def _dims_and_denotations(shape: ir.Shape) -> tuple[Sequence[object], Sequence[object]]:
    return shape.dims, [*map(shape.get_denotation, range(len(shape.dims)))]


node_head = reader(_NODE, "domain", "op_type", "overload", "name", "doc_string")
node_operator = reader(_NODE, "domain", "op_type")
node_name = reader(_NODE, "name")
node_inputs = reader(_NODE, "inputs")
node_outputs = reader(_NODE, "outputs")
node_rest = reader(_NODE, "attributes", "metadata_props", "device_configurations")
node_attributes: Callable[[ir.Node | ir.Function], dict[str, ir.Attr]] = attrgetter(
    "_attributes.data" if hasattr(_NODE, "_attributes") else "attributes.data"
)
"""The attributes as a plain dictionary, which says at once whether it is empty."""
attribute_type = reader(ir.AttrInt64("axis", 0), "type")
value_name = reader(_NODE.outputs[0], "name")
value_type = reader(_NODE.outputs[0], "type")
value_fields = reader(
    _NODE.outputs[0],
    *("name", "type", "shape", "doc_string", "metadata_props", "meta"),
    meta="_metadata",
)
tensor_type = reader(ir.TensorType(ir.DataType.FLOAT), "dtype", "denotation")
metadata_props = reader(_NODE, "metadata_props")
"""Of a node, a value or a graph; may be None."""
meta = reader(_NODE, "meta", meta="_metadata")
"""Of a node, a value or a graph; may be None."""
shape_fields: Callable[[ir.Shape], tuple[Sequence[Any], Sequence[Any]]] = (
    attrgetter(*_SLOTS_OF_SHAPE)
    if all(hasattr(ir.Shape([1]), name) for name in _SLOTS_OF_SHAPE)
    else _dims_and_denotations
)
"""Dimensions and denotations, as many of each. They are not copies."""


def nodes_of(graph: ir.Graph) -> list[ir.Node]:
    """Return the nodes of a graph, in order: onnx-ir's iterator takes four times as long.

    Nodes that are added or removed later do not change the list.
    """
    root = getattr(getattr(graph, "_nodes", None), "_root", None)
    if root is None:
        return list(graph)
    found: list[ir.Node] = []
    box = root.next
    while box is not root:
        found.append(box.value)
        box = box.next
    return found


def named_type(attribute: ir.Attr | None) -> ir.DataType | None:
    """Return the element type that an attribute names, such as that of Cast.

    Before opset 6 it holds a word, since then a number. None if it is omitted, refers to an
    attribute of a function, or names no type.
    """
    if attribute is None or attribute.is_ref():
        return None
    known = {str(key): dtype for dtype in ir.DataType for key in (dtype.name, dtype.value)}
    return known.get(str(attribute.value))


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_TENSORS = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)


def subgraphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs that are attributes of a node, not those nested inside them."""
    for attribute in node_attributes(node).values():
        if attribute_type(attribute) in _GRAPHS:
            yield from _graphs_of(attribute)


def _graphs_of(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.is_ref():
        return ()
    single = attribute.type == ir.AttributeType.GRAPH
    return (attribute.as_graph(),) if single else attribute.as_graphs()


def graphs_of(attribute: ir.Attr) -> Sequence[ir.Graph]:
    """Return the graphs that an attribute holds; none of those of other types."""
    held = attribute.type in _GRAPHS and attribute.value is not None
    return _graphs_of(attribute) if held else ()


def graphs_within(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph, then every graph nested in it, outer ones first."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        # Every pass walks through all nodes, and hardly any of them holds a graph.
        nested = [
            inner
            for attributes in filter(None, map(node_attributes, nodes_of(current)))
            for attribute in attributes.values()
            if attribute_type(attribute) in _GRAPHS
            for inner in _graphs_of(attribute)
        ]
        pending.extend(reversed(nested))


def all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """Yield the main graph, its subgraphs, then the bodies of all functions and theirs."""
    yield from graphs_within(model.graph)
    for function in model.functions.values():
        yield from graphs_within(function.graph)


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield every node of a model, those in subgraphs and functions included."""
    pending = [*reversed([f.graph for f in model.functions.values()]), model.graph]
    while pending:
        nested: list[ir.Graph] = []
        for node in pending.pop():
            yield node
            if node.graph is None:
                continue  # the caller has taken it out
            for attribute in node_attributes(node).values():
                if attribute.type in _GRAPHS:
                    nested.extend(_graphs_of(attribute))
        pending.extend(reversed(nested))


def all_tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield every tensor once: initializers, and tensors in attributes."""
    seen: set[int] = set()
    for graph in all_graphs(model):
        found = [value.const_value for value in graph.initializers.values()]
        for attributes in filter(None, map(node_attributes, nodes_of(graph))):
            found.extend(attribute_tensors(attributes))
        for tensor in found:
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor
    for function in model.functions.values():
        yield from attribute_tensors(function.attributes)


def attribute_tensors(attributes: Mapping[str, ir.Attr]) -> Iterator[ir.TensorProtocol]:
    """Yield the tensors among attributes, not those inside subgraphs."""
    # as_tensor() asks of each tensor whether it keeps onnx-ir's protocol: 30 us, every time.
    for attribute in attributes.values():
        if attribute.type not in _TENSORS or attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type == ir.AttributeType.TENSOR:
            yield attribute.value
        else:
            yield from attribute.value


def values_read(node: ir.Node) -> list[ir.Value]:
    """Return the inputs of a node that it has, and what its subgraphs take from outside."""
    return [v for v in (*node.inputs, *captured_values(node)) if v is not None]


def captured_values(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node's subgraphs take from outside of the node.

    A value comes as often as it is used.
    """
    roots = list(subgraphs_of(node))
    if not roots:
        return
    graphs = dict.fromkeys(graph for root in roots for graph in graphs_within(root))
    for graph in graphs:
        for used in (value for inner in graph for value in inner.inputs):
            if used is not None and used.graph not in graphs:
                yield used
        for output in graph.outputs:
            if output.graph not in graphs:
                yield output


def topological_order(graph: ir.Graph) -> list[ir.Node]:
    """List a graph's own nodes so that producers come first, in their order if possible.

    What subgraphs capture counts as used by the node that holds them. Raises ``ModelError`` if
    nodes depend on each other in a cycle, and names them.
    """
    nodes = nodes_of(graph)
    if _is_sorted(nodes, graph):
        return nodes
    waiting = {
        node: [
            producer
            for value in (*node.inputs, *captured_values(node))
            if value is not None
            and (producer := value.producer()) is not None
            and producer.graph is graph
        ]
        for node in nodes
    }
    order: dict[ir.Node, None] = {}
    for root in waiting:
        stack = [(root, iter(waiting[root]))]
        on_path = {root: None}
        while stack:
            node, producers = stack[-1]
            if node in order:
                stack.pop()
                on_path.pop(node, None)
                continue
            for producer in producers:
                if producer in on_path:
                    cycle = list(on_path)
                    raise cycle_error([label(n) for n in cycle[cycle.index(producer) :]])
                if producer not in order:
                    on_path[producer] = None
                    stack.append((producer, iter(waiting[producer])))
                    break
            else:
                order[node] = None
    return list(order)


def _is_sorted(nodes: Sequence[ir.Node], graph: ir.Graph) -> bool:
    seen: set[ir.Node] = set()
    for node in nodes:
        read = node_inputs(node)
        if node_attributes(node):
            read = (*read, *captured_values(node))
        for value in read:
            producer = None if value is None else value.producer()
            if producer is not None and producer not in seen and producer.graph is graph:
                return False
        seen.add(node)
    return True


def cycle_error(names: list[str]) -> ModelError:
    """Build the error for nodes that depend on each other in a cycle."""
    path = ", ".join(f"'{name}'" for name in names)
    return ModelError(
        f"the graph has a cycle through {path}",
        help="each node needs the next one's output first; break the cycle, "
        "or use Loop or Scan for recurrence",
    )


def label(node: ir.Node) -> str:
    """Name a node for people: by its name, else by what it makes (``Relu -> y``)."""
    made = ", ".join(str(value.name) for value in node.outputs if value.name)
    return node.name or (f"{node.op_type} -> {made}" if made else node.op_type)


_PORT, _CONSTANT, _ATTRIBUTE, _METADATA = 24, 16, 10, 6
"""Bytes of a port, a constant, an attribute, a property, besides names and data."""

GROWTH = "onnx_passes.growth"
"""Metadata of a constant that was folded: the bytes by which the model grew."""


def values_of(graph: ir.Graph) -> list[ir.Value]:
    """Return the inputs of a graph, then what its nodes compute; bodies have their own."""
    return [*graph.inputs, *(value for node in graph for value in node.outputs)]


def names_in(model: ir.Model) -> set[str]:
    """Return the names of all values and nodes of a model."""
    found: set[str] = set()
    for graph in all_graphs(model):
        found.update(str(v.name) for v in values_of(graph) if v.name)
        found.update(graph.initializers, (node.name for node in graph if node.name))
    return found


def node_count(model: ir.Model) -> int:
    """Count all nodes, those in subgraphs and functions included."""
    return sum(len(graph) for graph in all_graphs(model))


def weight_bytes(model: ir.Model) -> int:
    """Sum the bytes of all tensors, each object counted once."""
    return sum(map(byte_count, all_tensors(model)))


def file_bytes(model: ir.Model) -> int:
    """Estimate the bytes of a model's file, its inferred types left out.

    Names and weights are counted as they are, the rest by what it usually takes.
    """
    found = sum(map(node_bytes, all_nodes(model)))
    for graph in all_graphs(model):
        found += sum(_PORT + _length(value) for value in (*graph.inputs, *graph.outputs))
        if isinstance(graph, ir.Graph):
            found += sum(map(constant_bytes, graph.initializers))
    return found + weight_bytes(model)


def bytes_before_folding(model: ir.Model) -> int:
    """Estimate the bytes of a model's file, less what folding has made it grow by so far."""
    return file_bytes(model) - sum(tensor_growth(tensor) for tensor in all_tensors(model))


def tensor_growth(tensor: ir.TensorProtocol) -> int:
    """Return the bytes by which folding a constant has made the model bigger."""
    noted = getattr(tensor, "metadata_props", {}).get(GROWTH, "")
    return int(noted) if noted.isdecimal() else 0


def node_bytes(node: ir.Node) -> int:
    """Estimate the bytes of a node, its subgraphs and tensors left out."""
    values = sum(2 + _length(value) for value in (*node.inputs, *node.outputs))
    named = 6 + len(node.op_type) + len(node.domain) + len(node.name or "")
    # Exporters note where each node comes from: that may be most of a small file.
    told = sum(_METADATA + len(key) + len(text) for key, text in node.metadata_props.items())
    told += len(node.doc_string or "")
    return named + values + told + sum(_ATTRIBUTE + len(name) for name in node.attributes)


def constant_bytes(name: str) -> int:
    """Estimate the bytes of an initializer beside its data."""
    return _CONSTANT + len(name)


def _length(value: ir.Value | None) -> int:
    return len(value.name or "") if value is not None else 0


def operator_histogram(model: ir.Model) -> dict[str, int]:
    """Count nodes by operator, most frequent first; other domains as ``domain::Op``."""
    names = Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in all_nodes(model)
    )
    return dict(sorted(names.items(), key=lambda item: (-item[1], item[0])))


Choice = Callable[[ir.TensorProtocol, bool], ir.TensorProtocol]
"""What to put in place of a tensor, which may be itself, and whether it is an initializer."""


def make_immutable(model: ir.Model, *, layout: Literal["any", "same"]) -> bool:
    """Put tensors that nobody can write to in place of others, in a model for good.

    ``same`` keeps tensors whose protobufs list their elements, because others are written as
    raw bytes. Returns whether any tensor was replaced.
    """
    made: dict[int, tuple[ir.TensorProtocol, ir.TensorProtocol]] = {}

    def choose(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        # What is shared stays shared. The key's tensor is kept, so that ids stay unique.
        known = made.get(id(tensor))
        if known is None:
            left = layout == "same" and lists_elements(tensor)
            known = made[id(tensor)] = (tensor, tensor if left else immutable(tensor))
        return known[1]

    replace_tensors(model, choose)
    return any(old is not new for old, new in made.values())


def replace_tensors(model: ir.Model, choose: Choice) -> None:
    """Put other tensors in a model's initializers and attributes for good."""
    for graph in all_graphs(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and (chosen := choose(tensor, True)) is not tensor:
                value.const_value = chosen
    for holder, attribute in _tensor_attributes(model):
        other = _with_tensors(attribute, choose)
        if other is not attribute:
            holder[attribute.name] = other


def _tensor_attributes(model: ir.Model) -> list[tuple[MutableMapping[str, ir.Attr], ir.Attr]]:
    """Return the attributes that hold tensors, which few do, and where they are."""
    owners: list[ir.Node | ir.Function] = [*model.functions.values()]
    owners += [node for graph in all_graphs(model) for node in nodes_of(graph)]
    return [
        (owner.attributes, attribute)
        for owner in owners
        for attribute in node_attributes(owner).values()
        if attribute_type(attribute) in _TENSORS
        if not attribute.is_ref() and attribute.value is not None
    ]


@contextmanager
def tensors_replaced(model: ir.Model, choose: Choice) -> Iterator[None]:
    """Put other tensors in a model's initializers and attributes until the block ends.

    Names of tensors are put back too, because onnx-ir sets them when it serialises.
    """
    values = [v for graph in all_graphs(model) for v in graph.initializers.values()]
    before = [(v, t, t.name) for v in values if (t := v.const_value) is not None]
    swapped: list[tuple[MutableMapping[str, ir.Attr], ir.Attr]] = []
    try:
        for value, tensor, _ in before:
            value.const_value = choose(tensor, True)
        for holder, attribute in _tensor_attributes(model):
            other = _with_tensors(attribute, choose)
            if other is not attribute:
                swapped.append((holder, attribute))
                holder[attribute.name] = other
        yield
    finally:
        for holder, attribute in swapped:
            holder[attribute.name] = attribute
        for value, tensor, tensor_name in before:
            value.const_value = tensor
            if tensor.name != tensor_name:
                tensor.name = tensor_name


class TensorAttr(ir.Attr):
    """A tensor as an attribute: onnx-ir checks its protocol at each look, in 50 us."""

    __slots__ = ()

    def as_tensor(self) -> ir.TensorProtocol:
        """Return the tensor."""
        tensor: ir.TensorProtocol = self.value
        return tensor


def _with_tensors(attribute: ir.Attr, choose: Choice) -> ir.Attr:
    kind, note = attribute_type(attribute), attribute.doc_string
    if kind == ir.AttributeType.TENSOR:
        chosen = choose(attribute.value, False)
        same = chosen is attribute.value
        return attribute if same else TensorAttr(attribute.name, kind, chosen, doc_string=note)
    tensors = attribute.value
    found = [choose(tensor, False) for tensor in tensors]
    if any(a is not b for a, b in zip(found, tensors, strict=True)):
        return ir.AttrTensors(attribute.name, found, doc_string=note)
    return attribute


_OF_ENGINES = frozenset({"com.microsoft"})
"""Domains whose operators onnx does not know, and an engine may."""


def shadows_operator(key: ir.OperatorIdentifier, imports: Mapping[str, int]) -> bool:
    """Whether a function has the name of an operator, so that a call may mean either.

    ONNX leaves it to the engine. ONNX Runtime runs its own operator, and onnx's evaluator runs
    the function. ``imports`` are those where it is called.
    """
    domain, name, _ = key
    if domain in _OF_ENGINES:
        return True
    version = imports.get(domain)
    return version is not None and onnx.defs.has(name, version, domain)
