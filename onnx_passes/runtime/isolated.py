"""An engine in a child process: what it does to its process, it does not do to this one."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, only_compiles
from onnx_passes.runtime.interface import SessionInterface
from onnx_passes.runtime.isolated_process import Child, Home, child_of
from onnx_passes.runtime.isolated_weights import Manifest, Store
from onnx_passes.runtime.weightless import split_for_engine

TIME_LIMIT = 600.0
"""Seconds that one prepare or run may take, where a pipeline file does not say."""

LEAST_MEMORY = 512 << 20
"""Least limit of memory: Python and the libraries of an engine take a third of it."""

_LIMITS = ("time_limit", "memory_limit")

_store = Store()
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ChildLimits:
    """What an engine in a child process may use.

    Attributes:
        time_limit: Seconds for one prepare or run; None for no limit.
        memory_limit: Bytes of private memory; None for no limit.
    """

    time_limit: float | None = TIME_LIMIT
    memory_limit: int | None = None


@dataclass(frozen=True)
class IsolatedEngine:
    """Run another engine in a child process.

    The child is started by the first ``prepare``, serves further sessions, and is replaced
    when it ends. A crash, a hang or an exhausted memory is an ``EngineError``. Weights reach
    the child through files, inputs and outputs through shared memory.

    Attributes:
        engine: The engine, as it would run here.
        home: What the child must find.
        options: The engine's options as JSON, from which the child makes it anew.
        time_limit: Seconds for one prepare or run; None for no limit.
    """

    engine: Engine
    home: Home
    options: str
    time_limit: float | None = TIME_LIMIT

    @property
    def name(self) -> str:
        """The name of the engine: its numbers are the same."""
        return self.engine.name

    @property
    def node_by_node(self) -> bool:
        """Whether the engine runs each node as written, so that keeping its value is free."""
        return bool(getattr(self.engine, "node_by_node", False))

    @property
    def only_compiles(self) -> bool:
        """Whether the engine compiles models, and executes them only where it finds a GPU."""
        return only_compiles(self.engine)

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return what the engine says of itself, and the limits."""
        limits = {"time_limit": self.time_limit, "memory_limit": self.home.memory_limit}
        given = {key: value for key, value in limits.items() if value is not None}
        return {**self.engine.describe(), "isolate": True, **given}

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[IsolatedSession]:
        """Make ``model`` ready; see ``Engine.prepare``.

        Raises:
            EngineCrashedError: The engine ended its process.
            EngineTimeoutError: It took longer than the time limit.
            EngineMemoryError: It needed more memory than it may have.
        """
        session = IsolatedSession(self, model)
        session.prepare()
        try:
            yield session
        finally:
            session.close()


