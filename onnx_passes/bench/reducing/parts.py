"""Parts of a model: the values at their boundary, the nodes they keep, and their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, EngineUnavailableError, OnnxPassesError
from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.extract import assemble
from onnx_passes.model.inference import infer
from onnx_passes.model.walk import values_read
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs, Session
from onnx_passes.runtime.engine_models import split_weights
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.recording import expose_values

if TYPE_CHECKING:
    from onnx_passes.verify.recording import Recording


_MEMORY = 1 << 30
_SMALL = 64  # elements; shapes, axes and indices have no more


@dataclass
class Boundary:
    """Values of a model by name, from golden data or one recorded run of it.

    Attributes:
        model: The model.
        engine: What the model is run on, once, when a value is asked for that is not given.
        golden: Values that are given, inputs or inner ones.
        why: Why the model could not be recorded; None while nothing went wrong.
    """

    model: ir.Model
    engine: Engine
    golden: Mapping[str, Array] = field(default_factory=dict)
    why: str | None = None
    _recorded: Recording | None = None
    _found: Feeds | None = None
    _inferred: Inferred = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Infer nothing yet."""
        self._inferred = Inferred(self.model)

    def feeds(self) -> Feeds:
        """Return inputs of the model, generated if not given; or raise ReferenceDataError."""
        if self._found is not None:
            return self._found
        inputs = [v for v in self.model.graph.inputs if not v.is_initializer()]
        given = {
            str(v.name): self.golden[str(v.name)] for v in inputs if v.name in self.golden
        }
        if len(given) == len(inputs):
            return given
        from onnx_passes.runtime.inputs import generate

        shapes: dict[str, tuple[int, ...]] = {n: a.shape for n, a in given.items()}
        made = generate(self.model, seed=0, samples=1, dims=shapes)[0]
        return {**made, **given}

    def use(self, values: Mapping[str, Array]) -> None:
        """Use other inputs from now on; drop what was recorded of those before."""
        self.golden, self._recorded, self._found = values, None, None

    def value(self, name: str) -> Array | None:
        """Return a value, recorded if need be; None where it is not known, or no tensor."""
        if name in self.golden:
            return self.golden[name]
        recorded = self._record()
        return recorded.get(name)

    def values(self, names: list[str]) -> dict[str, Data] | None:
        """Return some values; None where one is not known."""
        found = {name: self.value(name) for name in names}
        return None if any(v is None for v in found.values()) else dict(found)

    def describe(self, value: ir.Value) -> tuple[ir.TypeProtocol, ir.Shape | None] | None:
        """Return the type and shape of a value; None where no type is known."""
        type_, shape = self._inferred.of(value)
        if type_ is not None and shape is not None:
            return type_, shape
        array = self.value(str(value.name))
        if array is None:
            return None if type_ is None else (type_, shape)
        known = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        return type_ or known, ir.Shape(array.shape)

    def frozen(self, value: ir.Value) -> Array | None:
        """Return what an inner value has to stay, as a shape or an index, if it is known."""
        type_, shape = self._inferred.of(value)
        dtype = None if type_ is None else type_.dtype
        if dtype is not None and not (dtype.is_integer() or dtype is ir.DataType.BOOL):
            return None
        if shape is not None and len(shape) > 1:
            return None
        array = self.value(str(value.name))
        if array is None or array.dtype.kind not in "iub":
            return None
        return array if array.ndim <= 1 and array.size <= _SMALL else None

    def _record(self) -> Recording:
        if self._recorded is None:
            self._recorded = self._run()
        return self._recorded

    def _run(self) -> Recording:
        from onnx_passes.verify.recording import Recording, expose_values

        recorded = Recording(_MEMORY)
        try:
            feeds = self.feeds()
            recorded.update(feeds)
            with self.engine.prepare(expose_values(self.model)) as session:
                recorded.update(self._outputs(session, feeds, recorded))
        except EngineUnavailableError as error:
            self.why = error.message
        except EngineError as error:
            recorded.update(self._partly(error))
        except OnnxPassesError as error:
            self.why = error.message
        return recorded

    def _partly(self, error: EngineError) -> Outputs:
        """Return the values ahead of the nodes that the engine does not run."""
        values = run_what_runs(self.model, self.engine, self.feeds())
        if not values:
            self.why = error.message
        return values

    def _outputs(self, session: Session, feeds: Feeds, recorded: Recording) -> Outputs:
        """Run the model, on other inputs where it does not run on those made up first."""
        from onnx_passes.runtime.inputs import InputSearch

        try:
            return session.run(feeds)
        except EngineError:
            given = any(name in self.golden for name in feeds)
            found = None if given else InputSearch(self.model, samples=1).search(session)
            if found is None:
                raise
        self._found = found.samples[0]
        recorded.update(self._found)
        return found.outputs[0]


