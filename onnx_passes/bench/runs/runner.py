"""A model on an engine: loaded when needed, its inputs, batches of values, times.

Values that are computed together are chosen so that they fit in memory.
"""

from __future__ import annotations

import math
import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.bench.runs.judges import existing
from onnx_passes.bench.runs.results import Latency, Timing
from onnx_passes.errors import EngineError, ReferenceDataError, UsageError, did_you_mean
from onnx_passes.model.extract import what_is_named
from onnx_passes.model.load import load_model
from onnx_passes.model.save import TensorFile
from onnx_passes.optional import named_function, users_call
from onnx_passes.runtime.engine_base import (
    BUILT_ONLY,
    Data,
    Engine,
    Feeds,
    Outputs,
    Session,
    time_runs,
)
from onnx_passes.runtime.environment import gpu_states
from onnx_passes.runtime.inputs import InputSearch, Substitute, generate
from onnx_passes.runtime.inputs.concrete_shapes import skeleton, specialize_shapes
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.engine import (
    EngineLayer,
    layers_of,
    with_profiles_of,
    with_profiling,
)
from onnx_passes.verify.bodies import (
    expose_bodies,
    hidden_values_note,
    inner_first,
    inner_name_error,
    typed,
)
from onnx_passes.verify.recording import expose_values, inlined
from onnx_passes.verify.reference_data import check_feeds, load_reference
from onnx_passes.verify.saved import read_samples, write_samples

Source: TypeAlias = "str | Path | ir.Model | Loader"


class Loader:
    """Gives a model when it is first asked for one, and then the same one.

    Args:
        source: A path, a model, another loader, or a function that returns a model.
    """

    def __init__(self, source: Source | Callable[[], ir.Model]) -> None:
        self._source = source
        self._model: ir.Model | None = None
        path = isinstance(source, str | Path)
        self.name = Path(str(source)).name if path else getattr(source, "name", "") or "model"

    def __call__(self) -> ir.Model:
        """Return the model.

        Raises:
            ModelError: It cannot be read.
        """
        if self._model is None:
            source = self._source
            if isinstance(source, str | Path):
                self._model = load_model(source).model
            elif isinstance(source, ir.Model):
                self._model = source
            else:
                self._model = source()
        return self._model

    def offload(self) -> None:
        """Have the weights of a model that comes from a file in a file of their own.

        ModelError if it cannot be read; UsageError if the temporary folder has no room.
        """
        if not isinstance(self._source, str | Path):
            return
        if self._model is None:
            self._model = load_offloaded(self._source)
        offload(self._model)


class Runner:
    """A model on an engine.

        with Runner("model.onnx") as runner:
            outputs = runner.infer({"x": x})

    Attributes:
        engine: The engine.
        name: What a report calls it.
    """

    def __init__(
        self, model: Source, engine: Engine | None = None, *, name: str | None = None
    ) -> None:
        """Load and prepare nothing yet.

        Args:
            model: A path, a model, or a loader.
            engine: ONNX Runtime on the CPU by default.
            name: By default the model's on the engine's.
        """
        self.loader = model if isinstance(model, Loader) else Loader(model)
        self.engine: Engine = engine if engine is not None else OnnxRuntimeEngine()
        self.name = name or f"{self.loader.name} on {self.engine.name}"
        self._stack: ExitStack | None = None
        self._session: Session | None = None

    @property
    def model(self) -> ir.Model:
        """The model, loaded at the first look."""
        return self.loader()

    def __enter__(self) -> Self:
        """Make the model ready.

        Raises:
            ModelError: The model cannot be read.
            EngineError: The engine refuses it, or is not on this machine.
        """
        with ExitStack() as stack:
            self._session = stack.enter_context(self.engine.prepare(self.model))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Free what the engine holds."""
        stack, self._stack, self._session = self._stack, None, None
        if stack is not None:
            stack.close()

    def infer(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``.

        Args:
            feeds: Inputs by name.
            outputs: Names of the outputs that are wanted; None for all.

        Raises:
            EngineError: The engine failed, or the runner is not entered.
        """
        if self._session is None:
            raise EngineError(
                f"{self.name} is not ready", help="use it as a context: with runner: ..."
            )
        return self._session.run(feeds, outputs)


