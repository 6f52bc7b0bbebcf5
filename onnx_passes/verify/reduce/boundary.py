"""What is known of the values at which a model may be cut: types, shapes, and the values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, EngineUnavailableError, OnnxPassesError
from onnx_passes.model.walk import captured_values, replaced
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs, Session
from onnx_passes.verify.recording import exposed

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
        fixed: Whether the recorded shapes count, rather than the inferred ones.
        why: Why the model could not be recorded; None while nothing went wrong.
    """

    model: ir.Model
    engine: Engine
    golden: Mapping[str, Array] = field(default_factory=dict)
    fixed: bool = False
    why: str | None = None
    _recorded: Recording | None = None
    _found: Feeds | None = None
    _inferred: Inferred = field(init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        """Infer nothing yet."""
        self._inferred = Inferred(self.model)

    def feeds(self) -> Feeds:
        """Return the inputs of the whole model: the given ones, the others made up.

        Raises:
            ReferenceDataError: An input has no type or rank.
        """
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
        """Take other inputs from now on; what was recorded of those before is dropped.

        Args:
            values: Values by input, of any shape and type.
        """
        with self._lock:
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
        if type_ is not None and shape is not None and not self.fixed:
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
        with self._lock:  # several candidates may be asked for values at a time
            if self._recorded is None:
                self._recorded = self._run()
            return self._recorded

    def _run(self) -> Recording:
        from onnx_passes.verify.recording import Recording, exposed

        recorded = Recording(_MEMORY)
        try:
            feeds = self.feeds()
            recorded.update(feeds)
            with self.engine.prepare(exposed(self.model)) as session:
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
        from onnx_passes.runtime.inputs import Substitutes

        try:
            return session.run(feeds)
        except EngineError:
            given = any(name in self.golden for name in feeds)
            found = None if given else Substitutes(self.model, samples=1).search(session)
            if found is None:
                raise
        self._found = found.samples[0]
        recorded.update(self._found)
        return found.outputs[0]


_LARGE = 1024  # bytes; shapes, axes and indices, which inference looks at, have no more

Described = tuple[ir.TypeProtocol | None, ir.Shape | None]


@dataclass
class Inferred:
    """What onnx infers of the values of a model, in one run over the whole of it.

    Attributes:
        model: The model; its declarations count before what is inferred.
    """

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
    def small(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        del initializer
        if tensor.nbytes <= _LARGE or tensor.dtype == ir.DataType.STRING:
            return tensor
        # Types and shapes of weights are enough; the file is not looked for.
        shape, name = ir.Shape(tensor.shape.numpy()), tensor.name or ""
        return ir.ExternalTensor(
            "weights", 0, tensor.nbytes, tensor.dtype, shape=shape, name=name
        )

    with replaced(model, small):
        proto = ir.to_proto(model)
    attach_bodies(proto)
    try:
        told = onnx.shape_inference.infer_shapes(
            proto, check_type=False, strict_mode=False, data_prop=True
        )
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return {}  # a recorded run says what inference does not
    graph = told.graph
    return {info.name: info for info in (*graph.value_info, *graph.output)}


_MOST_FAULTS = 8


def run_what_runs(model: ir.Model, engine: Engine, feeds: Feeds) -> Outputs:
    """Run the nodes that do not depend on one that the engine cannot run.

    The first such node is found by halves, in the order of the graph. It and all that reads
    its results is left out, and the rest is tried again, for up to eight such nodes.

    Args:
        model: The model, in topological order; left as it is.
        engine: What it is run on.
        feeds: Its inputs by name.

    Returns:
        The values computed, by name; none if no node runs.

    Raises:
        EngineUnavailableError: The engine is not there.
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
    part = exposed(model)
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
        read = {v for v in (*node.inputs, *captured_values(node)) if v is not None}
        if index == first or read & values:
            found.add(index)
            values.update(node.outputs)
    return found
