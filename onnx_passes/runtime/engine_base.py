"""What an engine is, and how its sessions are called, timed and examined.

An engine makes a model ready, and its session runs it. Complaints about calls that do not fit
are the same for every engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.arrays import Array as Array
from onnx_passes.errors import EngineBuildError, EngineError, EngineUnavailableError
from onnx_passes.errors import did_you_mean as did_you_mean
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.processes import cores

Data: TypeAlias = "Array | list[Data] | None"
"""What a value holds at run time: a tensor, a sequence of them, or an empty optional."""
Feeds: TypeAlias = Mapping[str, Data]
Outputs: TypeAlias = dict[str, Data]


class GeneratedFeeds(dict[str, Data]):
    """Inputs that nobody gave, arrays by name.

    ``label`` is what a run on them is called.
    """

    def __init__(self, feeds: Feeds, label: str) -> None:
        """Copy feeds, whose arrays are shared."""
        super().__init__(feeds)
        self.label = label

    @property
    def may_run(self) -> bool:
        """Whether no engine has ended the process on inputs of this label."""
        return risky_runs.avoided(self.label) is None


def label_of_feeds(feeds: Feeds) -> str | None:
    """Return what a run on inputs is called; None if they were given."""
    return feeds.label if isinstance(feeds, GeneratedFeeds) else None


class Session(Protocol):
    """A model made ready to run."""

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once.

        There is a feed for each graph input without an initializer. Types that numpy lacks
        (bfloat16, float8, int4) are ``ml_dtypes`` arrays. Results are in the order of
        ``outputs``, by default that of the graph, with dtypes as declared. An EngineError has
        the engine's message.
        """
        ...


@runtime_checkable
class TimedSession(Session, Protocol):
    """A session that times runs by itself, where it is closer to them."""

    def time_runs(self, feeds: Feeds, warm_up: int, iterations: int) -> list[float]:
        """Return the seconds of single runs; see :func:`time_runs`."""
        ...


@runtime_checkable
class LayeredSession(Session, Protocol):
    """A session that reports the layers of what it runs."""

    def layers(self) -> list[PlainDict]:
        """Return layers as plain data; see ``runtime.tensorrt.engine.EngineLayer``."""
        ...


class Engine(Protocol):
    """Something that can run a model. Immutable, hashable and picklable."""

    @property
    def name(self) -> str:
        """The name a report shows, options that matter included."""
        ...

    def describe(self) -> dict[str, str | int | float | bool]:
        """What a report must record for the numbers to be repeated: versions, options."""
        ...

    def prepare(self, model: ir.Model) -> AbstractContextManager[Session]:
        """Make ``model`` ready without changing it, or serialising its weights.

        Raises EngineUnavailableError if the engine or its provider is not on this machine,
        UnsupportedModelError if it lacks an operator or type, and EngineError otherwise.
        """
        ...


def only_compiles(engine: Engine) -> bool:
    """Whether an engine compiles models, and executes them only where it finds a GPU."""
    return bool(getattr(engine, "only_compiles", False))


class SessionInterface:
    """The inputs and outputs of a model, as they were when it was made ready.

    ``inputs`` and ``outputs`` are types by name, in order. ``required`` inputs have no
    initializer.
    """

    def __init__(self, model: ir.Model) -> None:
        self.inputs = {str(value.name): value.type for value in model.graph.inputs}
        self.outputs = {str(value.name): value.type for value in model.graph.outputs}
        self.required = [
            str(value.name) for value in model.graph.inputs if not value.is_initializer()
        ]

    def check(self, feeds: Feeds, outputs: Sequence[str] | None) -> list[str]:
        """Check a call, else EngineError, and return the names of the wanted outputs."""
        for name in self.required:
            if name not in feeds:
                raise EngineError(
                    f"the input {name!r} is not fed", help=f"fed: {', '.join(feeds) or 'none'}"
                )
        for name, data in feeds.items():
            if name not in self.inputs:
                raise EngineError(
                    f"the model has no input {name!r}", help=did_you_mean(name, self.inputs)
                )
            _check_type(name, data, self.inputs[name])
        names = list(self.outputs) if outputs is None else list(outputs)
        for name in names:
            if name not in self.outputs:
                raise EngineError(
                    f"the model has no output {name!r}", help=did_you_mean(name, self.outputs)
                )
        return names


def _check_type(name: str, data: Data, declared: ir.TypeProtocol | None) -> None:
    if isinstance(declared, ir.OptionalType):
        if data is None:
            return
        declared = declared.elem_type
    if isinstance(declared, ir.SequenceType):
        if not isinstance(data, list):
            raise EngineError(f"the input {name!r} is a sequence, but is not fed a list")
        for index, item in enumerate(data):
            _check_type(f"{name}[{index}]", item, declared.elem_type)
    elif isinstance(declared, ir.TensorType):
        if not isinstance(data, np.ndarray | np.generic):
            raise EngineError(
                f"the input {name!r} is a tensor, but is fed {type(data).__name__}"
            )
        _check_dtype(name, data.dtype, declared.dtype)


