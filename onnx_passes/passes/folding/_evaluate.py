"""Compute nodes whose inputs are constants, and estimate what it costs to keep the results."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.arrays import Array
from onnx_passes.model.ort_sessions import LOW, add_barriers, open_session
from onnx_passes.model.tensor_bytes import release_pages
from onnx_passes.model.walk import (
    all_nodes,
    captured_values,
    node_inputs,
    subgraphs_of,
    topological_order,
)
from onnx_passes.passes.common.graph_edits import nodes_within
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.common.shapes import Knowledge
from onnx_passes.passes.common.value_numbering import Determinism
from onnx_passes.passes.constants import constant_of, constant_tensor

if TYPE_CHECKING:
    import onnxruntime


EXPANDING = frozenset(
    {
        "CenterCropPad",
        "Col2Im",
        "ConstantOfShape",
        "Expand",
        "Loop",
        "MaxUnpool",
        "OneHot",
        "Pad",
        "Range",
        "Resize",
        "Scan",
        "SequenceMap",
        "Tile",
        "Upsample",
    }
)
"""Operators whose output can be far bigger than their inputs: their shape must be known."""

MEMORY = 1 << 28
"""Bytes up to which a value may be computed, if it is not kept."""


def held_nodes(model: ir.Model) -> set[ir.Node]:
    """List the nodes whose results ONNX Runtime and the standard do not agree on.

    Among them are reductions of an empty constant, and what follows from them: along an axis
    that is counted from the end, ONNX Runtime does not reduce it.
    """
    empty: set[ir.Node] = set()
    for node in all_nodes(model):
        reduces = node.op_type.startswith("Reduce") and bool(node.inputs)
        if (reduces and _is_empty(node.inputs[0])) or any(
            v is not None and v.producer() in empty for v in node.inputs
        ):
            empty.add(node)
    return empty | _held_by_range(model)


def _is_empty(value: ir.Value | None) -> bool:
    tensor = constant_of(value) if value is not None else None
    return tensor is not None and tensor.size == 0


def _held_by_range(model: ir.Model) -> set[ir.Node]:
    """List the nodes behind an If that a Range reads, unless it is seen to be a scalar.

    ONNX Runtime runs a Range whose bounds have one element and rank 1, as long as it cannot
    see the rank beforehand. The standard does not allow them, and constants would show the
    rank.
    """
    held: set[ir.Node] = set()
    bounds = [v for n in all_nodes(model) if n.op_type == "Range" for v in n.inputs]
    pending = [
        v.producer()
        for v in bounds
        if v is not None and (v.shape is None or len(v.shape) > 0) and _is_if(v.producer())
    ]
    while pending:
        node = pending.pop()
        if node is None or node in held:
            continue
        held.add(node)
        read = [*node.inputs, *(v for branch in subgraphs_of(node) for v in branch.outputs)]
        pending.extend(value.producer() for value in read if value is not None)
    return held


def _is_if(node: ir.Node | None) -> bool:
    return node is not None and node.op_type == "If" and node.domain == ""


def constant_nodes(
    graph: ir.Graph,
    imports: Mapping[str, int],
    deterministic: Determinism,
    never: set[str],
    is_held: Callable[[ir.Node], bool],
) -> list[ir.Node]:
    """List the nodes of a graph that depend on constants only, in topological order.

    Constants outside of the graph count. ``never`` has operators that are not folded;
    ``is_held`` is asked of constant nodes only, and says which are not.
    """
    found: dict[ir.Node, None] = {}
    for node in topological_order(graph):
        # Nearly all nodes read something that is not constant: that is asked first.
        if not all(_is_known(value, found) for value in node_inputs(node)):
            continue
        if constant_tensor(node) is not None or node.op_type in never or is_held(node):
            continue
        if _names_an_output(node):
            continue
        captured = list(captured_values(node))
        reads = [*captured, *(v for v in node.inputs if v is not None)]
        if not reads or not all(_is_known(value, found) for value in captured):
            continue
        refers = (a.is_ref() for n in nodes_within(node) for a in n.attributes.values())
        if any(refers) or not deterministic.holds(node, imports) or _is_too_big(node):
            continue
        found[node] = None
    return list(found)


def _is_known(value: ir.Value | None, found: Mapping[ir.Node, None]) -> bool:
    """Whether a value is left out, constant, or computed by one of the nodes found."""
    return value is None or value.producer() in found or _is_constant(value)


def _names_an_output(node: ir.Node) -> bool:
    """Whether a node only gives an output another name, by which it is an output again.

    A constant in its place would be a second copy, which is merged into the first one again.
    """
    ends = [*node.inputs, *node.outputs]
    return node.op_type == "Identity" and all(v and v.is_graph_output() for v in ends)


def _is_constant(value: ir.Value) -> bool:
    return constant_of(value) is not None


def estimated_bytes(value: ir.Value) -> int | None:
    """Return the bytes of a value whose type and shape are known."""
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        return None
    if value.dtype is ir.DataType.STRING or not isinstance(value.type, ir.TensorType):
        return None
    size = 1
    for dim in value.shape.numpy():
        size *= dim
    return -(-size * value.dtype.bitwidth // 8)


def _is_too_big(node: ir.Node) -> bool:
    sizes = [estimated_bytes(value) for value in node.outputs if value.name]
    if any(size is None for size in sizes):
        return node.op_type in EXPANDING
    return sum(size or 0 for size in sizes) > MEMORY + 4 * source_bytes([node])


def source_bytes(nodes: Iterable[ir.Node]) -> int:
    """Sum the bytes of the constants that nodes read, each once."""
    sources = {v for node in nodes for v in node.inputs if v is not None}
    tensors = (constant_of(value) for value in sources)
    return sum(t.nbytes for t in tensors if t is not None)


INLINE = 4096
"""Constants up to this many bytes are given as initializers: some kernels demand it."""

AT_ONCE = 1 << 27
"""Bytes of results up to which nodes are computed in one session."""

CONTRACTIONS = ("MatMul", "Gemm", "Einsum", "MatMulInteger", "QLinearMatMul")
"""Over an empty dimension some of ONNX Runtime's kernels leave their output unwritten."""

