"""What is known of the values at which a model may be cut: types, shapes, and the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.errors import EngineError, EngineUnavailableError, OnnxPassesError
from onnx_passes.runtime.engine_base import Array, Data, Engine, Feeds, Outputs, Session
from onnx_passes.verify.reduce.inner_types import Inferred

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
        from onnx_passes.verify.reduce.runnable import run_what_runs

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