def unique_names(names: Iterable[str]) -> list[str]:
    """Number names that stand twice: ``a``, ``a #2``."""
    found: list[str] = []
    for each in names:
        name, number = each, 2
        while name in found:
            name, number = f"{each} #{number}", number + 1
        found.append(name)
    return found


def check_sample(index: int, feeds: Feeds, name: str, model: ir.Model) -> None:
    """Raise ReferenceDataError for a sample that does not fit a model."""
    try:
        check_feeds(feeds, model, {}, allow_nan=True)
    except ReferenceDataError as error:
        error.where = error.where or f"sample {index} for {name}"
        raise


def type_text(value: ir.Value) -> str:
    """Return the type and shape of a value as text, such as ``float[N,3]``."""
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    shape = "" if value.shape is None else ",".join(str(dim) for dim in value.shape)
    return f"{dtype}[{shape}]"


SMALL = 1 << 16
"""Bytes below which a weight stays in memory."""


def load_offloaded(path: str | Path) -> ir.Model:
    """Read a model whose large weights go from its file to a temporary one, not to memory.

    ModelError if it cannot be read; UsageError if the temporary folder has no room.
    """
    folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
    # Its name is not one that a model may have guessed.
    weights = Path(folder.name) / f"weights-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        stack.callback(folder.cleanup)
        try:
            model = load_model(path, weights=weights).model
        except OSError as error:
            raise _no_room(error) from error
        if weights.exists():
            stack.pop_all()
            weakref.finalize(model, folder.cleanup)
    return model


def offload(model: ir.Model) -> None:
    """Move the large weights of a model to a temporary file, which is gone with the model.

    A model with weights in files is left as it is. Only who owns a model may call this.
    UsageError if the temporary folder has no room.
    """
    values = [
        value
        for value in model.graph.initializers.values()
        if value.const_value is not None
        and value.const_value.dtype != ir.DataType.STRING
        and value.const_value.nbytes >= SMALL
    ]
    if not values or any(isinstance(v.const_value, ir.ExternalTensor) for v in values):
        return
    try:
        file = TensorFile()
        for value in values:
            assert value.const_value is not None
            value.const_value = file.append(value.const_value)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> UsageError:
    return UsageError(
        f"there is no room for the weights in the temporary folder: {error.strerror}",
        where=tempfile.gettempdir(),
        help="let TMPDIR name a folder with more room, or keep the weights in a file beside "
        "the model",
    )


SAMPLES = 3
_KEYS = ("seed", "samples", "range", "shape")


@dataclass(frozen=True)
class Generated:
    """How inputs are generated.

    Ranges are least and greatest value; they and shapes are by name of an input.
    """

    seed: int = 0
    samples: int = SAMPLES
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def make(self, model: ir.Model) -> list[Feeds]:
        """Generate inputs of a model.

        UsageError if it lacks an input that is named; ReferenceDataError if a range or shape
        does not fit.
        """
        names = [str(value.name) for value in model.graph.inputs]
        for name in self.shapes:
            if name not in names:
                raise UsageError(
                    f"--generate: the model has no input {name!r}",
                    help=did_you_mean(name, names),
                )
        return generate(
            model, seed=self.seed, samples=self.samples, ranges=self.ranges, dims=self.shapes
        )

    def find_others(self, runner: Runner) -> Substitute | None:
        """Search for inputs on which a model runs that does not run on those of :meth:`make`.

        EngineError if the engine refuses the model, whatever its inputs are.
        """
        others = InputSearch(runner.model, self.seed, self.samples, self.ranges, self.shapes)
        with runner.engine.prepare(runner.model) as session:
            return others.search(session)