LOWEST_IR_VERSION = 8
"""The first IR version with functions."""


class _InputMissingError(Exception):
    """A node cannot be computed since one before it could not."""


class Evaluation:
    """Results of nodes over constants, and why others have none.

    ``results`` has None for what is not a tensor, or a tensor of strings. Reasons in
    ``failures`` are empty after an earlier failure.
    """

    def __init__(self, model: ir.Model, imports: Mapping[str, int]) -> None:
        """Compute nothing yet."""
        self._model, self._scratch = model, Scratch(model)
        self._imports = imports
        self.results: dict[ir.Value, ir.TensorProtocol | None] = {}
        self.failures: dict[ir.Node, str] = {}

    def run(self, nodes: Sequence[ir.Node], wanted: Sequence[ir.Value]) -> None:
        """Compute outputs of nodes.

        Nodes read constants and each other, in topological order. ``wanted`` outputs are in
        ``results`` afterwards, if they can be computed.
        """
        missing = [value for value in wanted if value not in self.results]
        for node in nodes:
            if node.op_type in CONTRACTIONS and any(map(self._is_empty, node.inputs)):
                self.failures[node] = "engines disagree on products of empty tensors"
            elif risky_runs.avoided(_label(node)):
                self.failures[node] = ""  # a note on the run names it
        needed = self._needed(nodes, missing)
        if not needed:
            return
        self._run_parts(needed, set(missing))

    def _run_parts(self, nodes: Sequence[ir.Node], wanted: AbstractSet[ir.Value]) -> None:
        """Compute nodes in one session; in halves where that fails, or takes much memory."""
        if len(nodes) == 1:
            self._run_alone(nodes[0])
            return
        made = [value for node in nodes for value in node.outputs]
        size = sum(estimated_bytes(value) or 0 for value in made)
        together = risky_runs.label(risky_runs.FOLDING, risky_runs.MANY)
        if size <= AT_ONCE and not risky_runs.avoided(together):
            with suppress(Exception), risky_runs.running(together):
                self._compute(nodes, [value for value in made if value in wanted])
                return
        half = len(nodes) // 2
        first, second = nodes[:half], nodes[half:]
        read = (v for node in second for v in (*node.inputs, *captured_values(node)))
        self._run_parts(first, wanted | {v for v in read if v is not None})
        self._run_parts(second, wanted)

    def _is_empty(self, value: ir.Value | None) -> bool:
        if value is None:
            return False
        tensor = self.results.get(value) or constant_of(value)
        return tensor is not None and tensor.size == 0

    def _needed(self, nodes: Sequence[ir.Node], wanted: Sequence[ir.Value]) -> list[ir.Node]:
        values = set(wanted)
        needed = []
        for node in reversed(nodes):
            if node not in self.failures and values.intersection(node.outputs):
                needed.append(node)
                sources = (*node.inputs, *captured_values(node))
                values.update(v for v in sources if v is not None and v not in self.results)
        return needed[::-1]

    def _run_alone(self, node: ir.Node) -> None:
        outputs = [value for value in node.outputs if value.name]
        try:
            with risky_runs.running(_label(node)):
                self._compute([node], outputs)
        except _InputMissingError:
            self.failures[node] = ""
        except Exception as error:
            self.failures[node] = next(iter(str(error).splitlines()), type(error).__name__)

    def _compute(self, nodes: Sequence[ir.Node], wanted: Sequence[ir.Value]) -> None:
        import onnxruntime as ort

        proto, feeds = self._build(nodes, wanted)
        try:
            session = open_session(proto)
        except Exception:
            if len(nodes) > 1:
                raise
            self._compute_by_reference(proto, feeds, wanted)
            return
        given = {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in feeds.items()}
        run_options = ort.RunOptions()
        run_options.log_severity_level = 4
        names = [str(value.name) for value in wanted]
        produced = session.run_with_ort_values(names, given, run_options)
        for value, result in zip(wanted, produced, strict=True):
            tensor = _tensor_of(result)
            self.results[value] = None if tensor is None else self._scratch.keep(tensor)
        for source in dict.fromkeys(v for node in nodes for v in node.inputs):
            if (read := constant_of(source)) is not None:
                release_pages(read)

    def _compute_by_reference(
        self, proto: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[ir.Value]
    ) -> None:
        from onnx.reference import ReferenceEvaluator

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            produced = ReferenceEvaluator(proto).run(None, dict(feeds))
        for value, result in zip(wanted, produced, strict=True):
            is_tensor = isinstance(result, np.ndarray | np.generic)
            numeric = is_tensor and np.asarray(result).dtype.kind not in "OSU"
            self.results[value] = ir.tensor(np.asarray(result)) if numeric else None

    def _build(
        self, nodes: Sequence[ir.Node], wanted: Sequence[ir.Value]
    ) -> tuple[onnx.ModelProto, dict[str, Array]]:
        produced = {value for node in nodes for value in node.outputs}
        read = (v for node in nodes for v in (*node.inputs, *captured_values(node)))
        sources = [v for v in dict.fromkeys(read) if v is not None and v not in produced]
        names = [value.name for value in (*sources, *produced) if value.name]
        if len(set(names)) < len(names):
            raise ValueError("two values of different scopes share a name")
        graph = onnx.GraphProto(name="constants")
        feeds = {}
        for value in sources:
            tensor = self._known(value)
            name = str(value.name)
            if tensor.nbytes <= INLINE or not _has_numpy_type(tensor):
                initializer = graph.initializer.add()
                initializer.CopyFrom(ir.serde.serialize_tensor(tensor))
                initializer.name = name
            else:
                shape = [int(d) for d in tensor.shape.numpy()]
                graph.input.append(
                    onnx.helper.make_tensor_value_info(name, int(tensor.dtype), shape)
                )
                feeds[name] = np.ascontiguousarray(tensor.numpy())
        graph.node.extend(ir.serde.serialize_node(node) for node in nodes)
        graph.output.extend(onnx.ValueInfoProto(name=str(value.name)) for value in wanted)
        proto = self._model_proto(graph, nodes)
        if any(v.dtype is None or v.dtype in LOW for v in (*sources, *produced)):
            proto = _rounding(proto, [v for node in nodes for v in node.outputs])
        return proto, feeds

    def _known(self, value: ir.Value) -> ir.TensorProtocol:
        tensor = self.results.get(value) or constant_of(value)
        if tensor is None:
            raise _InputMissingError
        return tensor

    def _model_proto(
        self, graph: onnx.GraphProto, nodes: Sequence[ir.Node]
    ) -> onnx.ModelProto:
        called = _functions_called(self._model, nodes)
        imports = {**{f.domain: 1 for f in called}, **self._imports}
        return onnx.ModelProto(
            ir_version=max(self._model.ir_version, LOWEST_IR_VERSION),
            graph=graph,
            functions=[ir.serde.serialize_function(function) for function in called],
            opset_import=[
                onnx.OperatorSetIdProto(domain=domain, version=version)
                for domain, version in imports.items()
            ],
        )


