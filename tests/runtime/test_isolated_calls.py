"""Functions called in a child process."""

import os

import pytest

from onnx_passes.errors import ConfigError, EngineCrashedError, EngineTimeoutError
from onnx_passes.runtime.isolated import Child, ChildSpec, call
from tests.tables import each_of


def add(x, y):
    return {"sum": x + y, "process": os.getpid()}


def refuse(what):
    raise ConfigError(f"not {what}", help="try another")


def end():
    os._exit(9)


def hang():
    while True:
        pass


@pytest.fixture
def child():
    made = Child(ChildSpec("reference"))
    yield made
    made.end()


def test_a_child_is_called_again_and_again(child):
    found = [call(child, add, x, 2, while_="adding", seconds=60) for x in (1, 2)]
    assert [one["sum"] for one in found] == [3, 4]
    assert len({one["process"] for one in found} - {os.getpid()}) == 1


def test_what_a_function_raises_is_raised_here(child):
    with pytest.raises(ConfigError, match="not this") as failure:
        call(child, refuse, "this", while_="asking", seconds=60)
    assert failure.value.help == "try another"


@each_of(
    "function, seconds, error, told",
    (end, 60, EngineCrashedError, "reference ended with exit code 9 while it acts"),
    (hang, 0.5, EngineTimeoutError, r"within 0\.5 s while it acts"),
)
def test_a_crash_and_a_hang_are_errors(child, function, seconds, error, told):
    with pytest.raises(error, match=told):
        call(child, function, while_="it acts", seconds=seconds)
