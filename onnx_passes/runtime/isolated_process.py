"""Child processes of this one in which engines run: started, asked, and ended."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

from onnx_passes import errors
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    EngineUnavailableError,
    OnnxPassesError,
)
from onnx_passes.runtime.isolated_weights import Manifest
from onnx_passes.runtime.isolated_wire import Area, Channel, Message, nameless_file
from onnx_passes.runtime.processes import kill, start
from onnx_passes.runtime.user_output import VARIABLE, own_stderr

_MAIN = (
    "import sys; sys.path[:] = sys.argv[4:]; "
    "from onnx_passes.runtime.isolated_child import main; main()"
)
_START_SECONDS = 120.0
_GOODBYE_SECONDS = 5.0
_TAIL_BYTES, _TAIL_LINES = 2000, 4


@dataclass(frozen=True)
class Home:
    """What a child must find; engines that agree in it share one.

    Attributes:
        engine: Registered name of the engine.
        modules: The modules to import first, which register it.
        folders: Where modules are looked for, before the path of this process.
        memory_limit: Bytes of private memory that it may use; None for no limit.
    """

    engine: str
    modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    memory_limit: int | None = None


class Child:
    """A child process.

    Attributes:
        known: Numbers of the weight files that it has mapped.
        feeds: Where its inputs go.
        outputs: Where its outputs come from.
        lock: Held by the thread whose inputs and outputs these are.
    """

    def __init__(self, home: Home) -> None:
        if os.name != "posix":
            raise EngineUnavailableError("isolate: true needs Linux or macOS")
        if home.memory_limit is not None and sys.platform != "linux":
            raise EngineUnavailableError("memory_limit needs Linux")
        self.home, self.known = home, set[int]()
        self.feeds, self.outputs = Area(), Area()
        self.lock = threading.RLock()
        self._log = nameless_file()
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
        files = (self.feeds.descriptor, self.outputs.descriptor)
        message = {"do": "start", "modules": list(home.modules)}
        self.ask(message, files=files, while_="starting", seconds=_START_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._closer.alive and self._process.poll() is None

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self._closer()

    def prepare(
        self, message: Message, payload: bytes, manifest: Manifest, seconds: float | None
    ) -> None:
        """Have it make a model ready; files are sent that it does not know yet.

        Args:
            message: What the child is asked to do.
            payload: Bytes that go with it.
            manifest: Files of weights that the model reads.
            seconds: Time limit; None for none.

        Raises:
            EngineError: As :meth:`ask`.
        """
        new = [number for number in manifest.files if number not in self.known]
        # One message takes few files, and a run of region checks makes many.
        while len(new) > 1:
            self._send_files({"do": "files"}, [new.pop()], manifest, seconds)
        self._send_files(message, new, manifest, seconds, payload)

    def _send_files(
        self,
        message: Message,
        numbers: list[int],
        manifest: Manifest,
        seconds: float | None,
        payload: bytes = b"",
    ) -> None:
        descriptors = tuple(manifest.files[number].descriptor for number in numbers)
        message = {**message, "files": numbers}
        self.ask(message, payload, descriptors, while_="preparing the model", seconds=seconds)
        self.known.update(numbers)

    def ask(
        self,
        message: Message,
        payload: bytes = b"",
        files: tuple[int, ...] = (),
        *,
        while_: str,
        seconds: float | None,
    ) -> Message:
        """Send a request and return the answer.

        Args:
            message: The request.
            payload: Bytes that go with it.
            files: Files that go with it.
            while_: What it is about, for messages.
            seconds: How long it may take; None for no limit.

        Raises:
            EngineCrashedError: The process ended.
            EngineTimeoutError: The time is up, and the process was killed.
            EngineMemoryError: The engine ran out of the memory that it may have.
            EngineError: What the engine raised.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        with self.lock, self._kill_on_errors():
            self._shorten_log()
            try:
                self._channel.send(message, payload, files, deadline)
                answer, _, _ = self._channel.receive(deadline)
            except TimeoutError as error:
                raise EngineTimeoutError(
                    f"{self.home.engine} did not end within {seconds:g} s while {while_}"
                    f"{self._tail()}",
                    help="raise the engine's time_limit if it should have",
                ) from error
            except (EOFError, OSError) as error:
                raise self._death(while_) from error
            if "error" not in answer:
                return answer
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

    def _shorten_log(self) -> None:
        # What it printed before is not part of what happens next.
        with contextlib.suppress(OSError):
            os.ftruncate(self._log, 0)


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


_children: dict[tuple[int, Home], Child] = {}
_children_lock = threading.Lock()


def child_of(home: Home) -> Child:
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
