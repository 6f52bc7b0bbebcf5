"""Python children that are forked from one that has imported the package already.

The program, engines and rules that run apart each begin with a second of imports. In tests
:class:`subprocess.Popen` lets a server do that once: it forks a process for each child, which
becomes a child of the test's process. Scripts, code and shells start an interpreter as ever,
and so do all children of a test that is marked ``cold``.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
from functools import cache
from typing import Any

import numpy as np

START_ANEW = subprocess.Popen
MODULES = ("onnx_passes", "onnx_passes.certifying.certification")
ENGINE = "onnx_passes.runtime.isolated_child"
ANY_VALUE = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
"""Variables of Python that a running interpreter can follow, or need not."""
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux


def served(words: object) -> bool:
    """Whether a command is one that the server knows to run."""
    if not isinstance(words, list) or len(words) < 3 or words[0] != sys.executable:
        return False
    if words[1:3] == ["-P", "-c"]:
        return ENGINE in words[3]
    return words[1] == "-m" and words[2] in MODULES


def _fixed(environment: dict[str, str]) -> dict[str, str]:
    """Return what Python and libraries read once, as they start."""
    read = ("PYTHON", "LC_", "LANG", "LD_", "OMP_")
    fixed = {k: v for k, v in environment.items() if k.startswith(read) and k not in ANY_VALUE}
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    found = [f for f in folders if os.path.isfile(os.path.join(f, "sitecustomize.py"))]
    return fixed | {"sitecustomize": os.pathsep.join(found)}


class Server:
    """The process that forks, as its client sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prctl = ctypes.CDLL(None).prctl
        self._socket, theirs = socket.socketpair()
        self._process = START_ANEW(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def fork(self, request: dict[str, object], files: list[int]) -> int:
        """Start a child of this process; return its number."""
        data = json.dumps(request).encode()
        with self._lock:
            self._prctl(_SUBREAPER, 1, 0, 0, 0)  # the child comes to us when its parent ends
            try:
                head = struct.pack("<I", len(data))
                socket.send_fds(self._socket, [head], files)
                self._socket.sendall(data)
                (number,) = struct.unpack("<i", _read(self._socket, 4))
            finally:
                self._prctl(_SUBREAPER, 0, 0, 0, 0)
        if number == 0:
            raise OSError("a warm child did not start")
        return int(number)


def _read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise EOFError("the server of warm children has ended")
        data += part
    return data


_server = cache(Server)
_ONE_SERVER = threading.Lock()
_ARGUMENTS = tuple(inspect.signature(START_ANEW._execute_child).parameters)[1:]
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_FIXED = _fixed(dict(os.environ))


class WarmPopen(subprocess.Popen):
    """A process that the server forks, if it knows the command."""

    def _execute_child(self, *values):
        given = dict(zip(_ARGUMENTS, values, strict=True))
        environment = dict(os.environ if given["env"] is None else given["env"])
        otherwise = any(given[name] for name in ("shell", "preexec_fn", "executable"))
        if otherwise or not served(given["args"]) or _fixed(environment) != _FIXED:
            super()._execute_child(*values)
            return
        streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [n if file == -1 else file for n, file in enumerate(streams)]
        request = {
            "words": list(map(str, given["args"])),
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "env": environment,
            "numbers": [0, 1, 2, *given["pass_fds"]],
            "session": given["start_new_session"],
        }
        with _ONE_SERVER:  # threads may start children at once
            server = _server()
        self.pid = server.fork(request, [*files, *given["pass_fds"]])
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))


def _serve(stream: socket.socket) -> dict[str, Any]:
    """Return a request, in the process that is to do what it says."""
    while True:
        head, files, _, _ = socket.recv_fds(stream, 4, 16)
        if len(head) < 4:
            os._exit(0)  # the test's process has ended
        request = json.loads(_read(stream, *struct.unpack("<I", head)))
        ready, written = os.pipe()
        middle = os.fork()
        if middle == 0:
            if os.fork():
                os._exit(0)  # which gives the child to the test's process
            stream.close()
            os.close(ready)
            _become(request, files, written)
            return request
        for file in (*files, written):
            os.close(file)
        os.waitpid(middle, 0)
        stream.sendall(os.read(ready, 4) or bytes(4))
        os.close(ready)


def _become(request: dict[str, Any], files: list[int], written: int) -> None:
    """Take over the files and the settings of a child, and report its number."""
    high = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 500) for file in (written, *files)]
    for file in (written, *files):
        os.close(file)
    for file, number in zip(high[1:], request["numbers"], strict=True):
        os.dup2(file, number)
        os.close(file)
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = request["env"]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(request["cwd"])
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    first = [request["cwd"], *filter(None, given)]
    sys.path[:] = [*first, *(path for path in sys.path[1:] if path not in own)]
    importlib.invalidate_caches()
    np.random.seed()
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        size = 0 if unbuffered and number else -1
        raw = open(number, "wb" if number else "rb", size, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(
            raw,
            before.encoding,
            before.errors,
            line_buffering=number == 2 or raw.isatty(),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.write(high[0], struct.pack("<i", os.getpid()))
    os.close(high[0])


def main() -> None:
    """Serve, and in each process that is forked do what was asked for."""
    from onnx_passes.passes import registry

    registry.discover()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    words = _serve(socket.socket(fileno=int(sys.argv[1])))["words"]
    if words[1] == "-m":
        sys.argv = words[2:]
        sys.modules.pop(words[2] if words[2] != "onnx_passes" else "", None)
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words[3:]
        exec(words[3], {"__name__": "__main__"})


if __name__ == "__main__":
    main()