def read_generate(texts: tuple[str, ...]) -> Generated:
    """Read ``seed=7,samples=2,range=x:-1:1,shape=x:1x3x8x8``; a name may hold ``:``.

    UsageError if a part cannot be read.
    """
    plain: dict[str, int] = {}
    ranges: dict[str, tuple[float, float]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for part in (part for text in texts for part in text.split(",")):
        key, equals, value = part.strip().partition("=")
        if key not in _KEYS or not equals:
            raise UsageError(
                f"--generate {part!r} cannot be read", help=did_you_mean(key, _KEYS)
            )
        try:
            if key == "range":
                name, low, high = value.rsplit(":", 2)
                ranges[name] = (float(low), float(high))
            elif key == "shape":
                name, sizes = value.rsplit(":", 1)
                shapes[name] = tuple(int(size) for size in sizes.split("x")) if sizes else ()
            else:
                plain[key] = int(value)
        except ValueError:
            raise UsageError(f"--generate {part!r} cannot be read", help=_HOW[key]) from None
    if plain.get("samples", 1) < 1 or plain.get("seed", 0) < 0:
        raise UsageError("--generate: samples are at least 1, and the seed is at least 0")
    return Generated(**plain, ranges=ranges, shapes=shapes)


_HOW = {
    "range": "write range=NAME:LOW:HIGH, such as range=x:-1:1",
    "shape": "write shape=NAME:SIZES, such as shape=x:1x3x224x224",
    "seed": "write a whole number, such as seed=7",
    "samples": "write a whole number, such as samples=4",
}


def from_loader(text: str) -> Iterator[Feeds]:
    """Yield what a function of the user's gives: feeds, one after the other.

    ``module:function`` is called without arguments, and returns or yields mappings of input
    names to arrays. UsageError if there is none; ReferenceDataError if it raises, or gives
    something else.
    """
    function = named_function(text, "--data-loader")
    how = "it is called without arguments, and returns or yields mappings"
    with users_call(f"--data-loader {text}", ReferenceDataError, how):
        for index, feeds in enumerate(function()):
            yield _feeds(feeds, f"--data-loader {text}: sample {index}")


def _feeds(given: Any, what: str) -> Feeds:
    if not isinstance(given, Mapping):
        raise ReferenceDataError(
            f"{what} is of type {type(given).__name__}",
            help="return or yield mappings of input names to arrays",
        )
    return {str(name): _data(value) for name, value in given.items()}


def _data(value: Any) -> Data:
    if value is None:
        return None
    return [_data(item) for item in value] if isinstance(value, list) else np.asarray(value)


def from_file(path: str, model: ir.Model) -> list[Feeds]:
    """Read inputs from .json, or from what ``reference.inputs`` of a pipeline takes."""
    existing(path, "inputs")
    if Path(path).suffix == ".json":
        return [dict(sample) for sample in read_samples(path)]
    spec = {"inputs": path, "allow_nan": True}
    return list(load_reference(spec, model, Path()).samples)


def save_inputs(path: Path, samples: Sequence[Feeds]) -> None:
    """Write inputs in the form that the extension says; see ``write_samples``."""
    plain = [
        {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
        for feeds in samples
    ]
    for feeds, kept in zip(samples, plain, strict=True):
        if lost := [name for name in feeds if name not in kept]:
            raise ReferenceDataError(
                f"the input {lost[0]!r} is no tensor, and saved inputs hold tensors only",
                where=str(path),
            )
    write_samples(path, plain)


ALL = "all"
_FEW = 12
_WIDEST = 8
"""Bytes that an element of unknown type may take."""


@dataclass(frozen=True)
class SessionBatch:
    """Values computed by one session, in topological order.

    ``source`` has types if values of bodies are asked for.
    """

    source: ir.Model
    names: tuple[str, ...]

    def model(self) -> ir.Model:
        """Make a model with these values as its outputs; it is not kept."""
        # Nodes give no more of their bodies than this batch has room for.
        return _with_outputs(expose_values(expose_bodies(self.source, self.names)), self.names)


@dataclass(frozen=True)
class RunPlan:
    """How the values wanted of a model are computed.

    ``makers`` has the node of each value, as text.
    """

    batches: tuple[SessionBatch, ...]
    outputs: frozenset[str]
    makers: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def as_it_is(self) -> bool:
        """Whether the model runs unchanged."""
        return len(self.batches) == 1 and set(self.batches[0].names) <= self.outputs


def plan(
    model: ir.Model,
    wanted: Sequence[str] | str | None,
    samples: Iterable[Feeds],
    engine: Engine,
    capacity: int,
) -> RunPlan:
    """Divide the values wanted of a model into batches.

    ``wanted`` are names of values of its main graph, "all", or None for its outputs. Samples
    of equal shapes count once. The engine measures sizes that shape inference does not know.
    ``capacity`` is the bytes that the values of a batch may have. UsageError if a value does
    not exist.
    """
    own = tuple(str(value.name) for value in model.graph.outputs)
    if wanted is None:
        return RunPlan((SessionBatch(model, own),), frozenset(own), describe_producers(model))
    base = typed(inlined(model) if wanted == ALL else model)
    whole = expose_values(expose_bodies(base))
    names = in_order(whole)
    if wanted != ALL:
        for name in wanted:
            if name not in names:
                raise inner_name_error(name, base, names) or UsageError(
                    f"the model has no value {name!r} that could be an output",
                    help=what_is_named(name, base.graph) or nearest(name, names),
                )
        chosen = set(wanted)
        names = [name for name in names if name in chosen]
    notes = (
        [left_out] if wanted == ALL and (left_out := hidden_values_note(base, names)) else []
    )
    sizes: dict[str, int] = {}
    for feeds in distinct(samples):
        for name, count in _sizes(whole, names, feeds, engine, notes).items():
            sizes[name] = max(count, sizes.get(name, 0))
    groups = _groups(names, sizes, capacity, notes)
    batches = [SessionBatch(base, tuple(group)) for group in groups]
    return RunPlan(tuple(batches), frozenset(own), describe_producers(whole), tuple(notes))


def in_order(model: ir.Model) -> list[str]:
    """Return the names of the outputs of a model, in topological order."""
    outputs = set(model.graph.outputs)
    made = [v for node in model.graph for v in inner_first(node) if v in outputs]
    # An output may also be an input, or an initializer.
    rest = [v for v in model.graph.outputs if v.producer() is None]
    return list(dict.fromkeys(str(v.name) for v in (*rest, *made)))


def describe_producers(model: ir.Model) -> dict[str, str]:
    """Return the node of each value of the main graph, as text."""
    return {
        str(value.name): f"{node.op_type} {node.name!r}" if node.name else node.op_type
        for node in model.graph
        for value in node.outputs
        if value.name
    }


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a help line that stays short where the names are many."""
    if len(names) <= _FEW:
        return did_you_mean(name, names)
    listed = f"inspect model --show layers lists all {len(names):,}"
    return f"{did_you_mean(name, names, '', most=3)} {listed}".lstrip()


def _with_outputs(whole: ir.Model, names: Sequence[str]) -> ir.Model:
    copy = whole.clone()
    outputs = {str(value.name): value for value in copy.graph.outputs}
    every = len(names) == len(outputs)
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(outputs[name] for name in names)
    if not every:
        # Its nodes would run, and its weights be held, for nothing.
        RemoveUnusedNodesPass()(copy)
    return copy


def distinct(samples: Iterable[Feeds]) -> list[Feeds]:
    """Return one sample of each combination of shapes."""
    known: dict[object, Feeds] = {}
    for feeds in samples:
        key = tuple(
            (n, v.shape if isinstance(v, np.ndarray) else None) for n, v in feeds.items()
        )
        known.setdefault(key, feeds)
    return list(known.values())


def _sizes(
    whole: ir.Model, names: Sequence[str], feeds: Feeds, engine: Engine, notes: list[str]
) -> dict[str, int]:
    """Return the bytes of values, those of unknown shape by a run that counts elements."""
    shapes = {n: v.shape for n, v in feeds.items() if isinstance(v, np.ndarray)}
    symbols = {
        str(dim.value): size
        for value in whole.graph.inputs
        if value.shape is not None and value.name in shapes
        for dim, size in zip(value.shape, shapes[str(value.name)], strict=False)
        if not isinstance(dim, int) and dim.value is not None
    }
    concrete, _ = specialize_shapes(skeleton(whole), shapes, symbols)
    known = {str(value.name): value for value in concrete.graph.outputs}
    found: dict[str, int] = {}
    unknown: list[str] = []
    for name in names:
        value = known.get(name)
        if value is not None and value.shape is not None and value.shape.is_static():
            found[name] = math.prod(value.shape.numpy()) * _width(value)
        else:
            unknown.append(name)
    counts = _counted(whole, unknown, feeds, engine, notes) if unknown else {}
    return found | {n: c * _width(known.get(n)) for n, c in counts.items()}


def _width(value: ir.Value | None) -> int:
    dtype = value.dtype if value is not None else None
    if dtype is None or dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
        return _WIDEST
    return dtype.numpy().itemsize


def _counted(
    whole: ir.Model, names: Sequence[str], feeds: Feeds, engine: Engine, notes: list[str]
) -> dict[str, int]:
    counter = whole.clone()
    values = {str(value.name): value for value in counter.graph.outputs}
    counter.graph.outputs.clear()
    for index, name in enumerate(names):
        node = ir.node("Size", [values[name]])
        node.outputs[0].name = f"onnx_passes_size_{index}"
        node.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        node.outputs[0].shape = ir.Shape([])
        counter.graph.append(node)
        counter.graph.outputs.append(node.outputs[0])
    plain = engine
    if isinstance(engine, OnnxRuntimeEngine):
        # Counts are the same in any mode, and this one makes no copies of weights.
        plain = replace(engine, optimization="none", prepacking=False)
    try:
        with plain.prepare(counter) as session:
            found = session.run(feeds)
    except EngineError as error:
        note = f"the sizes of {len(names)} values are unknown: {error.message}"
        if note not in notes:
            notes.append(note)
        return {}
    return {n: int(np.asarray(c)) for n, c in zip(names, found.values(), strict=True)}


def _groups(
    names: Sequence[str], sizes: Mapping[str, int], capacity: int, notes: list[str]
) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    held = 0
    large = {name: size for name, size in sizes.items() if size > capacity}
    if large:
        most = max(large, key=lambda name: large[name])
        notes.append(
            f"{len(large)} values are each larger than a batch may be ({capacity:,} bytes), "
            f"and come one at a time; the largest, {most}, has {large[most]:,} bytes"
        )
    for name in names:
        # What is not known may be as large as anything.
        size = sizes.get(name, capacity)
        if groups[-1] and held + size > capacity:
            groups.append([])
            held = 0
        groups[-1].append(name)
        held += size
    return groups


ITERATIONS = 100
"""Runs that are timed where nobody says."""
WARM_UP = 10
"""Runs before those."""
PROFILED_RUNS = 10
"""Runs over which the times of layers are averaged; one more warms up."""


def measure(
    name: str, runner: Runner, feeds: Feeds, *, warm_up: int, iterations: int
) -> Timing:
    """Time a model on an engine, and its layers."""
    found = Timing(name, warm_up=warm_up)
    engine = with_profiles_of(runner.engine, runner.model, [feeds])
    found.before = gpu_states()
    try:
        with engine.prepare(runner.model) as session:
            found.latency = Latency.of(time_runs(session, feeds, warm_up, iterations))
    except EngineError as error:
        found.notes.append(f"not timed: {error.message}")
        if not error.message.startswith(BUILT_ONLY):
            return found
    found.after = gpu_states()
    if not found.before:
        found.notes.append("no NVIDIA GPU says its clocks and temperature here")
    layers, note = list_layers(engine, runner, [feeds] * (PROFILED_RUNS + 1))
    found.layers = layers
    found.notes += [note] if note else []
    return found


def list_layers(
    engine: Engine, runner: Runner, samples: Sequence[Feeds]
) -> tuple[list[EngineLayer], str]:
    """Return the layers of a model on an engine, in a session of their own.

    The model runs on ``samples`` before its layers are asked for. Also return why there are
    none, or no times.
    """
    own = with_profiling(engine)
    if own is None:
        return [], f"{engine.name} does not tell its layers"
    note = ""
    try:
        with own.prepare(runner.model) as session:
            try:
                for feeds in samples:
                    session.run(feeds)
            except EngineError as error:
                note = f"layers without times: {error.message}"
            layers = layers_of(session)
    except EngineError as error:
        return [], f"no layers: {error.message}"
    return layers, note if layers else f"{engine.name} tells no layers"