Described = tuple[ir.TypeProtocol | None, ir.Shape | None]


@dataclass
class Inferred:
    """What onnx infers of values, in one run over the whole model; declarations win."""

    model: ir.Model
    _found: dict[str, onnx.ValueInfoProto] | None = field(default=None, init=False)

    def of(self, value: ir.Value) -> Described:
        """Return the type and shape of a value, as far as they are known."""
        if value.type is not None and value.shape is not None and value.shape.is_static():
            return value.type, value.shape
        if self._found is None:
            self._found = _infer(self.model)
        told = self._found.get(value.name or "")
        if told is None:
            return value.type, value.shape
        known = ir.serde.deserialize_value_info_proto(told, None)
        return value.type or known.type, _merged(value.shape, known.shape)


def _merged(declared: ir.Shape | None, inferred: ir.Shape | None) -> ir.Shape | None:
    """Return a shape with the sizes of both, and the declared names of the others."""
    if declared is None or inferred is None or len(declared) != len(inferred):
        return inferred if declared is None else declared
    return ir.Shape(
        [
            a if isinstance(a, int) else b if isinstance(b, int) or a.value is None else a
            for a, b in zip(declared, inferred, strict=True)
        ]
    )


def _infer(model: ir.Model) -> dict[str, onnx.ValueInfoProto]:
    try:
        graph = infer(split_weights(model).proto).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return {}  # a recorded run says what inference does not
    return {info.name: info for info in (*graph.value_info, *graph.output)}


_MOST_FAULTS = 8


def run_what_runs(model: ir.Model, engine: Engine, feeds: Feeds) -> Outputs:
    """Run the nodes that do not depend on one that the engine cannot run.

    The first such node is found by halves, in the order of the graph. It and all that reads
    its results is left out, and the rest is tried again, for up to eight such nodes. The model
    is in topological order. EngineUnavailableError if the engine is not there.
    """
    count = len(model.graph)
    lost: set[int] = set()
    found: Outputs = {}
    for _ in range(_MOST_FAULTS):
        left = [index for index in range(count) if index not in lost]
        known = _run(model, engine, feeds, left)
        if known is not None:
            return known
        low, high = 0, len(left)  # the first `low` of them run, the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            known = _run(model, engine, feeds, left[:middle])
            if known is None:
                high = middle
            else:
                low, found = middle, known
        lost |= _dependents(model, left[low])
    return found


def _run(
    model: ir.Model, engine: Engine, feeds: Feeds, kept: Collection[int]
) -> Outputs | None:
    """Run some nodes with all of their values as outputs; None if the engine refuses."""
    part = expose_values(model)
    wanted = set(kept)
    dropped = [node for index, node in enumerate(part.graph) if index not in wanted]
    gone = {value for node in dropped for value in node.outputs}
    outputs = [value for value in part.graph.outputs if value not in gone]
    part.graph.outputs[:] = outputs
    if not outputs:
        return {}
    part.graph.remove(dropped, safe=True)
    try:
        with engine.prepare(part) as session:
            return session.run(feeds)
    except EngineUnavailableError:
        raise
    except EngineError:
        return None


def _dependents(model: ir.Model, first: int) -> set[int]:
    found: set[int] = set()
    values: set[ir.Value] = set()
    for index, node in enumerate(model.graph):
        if index == first or not values.isdisjoint(values_read(node)):
            found.add(index)
            values.update(node.outputs)
    return found


Nodes = frozenset[int]
"""Nodes of the main graph by their position among those that are not constants."""


@dataclass(frozen=True)
class Piece:
    """How nodes, by position, are cut out; ``inputs`` and ``outputs`` become such."""

    nodes: list[int]
    inputs: list[ir.Value]
    constants: dict[ir.Value, ir.TensorProtocol]
    outputs: list[ir.Value]


