"""The child process in which an engine runs."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
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
from onnx_passes.plain import Plain
from onnx_passes.runtime.engine_base import Engine, LayeredSession, Session, time_runs
from onnx_passes.runtime.isolated_wire import Channel, Message, Payload, load, pack, unpack

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

    def serve(self) -> None:
        """Answer requests until the parent closes the socket."""
        while True:
            try:
                message, payload = self._channel.receive()
            except EOFError:
                return
            self._channel.send(*self._answer(message, payload))

    def _answer(self, message: Message, payload: memoryview) -> tuple[Message, Payload]:
        try:
            return self._done(message, payload)
        except OnnxPassesError as raised:
            error = raised
        except MemoryError as raised:
            error = EngineMemoryError(str(raised))
        except Exception as raised:
            error = EngineError(f"{type(raised).__name__}: {raised}")
        if self._memory_limit and ALLOCATION_FAILED.search(error.message):
            error = EngineMemoryError(error.message, where=error.where)
        fields = {name: getattr(error, name) for name in ("message", "where", "help")}
        return {"error": {"class": type(error).__name__, **fields}}, ()

    def _done(self, message: Message, payload: memoryview) -> tuple[Message, Payload]:
        answer: Message = {}
        match message["do"]:
            case "start":
                for name in message["modules"]:
                    importlib.import_module(name)
            case "prepare":
                self._prepare(message, payload)
            case "run":
                session = self._session(message)
                outputs = session.run(unpack(message["feeds"], payload), message["outputs"])
                answer["outputs"], pieces = pack(outputs)
                return answer, pieces
            case "time":
                feeds, session = unpack(message["feeds"], payload), self._session(message)
                counts = message["warm_up"], message["iterations"]
                answer["seconds"] = time_runs(session, feeds, *counts)
            case "layers":
                session = self._session(message)
                layers = session.layers() if isinstance(session, LayeredSession) else []
                answer["layers"] = layers
            case "call":
                answer["value"] = _call(message["function"], message["words"])
            case "close" if message["session"] in self._sessions:
                context, _ = self._sessions.pop(message["session"])
                context.__exit__(None, None, None)
        return answer, ()

    def _session(self, message: Message) -> Session:
        return self._sessions[message["session"]][1]

    def _prepare(self, message: Message, payload: memoryview) -> None:
        engine = self._engine(message["engine"], message["options"])
        model = ir.from_proto(onnx.ModelProto.FromString(bytes(payload)))
        for place in message["weights"]:
            model.graph.initializers[place["name"]].const_value = load(place)
        context = engine.prepare(model)
        self._sessions[message["session"]] = (context, context.__enter__())

    def _engine(self, name: str, options: str) -> Engine:
        from onnx_passes.runtime.engines import make_engine

        key = f"{name} {options}"
        if key not in self._engines:
            self._engines[key] = make_engine(name, json.loads(options))
        return self._engines[key]


def _call(function: str, words: list[Plain]) -> Plain:
    """Call a function of this package, by its module and name."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(*words)