def _check_dtype(name: str, fed: np.dtype[np.generic], declared: ir.DataType) -> None:
    if declared == ir.DataType.STRING:
        fits = fed.kind in "OSUT"
    else:
        fits = fed.newbyteorder("=") == declared.numpy()
    if not fits:
        raise EngineError(
            f"the input {name!r} is fed {fed}, but the model declares {declared.name.lower()}"
        )


def mean_without_first(seconds: Sequence[float]) -> float:
    """Return the mean of times without the first, which warms up, if there are more."""
    counted = seconds[1:] or seconds
    return sum(counted) / len(counted)


def time_runs(session: Session, feeds: Feeds, warm_up: int, iterations: int) -> list[float]:
    """Return the seconds of single runs."""
    if isinstance(session, TimedSession):
        return session.time_runs(feeds, warm_up, iterations)
    for _ in range(warm_up):
        session.run(feeds)
    seconds = []
    for _ in range(iterations):
        start = time.perf_counter()
        session.run(feeds)
        seconds.append(time.perf_counter() - start)
    return seconds


def run_each(
    engine: Engine,
    session: Session,
    samples: Sequence[Feeds],
    names: Sequence[str] | None = None,
) -> list[Outputs]:
    """Run a session on every sample, on as many cores as there are.

    Engines that say ``concurrent`` have one thread a run, which keeps sums in a fixed order
    and leaves the other cores idle. The rest take one sample after the other, as do sessions
    that say ``in_turn``. Of several errors, the first sample's is raised.
    """
    workers = min(len(samples), cores())
    in_turn = getattr(session, "in_turn", False) or risky_runs.one_at_a_time()
    if workers < 2 or in_turn or not concurrent(engine):
        return [run_one(session, feeds, names) for feeds in samples]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda feeds: run_one(session, feeds, names), samples))


def run_one(session: Session, feeds: Feeds, names: Sequence[str] | None = None) -> Outputs:
    """Run a session on a sample, marked as a run that may end the process.

    Random operators draw the same for each sample, whatever ran before it. Raises EngineError
    if an engine has ended the process on the sample before.
    """
    restart: Callable[[], object] | None = getattr(session, "restart", None)
    label = label_of_feeds(feeds)
    if label is not None and (why := risky_runs.avoided(label)):
        raise EngineError(why)
    with risky_runs.engine_run(label):
        if restart is not None:
            restart()
        return session.run(feeds, names)


def concurrent(engine: Engine) -> bool:
    """Whether sessions of an engine may run beside each other, and gain by it."""
    return bool(getattr(engine, "concurrent", False)) and cores() > 1


BUILT_ONLY = "built, not executed: "
"""What the error of a run begins with where a model was compiled and cannot be executed."""


class Level(StrEnum):
    """What was seen of a model on an engine, the least first."""

    ABSENT = "absent"
    REJECTED = "rejected"
    PARSED = "parsed"
    BUILT = "built"
    EXECUTED = "executed"

    @property
    def rank(self) -> int:
        """Its place in the order."""
        return list(Level).index(self)


@dataclass(frozen=True)
class Finding:
    """How far a model got.

    ``reason`` is why not further, in the engine's words; empty where nothing failed.
    ``outputs`` are by sample; empty if not executed. ``log`` has the last lines that the
    engine logged where it stopped.
    """

    level: Level
    reason: str = ""
    help: str | None = None
    outputs: tuple[Outputs, ...] = ()
    log: str | None = None


def examine(engine: Engine, model: ir.Model, samples: Sequence[Feeds] = ()) -> Finding:
    """Parse and compile a model, and execute it on samples.

    A crash or a hang of an engine in a child process is a finding like any other. Only a
    ConfigError is raised.
    """
    try:
        with engine.prepare(model) as session:
            return _execute(session, samples)
    except EngineUnavailableError as error:
        return Finding(Level.ABSENT, error.message, error.help)
    except EngineBuildError as error:
        return Finding(Level.PARSED, error.message, error.help, log=error.where)
    except EngineError as error:
        return Finding(Level.REJECTED, error.message, error.help, log=error.where)


def _execute(session: Session, samples: Sequence[Feeds]) -> Finding:
    try:
        outputs = tuple(session.run(feeds) for feeds in samples)
    except EngineUnavailableError as error:
        return Finding(Level.BUILT, error.message.removeprefix(BUILT_ONLY), error.help)
    except EngineError as error:
        return Finding(Level.BUILT, f"it does not run: {error.message}", error.help)
    return Finding(Level.EXECUTED if outputs else Level.BUILT, outputs=outputs)
