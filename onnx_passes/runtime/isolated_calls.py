"""Functions of this package, called in a child process: what they crash is not this one."""

from __future__ import annotations

from collections.abc import Callable

from onnx_passes.plain import Plain
from onnx_passes.runtime.isolated_process import Child, Home


def call(
    child: Child,
    function: Callable[..., Plain],
    *words: Plain,
    while_: str,
    seconds: float | None,
) -> Plain:
    """Call a function of a module in a child, and return what it returns.

    Args:
        child: The child.
        function: The function; it is imported there by its name.
        words: Its arguments, which JSON can hold, as it can what is returned.
        while_: What it is about, for messages.
        seconds: How long it may take; None for no limit.

    Raises:
        EngineCrashedError: The process ended.
        EngineTimeoutError: The time is up, and the process was killed.
        OnnxPassesError: What the function raised.
    """
    name = f"{function.__module__}:{function.__name__}"
    message = {"do": "call", "function": name, "words": list(words)}
    return child.ask(message, while_=while_, seconds=seconds)["value"]


def call_alone(
    engine: str,
    function: Callable[..., Plain],
    *words: Plain,
    while_: str,
    seconds: float | None,
) -> Plain:
    """Call a function in a child of its own, which ends with it; see :func:`call`.

    Args:
        engine: Registered name of the engine that it asks.
        function: The function.
        words: Its arguments.
        while_: What it is about, for messages.
        seconds: How long it may take; None for no limit.
    """
    child = Child(Home(engine))
    try:
        return call(child, function, *words, while_=while_, seconds=seconds)
    finally:
        child.end()
