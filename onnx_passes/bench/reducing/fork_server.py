"""Runs a Python script many times, from one process that has imported what it imports.

This is a program of its own, for the interpreter of the script, which may be older and need
not have this package. It reads requests, one JSON object a line, from standard input, and
answers on what was standard output: ``ID pid N`` when a run has begun, ``ID code N`` when it
has ended. Each run is a process of its own, forked before any of the script is executed.
"""

from __future__ import annotations

import ast
import atexit
import importlib
import json
import os
import runpy
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from onnx_passes.plain import PlainDict

# They start threads or open devices as they are imported, which do not outlive a fork.
UNSHARED = {
    *("cupy", "jax", "jaxlib", "onnxruntime", "openvino", "pycuda"),
    *("tensorflow", "tensorrt", "torch"),
}


def main() -> None:
    """Serve until standard input ends, or run the script in a process that was forked."""
    script, *left_out = sys.argv[1:]
    UNSHARED.update(left_out)
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    answers = os.dup(1)
    _point(1, os.devnull)  # what modules print as they are imported is not an answer
    _import(_imported(script), answers)
    request = _serve(answers)
    if request is None:
        _reap(0)
        os._exit(0)  # there is nothing to tidy up
    os.close(answers)
    _point(1, request["out"])
    _point(2, request["err"])
    if request["modules"]:
        atexit.register(_note, request["modules"])
    sys.argv = [script, *request["arguments"]]
    runpy.run_path(script, run_name="__main__")


def _serve(answers: int) -> PlainDict | None:
    """Return the request in a process that is to run it; None where there are no more."""
    for line in _lines():
        request: PlainDict = json.loads(line)
        if "import" in request:
            with suppress(OSError, ValueError), open(request["import"]) as stream:
                _import(json.load(stream), answers)
        elif os.fork() == 0:
            # This one waits for that which runs the script, so that the server need not.
            _point(0, os.devnull)
            worker = os.fork()
            if worker == 0:
                os.setpgid(0, 0)
                return request
            with suppress(OSError):  # it may have done so itself
                os.setpgid(worker, worker)
            os.write(answers, b"%d pid %d\n" % (request["id"], worker))
            status = os.waitpid(worker, 0)[1]
            signalled = os.WIFSIGNALED(status)
            code = -os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
            os.write(answers, b"%d code %d\n" % (request["id"], code))
            os._exit(0)
        _reap(os.WNOHANG)
    return None


def _reap(options: int) -> None:
    """Let processes go that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _lines() -> Iterator[bytes]:
    """Yield lines, read past ``sys.stdin``, which the script gets as new."""
    line = b""
    while byte := os.read(0, 1):  # what follows a line stays there if the program begins anew
        line += byte
        if byte == b"\n":
            yield line
            line = b""


def _point(number: int, path: str) -> None:
    """Let a stream read from, or write to, a file."""
    handle = os.open(path, os.O_RDWR)
    os.dup2(handle, number)
    os.close(handle)


def _imported(script: str) -> list[str]:
    """Return the modules that a script imports by name, wherever it does so."""
    names = []
    with suppress(SyntaxError, ValueError, OSError), open(script, "rb") as stream:
        for node in ast.walk(ast.parse(stream.read())):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
    return names


def _import(names: Iterable[str], answers: int) -> None:
    """Import modules; if one imports what cannot be shared, begin anew without it."""
    for name in names:
        package = name.partition(".")[0]
        if package in UNSHARED:
            continue
        # What goes wrong here goes wrong in the script, where it is reported.
        with suppress(Exception):
            importlib.import_module(name)
        if not UNSHARED.isdisjoint(sys.modules):
            os.dup2(answers, 1)
            os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:], package])


def _note(path: str) -> None:
    """Write down what was imported, in that order."""
    names = [name for name in list(sys.modules) if name != "__main__"]
    with open(path, "w") as stream:
        json.dump(names, stream)


if __name__ == "__main__":
    main()
