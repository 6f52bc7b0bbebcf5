"""Engines and functions in child processes, so that a crash does not end this process.

The processes are started, asked and ended here.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes import errors
from onnx_passes.errors import (
    ConfigError,
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    EngineUnavailableError,
    OnnxPassesError,
)
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.runtime.engine_base import (
    Engine,
    Feeds,
    Outputs,
    SessionInterface,
    only_compiles,
)
from onnx_passes.runtime.engine_models import split_for_engine
from onnx_passes.runtime.isolated_wire import (
    Channel,
    Message,
    Payload,
    WeightStore,
    pack,
    place_of,
    unpack,
)
from onnx_passes.runtime.processes import VARIABLE, kill, own_stderr, start

_MAIN = (
    "import sys; sys.path[:] = sys.argv[4:]; "
    "from onnx_passes.runtime.isolated_child import main; main()"
)
_START_SECONDS = 120.0
_GOODBYE_SECONDS = 5.0
_TAIL_BYTES, _TAIL_LINES = 2000, 4


@dataclass(frozen=True)
class ChildSpec:
    """What a child must find; engines that agree in it share one.

    It imports ``modules`` first, which register the engine, and looks for them in ``folders``
    before the path of this process. ``memory_limit`` is in bytes of private memory; None for
    no limit.
    """

    engine: str
    modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    memory_limit: int | None = None


class Child:
    """A child process.

    It is used by the thread that holds ``lock``.
    """

    def __init__(self, home: ChildSpec) -> None:
        if os.name != "posix":
            raise EngineUnavailableError("isolate: true needs Linux or macOS")
        if home.memory_limit is not None and sys.platform != "linux":
            raise EngineUnavailableError("memory_limit needs Linux")
        self.home, self._lock = home, threading.RLock()
        with tempfile.TemporaryFile(prefix="onnx-passes-") as file:
            self._log = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._log)
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._channel = Channel(ours)
        paths = [*home.folders, *sys.path]
        words = [str(theirs.fileno()), str(lifeline), str(home.memory_limit or 0), *paths]
        heard = own_stderr()
        # Spawned, since a fork has the locks of ONNX Runtime's threads but not the threads.
        self._process = start(
            [sys.executable, "-P", "-c", _MAIN, *words],
            stdout=self._log,
            stderr=self._log,
            pass_fds=(theirs.fileno(), lifeline, *heard),
            env={**os.environ, VARIABLE: " ".join(map(str, heard))},
        )
        for descriptor in heard:
            os.close(descriptor)
        theirs.close()
        os.close(lifeline)
        self._closer = weakref.finalize(
            self, _end, os.getpid(), self._process, self._lifeline, self._channel
        )
        self._closer.atexit = False  # :func:`end_children` ends those that are left
        message = {"do": "start", "modules": list(home.modules)}
        self.ask(message, while_="starting", seconds=_START_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._closer.alive and self._process.poll() is None

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self._closer()

    def ask(
        self,
        message: Message,
        payload: Payload = (),
        *,
        while_: str,
        seconds: float | None,
    ) -> Message:
        """Send a request and return the answer, with its ``payload``.

        ``while_`` says in messages what the request is about. Without ``seconds`` there is no
        limit. Raises EngineCrashedError if the process ends, EngineTimeoutError after it was
        killed, EngineMemoryError at the limit of memory, and what else the engine raises.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock, self._kill_on_errors():
            with contextlib.suppress(OSError):  # what it printed before is not of what follows
                os.ftruncate(self._log, 0)
            try:
                self._channel.send(message, payload, deadline)
                answer, given = self._channel.receive(deadline)
            except TimeoutError as error:
                raise EngineTimeoutError(
                    f"{self.home.engine} did not end within {seconds:g} s while {while_}"
                    f"{self._tail()}",
                    help="raise the engine's time_limit if it should have",
                ) from error
            except (EOFError, OSError) as error:
                raise self._death(while_) from error
            if "error" not in answer:
                return {**answer, "payload": given}
            found = self._error(answer["error"], while_)
            if isinstance(found, EngineMemoryError | EngineCrashedError):
                raise found  # its allocator, or its GPU, cannot be used any more
        raise found

    @contextlib.contextmanager
    def _kill_on_errors(self) -> Iterator[None]:
        # Whatever is raised in between, Ctrl-C included: the answer would be taken for that
        # to the next request.
        try:
            yield
        except BaseException:
            self.end()
            raise

    def _error(self, reported: Message, while_: str) -> OnnxPassesError:
        if reported["class"] == EngineMemoryError.__name__:
            return self._out_of_memory(while_, reported["message"])
        kind = getattr(errors, reported["class"], EngineError)
        fields = {name: reported[name] for name in ("message", "where", "help")}
        error: OnnxPassesError = kind(**fields)
        return error

    def _out_of_memory(self, while_: str, detail: str) -> EngineMemoryError:
        limit = self.home.memory_limit
        whose = "memory" if limit is None else f"its {_size(limit)} of memory"
        detail = f": {detail}" if detail else ""
        return EngineMemoryError(
            f"{self.home.engine} ran out of {whose} while {while_}{detail}",
            help="raise the engine's memory_limit, or use a smaller batch",
        )

    def _death(self, while_: str) -> EngineError:
        """Say what the process died of."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GOODBYE_SECONDS)
        code, tail = self._process.poll(), self._tail()
        if code == -signal.SIGABRT and self.home.memory_limit and ("bad_alloc" in tail):
            return self._out_of_memory(while_, "its allocator gave up")
        if code is None or code >= 0:
            how = "closed its connection" if code is None else f"ended with exit code {code}"
            return EngineCrashedError(
                f"{self.home.engine} {how} while {while_}{tail}",
                help="the engine, or a module of it, ends the process that it runs in",
            )
        name = signal.Signals(-code).name
        help_ = "a fault of the engine: report it to its makers, with the model and the inputs"
        if name == "SIGKILL":
            help_ = "the system ends processes when memory runs out: set memory_limit"
        elif self.home.memory_limit:
            help_ += (
                f"; or it does not survive a memory_limit of {_size(self.home.memory_limit)}"
            )
        return EngineCrashedError(
            f"{self.home.engine} crashed with {name} while {while_}{tail}", help=help_
        )

    def _tail(self) -> str:
        end = os.fstat(self._log).st_size
        start = max(end - _TAIL_BYTES, 0)
        text = os.pread(self._log, _TAIL_BYTES, start).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
        return f"; its last output: {' / '.join(lines)}" if lines else ""


def _end(
    owner: int, process: subprocess.Popen[bytes], lifeline: int, channel: Channel
) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner has no say
    kill(process)
    os.close(lifeline)
    channel.close()


def _size(count: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} bytes"


_children: dict[tuple[int, ChildSpec], Child] = {}
_children_lock = threading.Lock()


def child_of(home: ChildSpec) -> Child:
    """Return a living child of this process; a new one where there is none."""
    with _children_lock:
        key = (os.getpid(), home)
        child = _children.get(key)
        if child is None or not child.alive:
            child = _children[key] = Child(home)
        return child


@atexit.register
def end_children() -> None:
    """End all children of this process; the next check starts new ones."""
    with _children_lock:
        for key in [key for key in _children if key[0] == os.getpid()]:
            _children.pop(key).end()


TIME_LIMIT = 600.0
"""Seconds that one prepare or run may take, where a pipeline file does not say."""

LEAST_MEMORY = 512 << 20
"""Least limit of memory: Python and the libraries of an engine take a third of it."""

_LIMITS = ("time_limit", "memory_limit")

_store = WeightStore()
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ChildLimits:
    """What an engine in a child process may use.

    Seconds for one prepare or run, and bytes of private memory; None for no limit.
    """

    time_limit: float | None = TIME_LIMIT
    memory_limit: int | None = None


@dataclass(frozen=True)
class IsolatedEngine:
    """Run another engine in a child process.

    The child is started by the first ``prepare``, serves further sessions, and is replaced
    when it ends. A crash, a hang or an exhausted memory is an ``EngineError``. Weights reach
    the child through files, inputs and outputs through a socket. ``options`` is JSON,
    from which the child makes the engine.
    """

    engine: Engine
    home: ChildSpec
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

        Raises EngineCrashedError, EngineTimeoutError and EngineMemoryError beside its errors.
        """
        session = IsolatedSession(self, model)
        session.prepare()
        with closing(session):
            yield session


