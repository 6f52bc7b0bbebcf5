"""Compute nodes whose inputs are constants, and put results in their place where they pay."""

from __future__ import annotations

import ctypes
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.arrays import Array
from onnx_passes.model import walk
from onnx_passes.model.ort_sessions import LOW, add_barriers, open_session
from onnx_passes.model.tensor_bytes import release_pages
from onnx_passes.model.walk import (
    all_nodes,
    captured_values,
    node_inputs,
    subgraphs_of,
    topological_order,
)
from onnx_passes.ops.domains.sizes import Element, dimension
from onnx_passes.passes.common.graph_edits import discard, install, nodes_within
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


def constant_target(
    node: ir.Node, facts: Knowledge, *, nonempty: bool
) -> ir.TensorProtocol | None:
    """Return a constant that gives a Reshape or Expand the same result as its computed target.

    Dynamic dimensions stay dynamic: a Reshape infers one (-1) or copies some (0), an Expand
    keeps some (1). With ``nonempty``, dynamic dimensions are above 0: engines refuse to infer
    a dimension beside one that is 0.
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None or len(node.inputs) != 2 or node.inputs[0] is None:
        return None
    known = facts.of(node.inputs[1])
    if known is None or known.rank != 1 or known.numbers is not None:
        return None
    target = rule(node, known.elements, nonempty)
    return None if target is None else ir.Tensor(np.array(target, dtype=np.int64))


def _reshape(node: ir.Node, target: tuple[Element, ...], nonempty: bool) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    unknown = [i for i, element in enumerate(target) if not isinstance(element, int)]
    numbers = [element for element in target if isinstance(element, int)]
    rank = 0 if data.shape is None else len(data.shape)
    # A 0 copies the dimension of the same place, which the target says too, empty or not; the
    # dimension keeps its name behind it, which a -1 loses.
    copied = [
        i
        for i in unknown
        if i < rank and target[i] is not None and target[i] == dimension(data, i)
    ]
    if len(unknown) == 1 and not copied and all(number > 0 for number in numbers):
        return [e if isinstance(e, int) else -1 for e in target]
    if any(n < -1 for n in numbers) or any(i >= rank for i in unknown):
        return None
    allowzero = node.attributes.get_int("allowzero", 0)
    if allowzero and 0 in numbers:
        return None
    if allowzero and copied and -1 in numbers and not nonempty:
        # Engines infer a -1 beside a size of 0 that is asked for, and not beside one copied.
        known = _inferred(data, target, copied)
        if known is None:
            return None
        target = tuple(known if e == -1 else e for e in target)
        numbers = [element for element in target if isinstance(element, int)]
    others = [i for i in unknown if i not in copied]
    if len(others) > 1 or (others and not (nonempty and all(n > 0 for n in numbers))):
        return None
    return [
        e if isinstance(e, int) else -1 if index in others else 0
        for index, e in enumerate(target)
    ]


def _inferred(
    data: ir.Value, target: tuple[Element, ...], copied: Sequence[int]
) -> int | None:
    """Return the size in place of a -1; None if sizes that are not copied are unknown."""
    assert data.shape is not None, "dimensions were copied from it"
    left = [dim for i, dim in enumerate(data.shape) if i not in copied]
    rest = math.prod(e for e in target if isinstance(e, int) and e != -1)
    if not all(isinstance(dim, int) for dim in left) or not rest:
        return None
    size, over = divmod(math.prod(int(str(dim)) for dim in left), rest)
    return None if over else size


def _expand(node: ir.Node, target: tuple[Element, ...], nonempty: bool) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    if data.shape is None:
        return None
    offset = len(data.shape) - len(target)
    result = []
    for index, element in enumerate(target):
        if isinstance(element, int):
            result.append(element)
        elif element is None or index + offset < 0:
            return None
        elif element == dimension(data, index + offset):
            result.append(1)
        else:
            return None
    return result if all(number >= 0 for number in result) else None


_Rule = Callable[[ir.Node, tuple[Element, ...], bool], list[int] | None]
_RULES: dict[str, _Rule] = {"Expand": _expand, "Reshape": _reshape}


NOTED = 1024
"""Bytes from which on growth is noted: less is the size of a node."""


@dataclass
class GrowthBudget:
    """How much constants may grow.

    ``size_limit`` is in bytes of one new constant that replaces no bigger ones,
    ``growth_left`` in bytes of the model.
    """

    size_limit: int
    growth_left: int

    @classmethod
    def of(
        cls,
        model: ir.Model,
        size_limit: int,
        growth_limit: int,
        share: float,
        original: int | None = None,
    ) -> GrowthBudget:
        """Return what is left after what was folded before, in this run or in others.

        A model may grow by ``growth_limit`` bytes, or by ``share`` of its weights if that is
        more. ``original`` is about the size of its file in bytes, without what earlier runs
        have folded: what passes have saved of it may be used.
        """
        tensors = {id(tensor): tensor for tensor in walk.all_tensors(model)}.values()
        grown = sum(map(walk.tensor_growth, tensors))
        weights = sum(tensor.nbytes for tensor in tensors) - grown
        allowed = max(growth_limit, int(share * weights))
        saved = 0 if original is None else original - walk.bytes_before_folding(model)
        return cls(size_limit, allowed + max(0, saved) - grown)


@dataclass
class Fold:
    """A set of constant nodes; those not ``kept`` are to be replaced by results.

    Nodes are in topological order. Constants with a ``named`` name stay although nothing reads
    them; ``kept`` nodes stay because results are too big or cannot be computed.
    """

    nodes: Sequence[ir.Node]
    named: AbstractSet[str]
    kept: set[ir.Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.members = frozenset(self.nodes)

    @property
    def folded(self) -> list[ir.Node]:
        """The nodes that are to go."""
        return [node for node in self.nodes if node not in self.kept]

    def frontier(self) -> list[ir.Value]:
        """Return the values that stay when the folded nodes go."""
        inside = {inner for node in self.folded for inner in nodes_within(node)}
        return [
            value
            for node in self.folded
            for value in node.outputs
            if value.is_graph_output() or any(user not in inside for user in value.consumers())
        ]

    def freed(self, nodes: Iterable[ir.Node]) -> dict[ir.Value, int]:
        """Return the constants that only the given nodes read, with their bytes."""
        inside = {inner for node in nodes for inner in nodes_within(node)}
        sources = {v for node in inside for v in node.inputs if v is not None}
        return {
            value: tensor.nbytes
            for value in sources
            if (tensor := constant_of(value)) is not None
            and not value.is_graph_output()
            and value.name not in self.named
            and all(user in inside for user in value.consumers())
        }

    def cone(self, value: ir.Value) -> list[ir.Node]:
        """Return the folded nodes that a value is computed by."""
        found: dict[ir.Node, None] = {}
        pending = [value.producer()]
        while pending:
            node = pending.pop()
            if node is None or node in found or node not in self.members or node in self.kept:
                continue
            found[node] = None
            read = (v for inner in nodes_within(node) for v in inner.inputs if v is not None)
            pending.extend(v.producer() for v in read)
        return list(found)


def fold(
    nodes: Sequence[ir.Node],
    evaluation: Evaluation,
    budget: GrowthBudget,
    *,
    named: AbstractSet[str],
    in_function: bool,
) -> int:
    """Replace constant nodes by their results, within the budget.

    Nodes read constants and each other, in topological order. ``budget`` is reduced; constants
    with a ``named`` name stay although nothing reads them. Returns the number of nodes
    replaced.
    """
    plan = Fold(nodes, named)
    while True:
        frontier = plan.frontier()
        too_big = [v for v in frontier if not _fits(v, estimated_bytes(v), plan, budget)]
        if not too_big:
            evaluation.run(plan.folded, frontier)
            too_big = [v for v in frontier if not _may_stay(v, plan, evaluation, budget)]
        if not too_big:
            too_big = _over_budget(frontier, plan, evaluation, budget)
        if not too_big:
            break
        plan.kept.update(_producer(value) for value in too_big)
    _replace(plan, frontier, evaluation, in_function=in_function)
    return len(plan.folded)


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None, "constant nodes produce their outputs"
    return node


def _fits(value: ir.Value, size: int | None, plan: Fold, budget: GrowthBudget) -> bool:
    if size is None or size <= budget.size_limit:
        return True
    return size <= sum(plan.freed(plan.cone(value)).values())


def _may_stay(
    value: ir.Value, plan: Fold, evaluation: Evaluation, budget: GrowthBudget
) -> bool:
    tensor = evaluation.results.get(value)
    if tensor is None or (value.dtype is not None and value.dtype is not tensor.dtype):
        return False
    if not _has_shape(tensor, value.shape):
        return False  # the engine and onnx's inference disagree, on empty tensors mostly
    return _fits(value, tensor.nbytes, plan, budget)


def _has_shape(tensor: ir.TensorProtocol, shape: ir.Shape | None) -> bool:
    sizes = tensor.shape.numpy()
    if shape is None:
        return True
    return len(shape) == len(sizes) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(shape, sizes, strict=True)
    )


def _over_budget(
    frontier: Sequence[ir.Value], plan: Fold, evaluation: Evaluation, budget: GrowthBudget
) -> list[ir.Value]:
    """Return the results that add most if all are too much, and take the sum off if not.

    What a node that stays had read stays as well, so that leaving results out saves at most
    their bytes: as many go at once as are needed for sure. Those that are at most as big as
    what they replace stay, unless constants that several read are all that can be left.
    """
    sizes = {v: t.nbytes for v in frontier if (t := evaluation.results[v]) is not None}
    growth = sum(sizes.values()) - sum(plan.freed(plan.folded).values())
    growth += sum(walk.constant_bytes(str(value.name)) for value in sizes)
    growth -= sum(map(walk.node_bytes, plan.folded))
    excess = growth - max(budget.growth_left, 0)
    if excess <= 0:
        budget.growth_left -= growth
        return []
    net = {v: size - sum(plan.freed(plan.cone(v)).values()) for v, size in sizes.items()}
    growing = [value for value in sizes if net[value] > 0] or list(sizes)
    growing.sort(key=lambda value: (-net[value], -sizes[value]))
    saved = itertools.accumulate((sizes[value] for value in growing), initial=0)
    return [v for v, before in zip(growing, saved, strict=False) if before < excess]


def _note_growth(value: ir.Value, tensor: ir.TensorProtocol, plan: Fold) -> None:
    """Note on a constant by how much the model grew, so that no later run grows it again."""
    freed = plan.freed(plan.cone(value))
    before = sum(walk.tensor_growth(t) for v in freed if (t := constant_of(v)) is not None)
    grown = before + tensor.nbytes - sum(freed.values())
    if grown >= NOTED:
        tensor.metadata_props[walk.GROWTH] = str(grown)


def _replace(
    plan: Fold, frontier: Sequence[ir.Value], evaluation: Evaluation, *, in_function: bool
) -> None:
    folded = plan.folded
    sources = list(plan.freed(folded))
    for value in frontier:
        tensor = evaluation.results[value]
        assert tensor is not None, "the plan holds tensors only"
        if tensor.nbytes >= NOTED:
            _note_growth(value, tensor, plan)
        install(value, tensor, in_function=in_function)
    for node in reversed(folded):
        discard(node)
    for source in sources:
        producer = source.producer()
        if producer is not None and constant_tensor(producer) is not None:
            discard(producer)
        elif source.graph is not None and source.is_initializer():
            source.graph.initializers.pop(str(source.name))