class IsolatedSession:
    """A model made ready in a child process, and again in the next one if that ends."""

    def __init__(self, engine: IsolatedEngine, model: ir.Model) -> None:
        self._engine, self._interface = engine, SessionInterface(model)
        proto, self._weights = split_for_engine(model, lambda tensor: tensor)
        try:
            self._proto = proto.SerializeToString()
        except Exception as error:  # protobuf's, beyond 2 GiB
            raise EngineError(f"the model cannot be serialised: {error}") from error
        self._number = next(_numbers)
        self._child: Child | None = None
        self._closed = False

    def prepare(self) -> Child:
        """Make the model ready in a living child, unless it is."""
        child = child_of(self._engine.home)
        if child is self._child:
            return child
        manifest = _store.manifest(self._weights)
        message = {
            "do": "prepare",
            "session": self._number,
            "engine": self._engine.home.engine,
            "options": self._engine.options,
            "weights": manifest.places,
            "forget": _store.forget(child.known),
        }
        child.prepare(message, self._proto, manifest, self._engine.time_limit)
        self._manifest: Manifest | None = manifest
        self._child = child
        return child

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``.

        Raises:
            EngineCrashedError: As ``IsolatedEngine.prepare``, like the other two.
        """
        names = self._interface.check(feeds, outputs)
        if self._closed:
            raise EngineError("the session is closed")
        child = self.prepare()
        with child.lock:
            message = {
                "do": "run",
                "session": self._number,
                "feeds": child.feeds.put(feeds),
                "outputs": None if outputs is None else names,
            }
            answer = child.ask(message, while_="running", seconds=self._engine.time_limit)
            found = child.outputs.get(answer["outputs"])
            child.feeds.shrink()
            child.outputs.shrink()
        # Beside what was asked for an engine may give what it computed on the way.
        return {name: found[name] for name in names} | found

    def time_runs(self, feeds: Feeds, warm_up: int, iterations: int) -> list[float]:
        """Return the seconds of single runs, without the way to the child and back.

        Args:
            feeds: Values by input.
            warm_up: Runs before those that are timed.
            iterations: Runs that are timed.

        Raises:
            EngineCrashedError: As ``IsolatedEngine.prepare``, like the other two.
        """
        self._interface.check(feeds, None)
        counts = {"warm_up": warm_up, "iterations": iterations}
        child = self.prepare()
        with child.lock:
            message = {
                "do": "time",
                "session": self._number,
                "feeds": child.feeds.put(feeds),
                **counts,
            }
            answer = child.ask(message, while_="running", seconds=self._engine.time_limit)
            child.feeds.shrink()
        found: list[float] = answer["seconds"]
        return found

    def layers(self) -> list[PlainDict]:
        """Return the layers that the engine reports, as plain data; none if it does not."""
        message = {"do": "layers", "session": self._number}
        child = self.prepare()
        with child.lock:
            answer = child.ask(message, while_="asked", seconds=self._engine.time_limit)
        found: list[PlainDict] = answer["layers"]
        return found

    def close(self) -> None:
        """Let the child free the session. If that ends the child, the next one starts anew."""
        child, self._child, self._closed = self._child, None, True
        self._weights, self._manifest = {}, None
        if child is None or not child.alive:
            return
        message = {"do": "close", "session": self._number}
        try:
            child.ask(message, while_="closing", seconds=self._engine.time_limit)
        except EngineError:
            child.end()


def split_options(
    name: str, options: Mapping[str, object], *, isolate: bool
) -> tuple[dict[str, object], ChildLimits | None]:
    """Take the options of every engine from those of one.

    Args:
        name: The engine, for messages.
        options: As a pipeline file spells them, sizes in bytes.
        isolate: Whether it runs in a child process where the options do not say.

    Returns:
        The engine's own options, and the limits of its child process; None without one.

    Raises:
        ConfigError: A value does not fit, or there is a limit and no child process.
    """
    own = {key: value for key, value in options.items() if key not in ("isolate", *_LIMITS)}
    wanted = options.get("isolate", isolate)
    if not isinstance(wanted, bool):
        raise ConfigError(f"{name}.isolate must be true or false, not {wanted!r}")
    given = [key for key in _LIMITS if key in options]
    if not wanted:
        if given:
            raise ConfigError(
                f"{name}.{given[0]} needs a child process, which can be ended",
                help="add 'isolate: true'",
            )
        return own, None
    seconds, memory = options.get("time_limit", TIME_LIMIT), options.get("memory_limit")
    match seconds:
        case bool():
            pass
        case None:
            return own, ChildLimits(None, _memory(name, memory))
        case int() | float() if 0 < seconds < math.inf:
            return own, ChildLimits(float(seconds), _memory(name, memory))
    raise ConfigError(f"{name}.time_limit must be seconds over 0, not {seconds!r}")


def _memory(name: str, memory: object) -> int | None:
    if memory is None:
        return None
    if type(memory) is int and memory >= LEAST_MEMORY:
        return memory
    raise ConfigError(
        f"{name}.memory_limit must be at least 512 MiB, not {memory!r}",
        help="Python and the libraries of an engine need about 200 MiB before any model",
    )


def options_to_json(name: str, options: Mapping[str, object]) -> str:
    """Return options as JSON.

    Args:
        name: Name of the engine, for messages.
        options: Its options by name.

    Raises:
        ConfigError: JSON has no form for one.
    """
    for key, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{name}.{key} cannot be handed to a child process: {error}",
                help="give text, numbers, booleans, lists or mappings",
            ) from error
    return json.dumps(dict(options))
