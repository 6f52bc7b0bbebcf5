"""Edits of a model: nodes, names, metadata, parts, and cleanup.

Models are loaded, cut and saved here as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.extract import Cut
from onnx_passes.model.extract import extract as cut_out
from onnx_passes.model.inference import makes_map
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import all_graphs, values_of, values_read
from onnx_passes.passes.annotation.shape_inference import try_infer_shapes
from onnx_passes.passes.base import Pass
from onnx_passes.passes.cleanup.remove_unused_functions import RemoveUnusedFunctions
from onnx_passes.passes.cleanup.remove_unused_initializers import RemoveUnusedInitializers
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from onnx_passes.passes.cleanup.remove_unused_opsets import RemoveUnusedOpsets
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from onnx_passes.passes.common.graph_edits import supersede
from onnx_passes.plain import Plain, PlainMapping
from onnx_passes.surgery.builder import Builder, as_array, as_tensor, dtype_of, near
from onnx_passes.verify.well_formed import complaints


def load(path: str | Path) -> ir.Model:
    """Read a model; weights in other files stay there until they are asked for.

    Raises:
        ModelError: It cannot be read.
    """
    return load_model(path).model


def save(model: ir.Model, path: str | Path) -> None:
    """Write a model; beyond 2 GiB its weights go to a file beside it.

    Args:
        model: The model.
        path: The file; its extension decides the form.

    Raises:
        ModelError: It cannot be written.
    """
    save_model(model, Path(path))


def producer(of: ir.Node | ir.Value, index: int = 0) -> ir.Node | None:
    """Return the node that computes a value, or the input of a node at a position.

    Args:
        of: The value, or a node.
        index: Which input of a node; negative from the end.

    Raises:
        UsageError: The node has fewer inputs.
    """
    if isinstance(of, ir.Value):
        return of.producer()
    if not -len(of.inputs) <= index < len(of.inputs):
        raise UsageError(f"{of.op_type} {of.name!r} has {len(of.inputs)} inputs")
    value = of.inputs[index]
    return None if value is None else value.producer()


def consumer(of: ir.Node | ir.Value, index: int = 0) -> ir.Node | None:
    """Return one of the nodes that read a value, or the first output of a node.

    They are counted in the order in which they began to read; None if there are fewer.

    Args:
        of: The value, or a node.
        index: Which reader, from 0; negative from the end.
    """
    value = of.outputs[0] if isinstance(of, ir.Node) else of
    readers = list(dict.fromkeys(node for node, _ in value.uses()))
    return readers[index] if -len(readers) <= index < len(readers) else None


def insert_after(
    model: ir.Model, value: ir.Value, layer: Callable[[Builder, ir.Value], ir.Value]
) -> ir.Value:
    """Write something behind a value; what read the value then reads the result.

    An output of the graph keeps its name, and the value gets another.

    Args:
        model: The model, changed in place.
        value: An output of a node, an input or an initializer.
        layer: Gets a builder and the value; returns the result.

    Raises:
        UsageError: The value is both an input and an output of the graph.
    """
    if value.is_graph_output() and value.producer() is None:
        raise UsageError(
            f"{value.name!r} is read from outside under its own name",
            help="add another output instead",
        )
    readers = list(value.uses())
    builder = _behind(model, value)
    new = layer(builder, value)
    for node, index in readers:
        node.replace_input_with(index, new)
    if value.is_graph_output() and new is not value:
        graph = _graph_of(value)
        name, value.name = value.name, builder.name(f"{value.name}_before")
        new.name = name
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = new
    return new


def insert_before(
    model: ir.Model,
    node: ir.Node,
    layer: Callable[[Builder, ir.Value], ir.Value],
    index: int = 0,
) -> ir.Value:
    """Write something in front of an input of a node; other readers do not change.

    Args:
        model: The model, changed in place.
        node: The node.
        layer: Gets a builder and the value that the node reads; returns what it then reads.
        index: Which input.

    Raises:
        UsageError: The node has no such input.
    """
    value = node.inputs[index] if -len(node.inputs) <= index < len(node.inputs) else None
    if value is None:
        raise UsageError(f"{node.op_type} {node.name!r} has no input {index}")
    new = layer(Builder(model).before(node), value)
    node.replace_input_with(index % len(node.inputs), new)
    return new


def replace(
    model: ir.Model, value: ir.Value, layer: Callable[[Builder], ir.Value]
) -> ir.Value:
    """Compute something else where a value was; :func:`cleanup` removes what is left over.

    Args:
        model: The model, changed in place.
        value: An output of a node. If it is one of the graph, its name, type and shape stay.
        layer: Gets a builder in front of that node, and returns what replaces the value.

    Raises:
        UsageError: No node computes the value.
    """
    node = value.producer()
    if node is None:
        raise UsageError(
            f"no node computes {value.name!r}", help="use to_constant or to_variable"
        )
    new = layer(Builder(model).before(node))
    if new is not value:
        supersede(value, new, _count(model))
        value.name = value.name or Builder(model).name(f"{new.name}_replaced")
    return new


def remove(model: ir.Model, node: ir.Node, index: int = 0) -> None:
    """Take a node out; what read its output then reads one of its inputs.

    Args:
        model: The model, changed in place.
        node: A node with one output that is read.
        index: Which input.

    Raises:
        UsageError: It has no such input, several outputs are read, or it is in no graph.
    """
    value = node.inputs[index] if -len(node.inputs) <= index < len(node.inputs) else None
    read = [v for v in node.outputs if v.uses() or v.is_graph_output()]
    if value is None or len(read) > 1:
        why = f"has no input {index}" if value is None else "has several outputs that are read"
        raise UsageError(f"{node.op_type} {node.name!r} {why}", help="use replace")
    graph = _graph_of(node)
    for output in read:
        supersede(output, value, _count(model))
    graph.remove(node, safe=True)


def to_constant(model: ir.Model, value: ir.Value, array: object) -> ir.Value:
    """Let a value be an initializer from now on, under its name.

    Args:
        model: The model, changed in place.
        value: An input, an initializer, or an output of a node.
        array: What it holds; numbers get the type of the value.

    Returns:
        The initializer.

    Raises:
        UsageError: It is an output of the graph, or in no graph.
    """
    tensor = as_tensor(as_array(array, value.dtype), value.name)
    graph = _graph_of(value)
    if value.producer() is not None:
        if value.is_graph_output():
            raise UsageError(f"{value.name!r} is an output of the graph")
        builder = Builder(model)
        name, value.name = str(value.name), builder.name(f"{value.name}_before")
        new = ir.Value(name=name)
        value.replace_all_uses_with(new)
    else:
        new = value
    new.const_value = tensor
    new.type, new.shape = ir.TensorType(tensor.dtype), ir.Shape(list(tensor.shape.numpy()))
    if new in graph.inputs:
        graph.inputs.remove(new)
    if not new.is_initializer():
        graph.register_initializer(new)
    return new


def to_variable(
    model: ir.Model,
    value: ir.Value,
    dtype: Plain = None,
    shape: Sequence[int | str | None] | None = None,
) -> ir.Value:
    """Let a value be an input of the graph from now on, under its name.

    Args:
        model: The model, changed in place.
        value: An initializer, or an output of a node.
        dtype: Its type; by default what is noted.
        shape: Its dimensions; by default what is noted.

    Returns:
        The input.

    Raises:
        UsageError: It is an output of the graph, or in none, or its type is not known.
    """
    if value.is_graph_output():
        raise UsageError(f"{value.name!r} is an output of the graph")
    if dtype is None and value.type is None:
        raise UsageError(f"the type of {value.name!r} is not known", help="say it: dtype=")
    graph = _graph_of(value)
    new = ir.Value(name=value.name, type=value.type, shape=value.shape)
    if dtype is not None:
        new.type = ir.TensorType(dtype_of(dtype))
    if shape is not None:
        new.shape = ir.Shape(list(shape))
    if value.is_initializer():
        del graph.initializers[str(value.name)]
    else:
        value.name = Builder(model).name(f"{value.name}_before")
    value.replace_all_uses_with(new)
    graph.inputs.append(new)
    return new


def _behind(model: ir.Model, value: ir.Value) -> Builder:
    node = value.producer()
    if node is not None:
        return Builder(model).after(node)
    graph = value.graph if isinstance(value.graph, ir.Graph) else model.graph
    builder = Builder(model)
    builder.graph = graph
    return builder.before(graph[0]) if len(graph) else builder


def _count(model: ir.Model) -> Counter[str]:
    names: Counter[str] = Counter()
    for graph in all_graphs(model):
        names.update(str(v.name) for v in values_of(graph))
        names.update(name for name, v in graph.initializers.items() if v not in graph.inputs)
    return names


def _graph_of(part: ir.Value | ir.Node) -> ir.Graph:
    """Return the graph of a value or node; UsageError if it is in none, or in a function."""
    if not isinstance(part.graph, ir.Graph):
        raise UsageError(
            f"{part.name!r} is in no graph", help="take it from the model that is edited"
        )
    return part.graph


def rename(
    model: ir.Model, values: Mapping[str, str], nodes: Mapping[str, str] | None = None
) -> None:
    """Give values and nodes other names; inputs and outputs too, for callers to follow.

    Args:
        model: The model, changed in place.
        values: New names of values by old ones. Two may change places.
        nodes: New names of nodes by old ones.

    Raises:
        UsageError: There is no such name, or a new one is taken.
    """
    named: dict[str, list[ir.Value]] = {}
    made: dict[str, list[ir.Node]] = {}
    for graph in all_graphs(model):
        initializers = graph.initializers.values() if isinstance(graph, ir.Graph) else ()
        for value in dict.fromkeys([*values_of(graph), *initializers]):
            named.setdefault(str(value.name), []).append(value)
        for node in graph:
            made.setdefault(str(node.name), []).append(node)
    _check("value", values, named)
    _check("node", nodes or {}, made)
    for old in values:  # first out of each other's way
        for value in named[old]:
            value.name = f"{old}\0"
    for old, new in values.items():
        for value in named[old]:
            value.name = new
    for old, new in (nodes or {}).items():
        for node in made[old]:
            node.name = new


def _check(what: str, wanted: Mapping[str, str], there: Mapping[str, object]) -> None:
    for old, new in wanted.items():
        if old not in there:
            raise UsageError(f"the model has no {what} {old!r}", help=near(old, there))
        if not new:
            raise UsageError(f"the {what} {old!r} cannot have an empty name")
        if new in there and new not in wanted:
            raise UsageError(f"the name {new!r} is taken", help="choose another")
    twice = [new for new in wanted.values() if list(wanted.values()).count(new) > 1]
    if twice:
        raise UsageError(f"two are to be named {twice[0]!r}")


def toposort(model: ir.Model) -> ir.Model:
    """Put the nodes in the order in which they run.

    Raises:
        PassError: They depend on each other in a cycle.
    """
    return _run(TopologicalSort(), model)


def cleanup(model: ir.Model) -> ir.Model:
    """Remove nodes, initializers, functions and opset imports that nothing reads."""
    for pass_ in (
        RemoveUnusedNodes(),
        RemoveUnusedFunctions(),
        RemoveUnusedInitializers(),
        RemoveUnusedOpsets(),
    ):
        model = _run(pass_, model)
    return model


def fold_constants(model: ir.Model, **options: Plain) -> ir.Model:
    """Compute what depends on no input; the options are those of the pass fold-constants.

    Raises:
        PassError: There is no such option.
    """
    from onnx_passes.passes.annotation.shape_inference import ShapeInference
    from onnx_passes.passes.folding.fold_constants import FoldConstants
    from onnx_passes.passes.folding.lift_constants import LiftConstants

    for pass_ in (LiftConstants(), ShapeInference(), FoldConstants(**options)):
        model = _run(pass_, model)
    return model


def _run(pass_: Pass, model: ir.Model) -> ir.Model:
    return pass_(model).model


_NO_SHAPE = "Field 'shape' of 'type' is required"


def extract(
    model: ir.Model, inputs: Sequence[Cut] = (), outputs: Sequence[Cut] = ()
) -> ir.Model:
    """Return the nodes between some values as a model; weights are shared.

    Args:
        model: The model; only missing types and shapes are added, by inference.
        inputs: Where to begin; by default at the inputs that the outputs depend on.
        outputs: Where to end; by default at the outputs of the model. Values of a subgraph
            are cut out of it, and what it reads from around it has to be among the inputs.

    Raises:
        UsageError: There is no such value, its type is not known or differs, or the nodes do
            not take a shape. Or the outputs depend on other inputs than those named, or not on
            all of these.
    """
    # What is declared is not inferred: outputs without a shape are left out meanwhile.
    declared = list(model.graph.outputs)
    model.graph.outputs[:] = [value for value in declared if value.shape is not None]
    try_infer_shapes(model)
    model.graph.outputs[:] = declared
    part = cut_out(model, inputs, outputs)
    for value in part.graph.outputs:
        if value.type is None and not makes_map(value.producer()):
            raise UsageError(
                f"the type of {value.name!r} is not known",
                help=f"say it: {value.name}:float32, or {value.name}:[batch,4]:float32",
            )
    if any(cut.dtype is not None or cut.shape is not None for cut in (*inputs, *outputs)):
        # The checker wants shapes of all outputs, and runtimes do not.
        found = [c for c in complaints(part, full=True) if not c.startswith(_NO_SHAPE)]
        if found:
            raise UsageError(
                f"the part cannot have these types and shapes: {found[0]}",
                help="leave them out, or write auto: then they are those of the model",
            )
    return part


def find_unranked(part: ir.Model) -> list[str]:
    """List the inputs and outputs of a model whose rank nothing says."""
    ports = (*part.graph.inputs, *part.graph.outputs)
    return [
        str(value.name)
        for value in ports
        if value.shape is None and isinstance(value.type, ir.TensorType)
    ]


def insert(
    model: ir.Model,
    op_type: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: PlainMapping | None = None,
    *,
    domain: str = "",
    name: str | None = None,
) -> ir.Model:
    """Replace what computes some values from others by one node.

    Args:
        model: The model, changed in place.
        op_type: The operator.
        inputs: Names of the values that the node reads, empty for one left out.
        outputs: Names of the values that it computes from now on; their readers read them
            from it. What else computed them goes, where nothing else reads it.
        attributes: Of the node, by name.
        domain: Of the operator.
        name: Of the node.

    Raises:
        UsageError: There is no such value or operator, or an input depends on an output.
        ModelError: Types or shapes do not fit the operator.
    """
    known = _values(model)
    for wanted in (*inputs, *outputs):
        if wanted and wanted not in known:
            raise UsageError(f"the model has no value {wanted!r}", help=near(wanted, known))
    makers = [known[wanted].producer() for wanted in outputs]
    if any(maker is None for maker in makers) or not outputs:
        raise UsageError("an output of the node has to be computed by a node that it replaces")
    for read in filter(None, inputs):
        if later := _find_source(known[read], {known[name] for name in outputs}):
            raise UsageError(
                f"the node would read {read!r}, which is computed from its own output "
                f"{later!r}",
                help="read values from before the part, or name other outputs",
            )
    builder = Builder(model)
    if domain:
        builder.domain(domain)
    found = builder.add(
        op_type,
        [known[n] if n else None for n in inputs],
        attributes or {},
        domain=domain,
        outputs=len(outputs),
        name=name,
    )
    made = (found,) if isinstance(found, ir.Value) else found
    for old_name, new in zip(outputs, made, strict=True):
        old = known[old_name]
        new.type, new.shape = new.type or old.type, new.shape or old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name = builder.name(f"{old_name}_replaced")
        new.name = old_name
    return toposort(cleanup(model))


def _find_source(value: ir.Value, sources: set[ir.Value]) -> str | None:
    """Return the name of a source that a value is computed from, if there is one."""
    seen: set[ir.Value] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in sources:
            return str(current.name)
        maker = current.producer()
        if current not in seen and maker is not None:
            pending += values_read(maker)
        seen.add(current)
    return None


def _values(model: ir.Model) -> dict[str, ir.Value]:
    made = [v for node in model.graph for v in node.outputs]
    own = [*model.graph.inputs, *model.graph.initializers.values(), *made]
    return {str(value.name): value for value in own}
