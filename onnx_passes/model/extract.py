"""A part of a graph as a model of its own, cut at values that are named."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.errors import UsageError, did_you_mean
from onnx_passes.model.copy import copy_header, copy_nodes
from onnx_passes.model.walk import all_graphs, subgraphs_of, values_of, values_read


@dataclass(frozen=True)
class Cut:
    """A value at which a graph is cut.

    Attributes:
        name: Its name.
        dtype: Its element type; None for what the model says.
        shape: Its dimensions, names for dynamic ones; None for what the model says.
    """

    name: str
    dtype: ir.DataType | None = None
    shape: tuple[int | str, ...] | None = None


def extract(
    model: ir.Model, inputs: Sequence[Cut] = (), outputs: Sequence[Cut] = ()
) -> ir.Model:
    """Return the nodes between some values as a model; weights are shared.

    Args:
        model: The model; left as it is.
        inputs: Where to begin; by default at the inputs that the outputs depend on.
        outputs: Where to end; by default at the outputs of the model. Values of a subgraph
            are cut out of it, and what it reads from around it has to be among the inputs.

    Raises:
        UsageError: There is no such value, its type is not known, or the outputs depend on
            other inputs than those named, or not on all of these.
    """
    ends = outputs or [Cut(str(value.name)) for value in model.graph.outputs]
    graph = _graph_of(model, [cut.name for cut in ends])
    known = _visible(model, graph)
    for cut in (*inputs, *ends):
        if cut.name not in known:
            listed = "onnx-passes inspect model MODEL --show layers lists them"
            nearest = did_you_mean(cut.name, known, listed, most=3)
            hint = what_is_named(cut.name, graph) or nearest
            raise UsageError(f"the model has no value {cut.name!r}", help=hint)
    starts = {known[cut.name] for cut in inputs}
    nodes, read = _between(graph, starts, [known[cut.name] for cut in ends])
    open_ = [v for v in read if v not in starts and not _constant(v)]
    if inputs and any(not v.is_initializer() for v in open_):
        names = ", ".join(repr(v.name) for v in open_ if not v.is_initializer())
        raise UsageError(
            f"the outputs depend on {names} as well",
            help="name it among the inputs, or cut further up or down",
        )
    for cut in inputs:
        if known[cut.name] not in read:
            raise UsageError(
                f"no output depends on the input {cut.name!r} that way: the cut leaves it "
                "unconnected",
                help="leave it out, or name an output behind it",
            )
    copies, mapped = copy_nodes(nodes)
    kept_inputs = [known[cut.name] for cut in inputs] + open_
    typed = {cut.name: cut for cut in (*inputs, *ends)}
    initializers = []
    for value in read:
        copy = mapped.setdefault(value, _copied(value))
        if value in kept_inputs:
            copy.const_value = value.const_value if value not in starts else None
        if copy.const_value is not None:
            initializers.append(copy)
    for value in (*kept_inputs, *(known[cut.name] for cut in ends)):
        copy = mapped.setdefault(value, _copied(value))
        _declare(copy, value, typed.get(str(value.name)), needed=value in kept_inputs)
    part = assemble(
        model,
        copies,
        [mapped[v] for v in kept_inputs],
        [mapped[known[cut.name]] for cut in ends],
        initializers,
        dict((graph.opset_imports or model.graph.opset_imports).items()),
    )
    copy_header(model, part)
    return part


def assemble(
    model: ir.Model,
    nodes: Iterable[ir.Node],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    initializers: Sequence[ir.Value],
    opsets: dict[str, int] | None = None,
) -> ir.Model:
    """Return a model of copied ``nodes``, in order, with the functions that they call."""
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=initializers,
        opset_imports=opsets or dict(model.graph.opset_imports),
        name=model.graph.name or "part",
    )
    return ir.Model(graph, ir_version=model.ir_version, functions=_functions_of(model, graph))


def _functions_of(model: ir.Model, graph: ir.Graph) -> list[ir.Function]:
    used: dict[ir.OperatorIdentifier, ir.Function] = {}
    pending: list[ir.Graph | ir.Function] = [graph] if model.functions else []
    while pending:
        for node in pending.pop().all_nodes():
            function = model.functions.get(node.op_identifier())
            if function is not None and function.identifier() not in used:
                used[function.identifier()] = function
                pending.append(function)
    return [f for key, f in model.functions.items() if key in used]


def _graph_of(model: ir.Model, names: Collection[str]) -> ir.Graph:
    """Return the graph that computes all of some values; the main graph where none does."""
    wanted = set(names)
    found = model.graph
    for graph in all_graphs(model):
        made = {v.name for node in graph for v in node.outputs}
        if wanted <= made and isinstance(graph, ir.Graph):
            return graph
        if wanted & made and isinstance(graph, ir.Graph):
            found = graph
    return found


def _visible(model: ir.Model, graph: ir.Graph) -> dict[str, ir.Value]:
    """Return the values that a graph holds or can read, inner ones in place of outer ones."""
    found: dict[str, ir.Value] = {}
    for each in _enclosing_graphs(model.graph, graph):
        values = [*each.initializers.values(), *values_of(each)]
        found.update((str(value.name), value) for value in values if value.name)
    return found


def _enclosing_graphs(outer: ir.Graph, graph: ir.Graph) -> list[ir.Graph]:
    """Return the graphs from the outer one down to one that lies in it."""
    if outer is graph:
        return [outer]
    for node in outer:
        for inner in subgraphs_of(node):
            if found := _enclosing_graphs(inner, graph):
                return [outer, *found]
    return []


def _between(
    graph: ir.Graph, starts: set[ir.Value], ends: Sequence[ir.Value]
) -> tuple[list[ir.Node], list[ir.Value]]:
    """Return the nodes that compute values from others, and what they read from outside."""
    needed: set[ir.Node] = set()
    read: dict[ir.Value, None] = {}
    pending = list(ends)
    while pending:
        value = pending.pop()
        producer = value.producer()
        if value in starts or producer is None or producer.graph is not graph:
            read[value] = None
        elif producer not in needed:
            needed.add(producer)
            pending += values_read(producer)
    order = {v: i for i, v in enumerate((*graph.inputs, *graph.initializers.values()))}
    outside = sorted(read, key=lambda v: order.get(v, len(order)))
    return [node for node in graph if node in needed], outside


def _constant(value: ir.Value) -> bool:
    return value.const_value is not None and not value.is_graph_input()


def _copied(value: ir.Value) -> ir.Value:
    return ir.Value(
        name=value.name, type=value.type, shape=value.shape, const_value=value.const_value
    )


def _declare(copy: ir.Value, value: ir.Value, cut: Cut | None, *, needed: bool) -> None:
    dtype = cut.dtype if cut is not None and cut.dtype is not None else None
    copy.type = value.type if dtype is None else ir.TensorType(dtype)
    if cut is not None and cut.shape is not None:
        copy.shape = ir.Shape(cut.shape)
    elif value.shape is not None:
        copy.shape = value.shape.copy()
    if copy.type is None and needed:
        raise UsageError(
            f"the type of {value.name!r} is not known",
            help=f"say it: {value.name}:1x3x224x224:float32",
        )


def what_is_named(name: str, graph: ir.Graph) -> str | None:
    """Say what a name means that no value has: a node, or several values; None for neither."""
    values = {str(value.name) for node in graph for value in node.outputs}
    for node in graph:
        if node.name == name:
            made = " ".join(str(value.name) for value in node.outputs if value.name)
            return f"{name!r} is a node, which computes {made}"
    several = name.split(",")
    if len(several) > 1 and values & {*several}:
        return f"write spaces between names: {' '.join(several)}"
    return None
