"""The child process in which an engine runs."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import mmap
import os
import re
import resource
import select
import signal
import socket
import sys
import threading
from contextlib import AbstractContextManager

import onnx
import onnx_ir as ir

from onnx_passes.errors import EngineError, EngineMemoryError, OnnxPassesError
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.runtime.engine_base import Engine, LayeredSession, Session, time_runs
from onnx_passes.runtime.isolated_wire import Channel, Message, SharedBuffer, load

ALLOCATION_FAILED = re.compile(
    r"bad_alloc|[Ff]ailed to allocate|[Cc]annot allocate memory|[Oo]ut of memory"
)
"""How native code says that there is no more memory."""


def main() -> None:
    """Serve one parent until it is gone.

    The arguments are the socket, a pipe that nobody writes to and that ends with the parent,
    and a limit of memory in bytes, 0 for none.
    """
    connection, lifeline, memory_limit = (int(word) for word in sys.argv[1:4])
    _end_with_parent(lifeline)
    _limit(memory_limit)
    _Server(Channel(socket.socket(fileno=connection)), memory_limit).serve()


def _end_with_parent(lifeline: int) -> None:
    """Let the system kill this process, and its own children, when the pipe ends."""
    if hasattr(fcntl, "F_SETSIG"):
        # An engine that hangs may hold Python's lock: no thread would run.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
        if select.select([lifeline], [], [], 0)[0]:  # it ended before
            os._exit(1)
        return

    def watch() -> None:
        os.read(lifeline, 1)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        # Private memory that can be written to: mapped weights do not count, nor do the
        # addresses that allocators set aside for each thread.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # rather this process than its parent


class _Server:
    def __init__(self, channel: Channel, memory_limit: int) -> None:
        self._channel, self._memory_limit = channel, memory_limit
        self._engines: dict[str, Engine] = {}
        self._sessions: dict[int, tuple[AbstractContextManager[Session], Session]] = {}
        self._maps: dict[int, mmap.mmap] = {}
        self._feeds: SharedBuffer | None = None
        self._outputs: SharedBuffer | None = None

    def serve(self) -> None:
        """Answer requests until the parent closes the socket."""
        while True:
            try:
                message, payload, files = self._channel.receive()
            except EOFError:
                return
            self._channel.send(self._answer(message, payload, files))

    def _answer(self, message: Message, payload: bytes, files: list[int]) -> Message:
        try:
            match message["do"]:
                case "start":
                    self._start(message, files)
                case "files":
                    self._map(message["files"], files)
                case "prepare":
                    self._prepare(message, payload, files)
                case "run":
                    return {"outputs": self._run(message)}
                case "time":
                    return {"seconds": self._time(message)}
                case "layers":
                    return {"layers": self._layers(message["session"])}
                case "call":
                    return {"value": _call(message["function"], message["words"])}
                case "close":
                    self._close(message["session"])
        except MemoryError as error:
            return {"error": _error_message(EngineMemoryError(str(error)))}
        except OnnxPassesError as error:
            if self._memory_limit and ALLOCATION_FAILED.search(error.message):
                return {
                    "error": _error_message(
                        EngineMemoryError(error.message, where=error.where)
                    )
                }
            return {"error": _error_message(error)}
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if self._memory_limit and ALLOCATION_FAILED.search(text):
                return {"error": _error_message(EngineMemoryError(text))}
            return {"error": _error_message(EngineError(text))}
        return {}

    def _start(self, message: Message, files: list[int]) -> None:
        self._feeds, self._outputs = (SharedBuffer(file) for file in files)
        for name in message["modules"]:
            importlib.import_module(name)

    def _prepare(self, message: Message, payload: bytes, files: list[int]) -> None:
        for number in message["forget"]:
            self._maps.pop(number, None)
        self._map(message["files"], files)
        engine = self._engine(message["engine"], message["options"])
        model = ir.from_proto(onnx.ModelProto.FromString(payload))
        for place in message["weights"]:
            value = model.graph.initializers[place["name"]]
            value.const_value = load(place, self._maps)
        context = engine.prepare(model)
        self._sessions[message["session"]] = (context, context.__enter__())

    def _map(self, numbers: list[int], files: list[int]) -> None:
        for number, file in zip(numbers, files, strict=True):
            self._maps[number] = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
            os.close(file)

    def _engine(self, name: str, options: str) -> Engine:
        from onnx_passes.runtime.engines import make_engine

        key = f"{name} {options}"
        if key not in self._engines:
            self._engines[key] = make_engine(name, json.loads(options))
        return self._engines[key]

    def _run(self, message: Message) -> Message:
        assert self._feeds is not None
        assert self._outputs is not None
        _, session = self._sessions[message["session"]]
        outputs = session.run(self._feeds.get(message["feeds"]), message["outputs"])
        return self._outputs.put(outputs)

    def _time(self, message: Message) -> list[float]:
        assert self._feeds is not None
        _, session = self._sessions[message["session"]]
        feeds = self._feeds.get(message["feeds"])
        return time_runs(session, feeds, message["warm_up"], message["iterations"])

    def _layers(self, number: int) -> list[PlainDict]:
        session = self._sessions[number][1]
        return session.layers() if isinstance(session, LayeredSession) else []

    def _close(self, number: int) -> None:
        if number in self._sessions:
            context, _ = self._sessions.pop(number)
            context.__exit__(None, None, None)


def _call(function: str, words: list[Plain]) -> Plain:
    """Call a function of this package, by its module and name."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(*words)


def _error_message(error: OnnxPassesError) -> Message:
    return {
        "class": type(error).__name__,
        "message": error.message,
        "where": error.where,
        "help": error.help,
    }