@dataclass
class Parts:
    """The nodes of a model, how they depend on each other, and models of some of them.

    With ``keep_inputs`` a part has to start at the inputs of the model, with ``keep_outputs``
    it has to end at its outputs.
    """

    model: ir.Model
    boundary: Boundary
    keep_inputs: bool = False
    keep_outputs: bool = False
    nodes: list[ir.Node] = field(init=False)
    parents: list[set[int]] = field(init=False)
    children: list[set[int]] = field(init=False)
    reads: list[list[ir.Value]] = field(init=False)
    _tensors: dict[ir.Value, ir.TensorProtocol | None] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Look at the graph once."""
        graph = self.model.graph
        self.nodes = [n for n in graph if not (n.outputs and constant_tensor(n.outputs[0]))]
        makers = {v: i for i, node in enumerate(self.nodes) for v in node.outputs}
        self.reads = [values_read(node) for node in self.nodes]
        self.parents = [{makers[v] for v in read if v in makers} for read in self.reads]
        self.children = [set() for _ in self.nodes]
        for index, parents in enumerate(self.parents):
            for parent in parents:
                self.children[parent].add(index)

    @property
    def whole(self) -> Nodes:
        """All nodes."""
        return frozenset(range(len(self.nodes)))

    def grow(self, kept: Iterable[int]) -> Nodes:
        """Add what a part needs so that it starts, or ends, where it has to."""
        if self.keep_inputs:
            return reach(kept, self.parents)
        return reach(kept, self.children) if self.keep_outputs else frozenset(kept)

    def trim(self, kept: Collection[int]) -> Nodes:
        """Take away what cannot stay in a part that starts, or ends, where it has to."""
        if not (self.keep_inputs or self.keep_outputs):
            return frozenset(kept)
        lost = set(self.whole.difference(kept))
        return self.whole - reach(lost, self.children if self.keep_inputs else self.parents)

    def piece(self, kept: Nodes) -> Piece | None:
        """Return how some nodes are cut out; None where the type of an input is not known.

        Inputs are the values that the nodes read and do not compute; shapes, axes and indices
        computed outside are constants where their values are known. Outputs are those of the
        model, and what no node of the part reads.
        """
        picked = sorted(kept)
        inside = {value for index in picked for value in self.nodes[index].outputs}
        read = dict.fromkeys(v for index in picked for v in self.reads[index])
        outside = [value for value in read if value not in inside]
        frozen = self._frozen(outside)
        inputs: list[ir.Value] = []
        constants: dict[ir.Value, ir.TensorProtocol] = {}
        for value in outside:
            tensor = self._tensor(value) or frozen.get(value)
            if tensor is not None:
                constants[value] = tensor
            elif self.boundary.describe(value) is None:
                return None
            else:
                inputs.append(value)
        order = {value: i for i, value in enumerate(self.model.graph.inputs)}
        inputs.sort(key=lambda value: order.get(value, len(order)))
        return Piece(picked, inputs, constants, self._results(picked, inside, read))

    def part(self, kept: Nodes) -> ir.Model | None:
        """Return a model of some nodes; None where the type of an input is not known."""
        piece = self.piece(kept)
        return None if piece is None else self.model_of(piece)

    def model_of(self, piece: Piece) -> ir.Model:
        """Return the model of a part; weights are shared."""
        copies, known = copy_nodes([self.nodes[index] for index in piece.nodes])
        initializers = []
        for value, tensor in piece.constants.items():
            copy = known[value]
            copy.const_value = tensor
            copy.type = ir.TensorType(tensor.dtype)
            copy.shape = ir.Shape(tensor.shape.numpy())
            initializers.append(copy)
        for value in (*piece.inputs, *piece.outputs):
            described = self.boundary.describe(value)
            if described is not None:
                known[value].type, known[value].shape = described
            known[value].const_value = None
        for value in piece.inputs:
            if value.is_initializer():  # a default, which callers may override
                known[value].const_value = value.const_value
                initializers.append(known[value])
        return assemble(
            self.model,
            copies,
            [known[value] for value in piece.inputs],
            [known[value] for value in piece.outputs],
            initializers,
        )

    def _frozen(self, outside: Iterable[ir.Value]) -> dict[ir.Value, ir.TensorProtocol]:
        """Return values that have to stay as they are; none where no input would be left."""
        free = [v for v in outside if self._tensor(v) is None]
        found: dict[ir.Value, ir.TensorProtocol] = {}
        for value in free:
            array = None if value.is_graph_input() else self.boundary.frozen(value)
            if array is not None:
                found[value] = ir.tensor(np.array(array), name=value.name)
        return found if len(found) < len(free) else {}

    def _tensor(self, value: ir.Value) -> ir.TensorProtocol | None:
        if value not in self._tensors:
            self._tensors[value] = constant_tensor(value)
        return self._tensors[value]

    def _results(
        self, picked: list[int], inside: set[ir.Value], read: Collection[ir.Value]
    ) -> list[ir.Value]:
        given = [value for value in self.model.graph.outputs if value in inside]
        if self.keep_outputs and given:
            return list(dict.fromkeys(given))
        loose = [
            value
            for index in picked
            for value in self.nodes[index].outputs
            if value.name and value not in read and not value.is_graph_output()
        ]
        used = [value for value in loose if value.uses()] or ([] if given else loose)
        return list(dict.fromkeys(given + used))


def reach(start: Iterable[int], edges: list[set[int]]) -> Nodes:
    """Return the nodes that some lead to, and these; ``edges`` has what each leads to."""
    found: set[int] = set()
    pending = list(start)
    while pending:
        index = pending.pop()
        if index not in found:
            found.add(index)
            pending.extend(edges[index])
    return frozenset(found)