class IsolatedSession:
    """A model made ready in a child process, and again in the next one if that ends."""

    def __init__(self, engine: IsolatedEngine, model: ir.Model) -> None:
        self._engine, self._interface = engine, SessionInterface(model)
        proto, weights = split_for_engine(model, lambda tensor: tensor)
        self._weights = _store.in_files(weights)
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
        message = {
            "do": "prepare",
            "engine": self._engine.home.engine,
            "options": self._engine.options,
            "weights": [place_of(*weight) for weight in self._weights.items()],
        }
        self._ask(child, message, [self._proto], while_="preparing the model")
        self._child = child
        return child

    def _ask(
        self,
        child: Child,
        message: Message,
        payload: Payload = (),
        *,
        while_: str,
    ) -> Message:
        message = {**message, "session": self._number}
        return child.ask(message, payload, while_=while_, seconds=self._engine.time_limit)

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``. Errors are those of ``IsolatedEngine.prepare``."""
        names = self._interface.check(feeds, outputs)
        if self._closed:
            raise EngineError("the session is closed")
        places, pieces = pack(feeds)
        wanted = None if outputs is None else names
        message = {"do": "run", "feeds": places, "outputs": wanted}
        answer = self._ask(self.prepare(), message, pieces, while_="running")
        found = unpack(answer["outputs"], answer["payload"])
        # Beside what was asked for an engine may give what it computed on the way.
        return {name: found[name] for name in names} | found

    def time_runs(self, feeds: Feeds, warm_up: int, iterations: int) -> list[float]:
        """Return the seconds of single runs, measured in the child."""
        self._interface.check(feeds, None)
        places, pieces = pack(feeds)
        message = {"feeds": places, "warm_up": warm_up, "iterations": iterations}
        answer = self._ask(self.prepare(), {"do": "time", **message}, pieces, while_="running")
        found: list[float] = answer["seconds"]
        return found

    def layers(self) -> list[PlainDict]:
        """Return the layers that the engine reports, as plain data; none if it does not."""
        answer = self._ask(self.prepare(), {"do": "layers"}, while_="asked")
        found: list[PlainDict] = answer["layers"]
        return found

    def close(self) -> None:
        """Let the child free the session. If that ends the child, the next one starts anew."""
        child, self._child, self._closed = self._child, None, True
        self._weights = {}
        if child is None or not child.alive:
            return
        try:
            self._ask(child, {"do": "close"}, while_="closing")
        except EngineError:
            child.end()


def split_options(
    name: str, options: Mapping[str, object], *, isolate: bool
) -> tuple[dict[str, object], ChildLimits | None]:
    """Take the options of every engine from those of one.

    Without a child process there are no limits: one in the options is a ConfigError.
    ``isolate`` is the default of that option.
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
    """Return options as JSON; a ConfigError says which has no such form."""
    for key, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{name}.{key} cannot be handed to a child process: {error}",
                help="give text, numbers, booleans, lists or mappings",
            ) from error
    return json.dumps(dict(options))


def call(
    child: Child,
    function: Callable[..., Plain],
    *words: Plain,
    while_: str,
    seconds: float | None,
) -> Plain:
    """Call a function of a module in a child, and return what it returns.

    The function is imported there by name; arguments and result are plain JSON. Raises as
    :meth:`Child.ask`, and each OnnxPassesError of the function.
    """
    name = f"{function.__module__}:{function.__name__}"
    message = {"do": "call", "function": name, "words": list(words)}
    return child.ask(message, while_=while_, seconds=seconds)["value"]