def _label(node: ir.Node) -> str:
    name = node.name or (node.outputs[0].name if node.outputs else "")
    return risky_runs.label(risky_runs.FOLDING, f"{node.op_type} {name}")


def _rounding(proto: onnx.ModelProto, values: Sequence[ir.Value]) -> onnx.ModelProto:
    """Return a model that rounds each value below float32, as each node alone would."""
    outputs = {output.name for output in proto.graph.output}
    for value in values:
        if value.name and value.name not in outputs and value.dtype is not None:
            info = proto.graph.value_info.add(name=value.name)
            info.type.tensor_type.elem_type = value.dtype.value
    return ir.to_proto(add_barriers(ir.from_proto(proto)))


def _functions_called(model: ir.Model, nodes: Sequence[ir.Node]) -> list[ir.Function]:
    found: dict[ir.OperatorIdentifier, ir.Function] = {}
    pending = [inner for node in nodes for inner in nodes_within(node)]
    while pending:
        key = pending.pop().op_identifier()
        if key in model.functions and key not in found:
            found[key] = model.functions[key]
            pending.extend(n for node in found[key] for n in nodes_within(node))
    return list(found.values())


def _has_numpy_type(tensor: ir.TensorProtocol) -> bool:
    return tensor.dtype is not ir.DataType.STRING and tensor.dtype.numpy().isbuiltin == 1


