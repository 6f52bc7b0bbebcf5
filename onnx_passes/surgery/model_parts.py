"""One node instead of a part, and a model in several parts."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.extract import Cut, extract
from onnx_passes.model.walk import captured_values
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.plain import PlainMapping
from onnx_passes.surgery.arguments import near
from onnx_passes.surgery.builder import Builder
from onnx_passes.surgery.tidy import cleanup, toposort


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
            pending += _reads(maker)
        seen.add(current)
    return None


def split(
    model: ir.Model, at: Sequence[str] = (), *, most: int | None = None
) -> list[ir.Model]:
    """Cut a model into parts that give what it gives when they run one after the other.

    Each part takes inputs of the model and outputs of the parts before it, by name.

    Args:
        model: The model; only missing types and shapes are added. Weights are shared.
        at: Names of values; a part ends with the node that computes one.
        most: Bytes of weights that a part may hold. A node with more is a part by itself.

    Raises:
        UsageError: No node computes such a value, or nothing says where to cut.
    """
    if not at and most is None:
        raise UsageError("nothing says where to cut", help="give --at or --max-size")
    infer_shapes(model)
    nodes = list(toposort(model).graph)
    known = {str(v.name): node for node in nodes for v in node.outputs}
    for name in at:
        if name not in known:
            raise UsageError(f"no node computes {name!r}", help=near(name, known))
    place = _places(nodes, {known[name] for name in at}, most)
    read_in: dict[ir.Value, int] = {}
    for node in nodes:
        read_in.update(dict.fromkeys(_reads(node), place[node]))
    found = []
    for index in range(max(place.values(), default=-1) + 1):
        part = [node for node in nodes if place[node] == index]
        inside = {v for node in part for v in node.outputs}
        outs = [v for v in inside if v.is_graph_output() or read_in.get(v, -1) > index]
        ins = dict.fromkeys(v for node in part for v in _reads(node) if v not in inside)
        if outs:
            starts = [Cut(str(v.name)) for v in ins if not _is_weight(v)]
            order = sorted(outs, key=lambda v: str(v.name))
            found.append(extract(model, starts, [Cut(str(v.name)) for v in order]))
    return found


def _places(
    nodes: Sequence[ir.Node], ends: set[ir.Node], most: int | None
) -> dict[ir.Node, int]:
    """Return the number of the part that each node goes to."""
    place: dict[ir.Node, int] = {}
    index, held, weights = 0, 0, set[ir.Value]()
    for node in nodes:
        new = {v for v in _reads(node) if _is_weight(v)} - weights
        size = sum(v.const_value.nbytes for v in new if v.const_value is not None)
        if most is not None and place and held and held + size > most:
            index, held, weights = index + 1, 0, set()
        place[node] = index
        held, weights = held + size, weights | new
        if node in ends:
            index, held, weights = index + 1, 0, set()
    return place


def _reads(node: ir.Node) -> list[ir.Value]:
    return [v for v in (*node.inputs, *captured_values(node)) if v is not None]


def _is_weight(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()


def _values(model: ir.Model) -> dict[str, ir.Value]:
    made = [v for node in model.graph for v in node.outputs]
    own = [*model.graph.inputs, *model.graph.initializers.values(), *made]
    return {str(value.name): value for value in own}
