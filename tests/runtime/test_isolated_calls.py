"""Functions called in a child process."""

import os

import pytest

from onnx_passes.errors import ConfigError, EngineCrashedError, EngineTimeoutError
from onnx_passes.runtime.isolated import Child, ChildSpec, call, call_alone


def add(x, y):
    return {"sum": x + y, "process": os.getpid()}


def refuse(what):
    raise ConfigError(f"not {what}", help="try another")


def end():
    os._exit(9)


def hang():
    while True:
        pass


def test_a_child_is_called_again_and_again():
    child = Child(ChildSpec("reference"))
    try:
        found = [call(child, add, x, 2, while_="adding", seconds=60) for x in (1, 2)]
    finally:
        child.end()
    assert [one["sum"] for one in found] == [3, 4]
    assert len({one["process"] for one in found} - {os.getpid()}) == 1


def test_what_a_function_raises_is_raised_here():
    with pytest.raises(ConfigError, match="not this") as failure:
        call_alone("reference", refuse, "this", while_="asking", seconds=60)
    assert failure.value.help == "try another"


def test_a_crash_and_a_hang_are_errors():
    with pytest.raises(EngineCrashedError, match="reference ended with exit code 9 while it"):
        call_alone("reference", end, while_="it ends", seconds=60)
    with pytest.raises(EngineTimeoutError, match=r"within 0\.5 s while it hangs"):
        call_alone("reference", hang, while_="it hangs", seconds=0.5)