def _tensor_of(value: onnxruntime.OrtValue) -> ir.TensorProtocol | None:
    if not value.has_value() or not value.is_tensor():
        return None
    dtype = ir.DataType(value.element_type())
    if dtype is ir.DataType.STRING:
        return None
    if dtype.numpy().isbuiltin == 1:
        return ir.Tensor(value.numpy())
    # ONNX Runtime has no numpy form of these types; its memory holds what raw_data holds.
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    proto = onnx.TensorProto(data_type=int(dtype), dims=value.shape(), raw_data=raw)
    return ir.serde.deserialize_tensor(proto)


MAX_NODES = 50
"""Nodes by which attributes and axes are computed at most."""


def constant_value(
    model: ir.Model, imports: Mapping[str, int], value: ir.Value
) -> ir.TensorProtocol | None:
    """Return what a value always holds, computed from constants if need be."""
    tensor = constant_of(value)
    if tensor is not None:
        return tensor
    nodes = _computed_by(value)
    if not nodes:
        return None
    evaluation, facts = Evaluation(model, imports), Knowledge(imports)
    for node in nodes:
        known = facts.visit(node)
        found = None if known is None else known.tensor()
        if found is not None:
            evaluation.results[node.outputs[0]] = found
    evaluation.run(nodes, [value])
    return evaluation.results.get(value)


def _computed_by(value: ir.Value) -> list[ir.Node]:
    """Return the nodes by which constants and shapes make a value; none if others do."""
    found: dict[ir.Node, None] = {}
    pending = [value]
    while pending:
        current = pending.pop()
        node = current.producer()
        if constant_of(current) is not None:
            continue
        if node is None or not node.inputs or len(found) > MAX_NODES:
            return []
        found.pop(node, None)  # what is needed twice goes before both
        found[node] = None
        if node.op_type == "Shape":
            continue  # what is known of the shape decides
        pending.extend(v for v in node.inputs if v is not None)
    return list(found)[::-1]
