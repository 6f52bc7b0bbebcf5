"""Run pairs of small models on ONNX Runtime, in a process that it may end."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    UnsupportedModelError,
)
from onnx_passes.runtime.engine_base import Engine, Session
from onnx_passes.runtime.engines import engine_from_config

Feeds: TypeAlias = Mapping[str, Array]
Result: TypeAlias = "list[Array] | EngineFailure"

_SECONDS = 120.0
_UNKNOWN = ("No Op registered", "is not a registered function/op")
# Its Scan wants shapes that its own inference does not find for every operator.
_LACKS = ("Could not find an impl", "Subgraph must have the shape set")


def engine_name() -> str:
    """Return the name and version of the engine."""
    import onnxruntime

    return f"ONNX Runtime {onnxruntime.__version__}, CPU, no graph optimisation"


@cache
def _engine(*, apart: bool) -> Engine:
    # As in the gate: a weight in a layout of its own has another kernel than a computed one.
    options = {"prepacking": False, "isolate": apart}
    return engine_from_config(
        "onnxruntime", options | ({"time_limit": _SECONDS} if apart else {})
    )


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """Why an engine has no result.

    Attributes:
        message: What the engine says.
        missing: Whether this says nothing about the model: the engine lacks an
            implementation, or was stopped because it took too long or too much memory.
        crashed: Whether the engine ended its process.
    """

    message: str
    missing: bool = False
    crashed: bool = False

    @classmethod
    def of(cls, error: EngineError) -> EngineFailure:
        """Return what an error of the engine means."""
        message, stopped = error.message, (EngineTimeoutError, EngineMemoryError)
        lacks = isinstance(error, UnsupportedModelError) and not any(
            text in message for text in _UNKNOWN
        )
        missing = lacks or isinstance(error, stopped) or any(t in message for t in _LACKS)
        return cls(message[:300], missing, isinstance(error, EngineCrashedError))


class PairRunner:
    """Two models with the same inputs, run side by side without the engine's own rewrites.

    The engine has a process of its own: what crashes it is a failure of one model on one
    sample, and the next one finds another process.
    """

    def __init__(self, models: tuple[ir.Model, ir.Model]) -> None:
        """Prepare the models; sessions are made when they are first run."""
        self._models = models
        self._sessions: list[Session | EngineFailure | None] = [None, None]
        self._open = ExitStack()
        weakref.finalize(self, self._open.close).atexit = False

    def run(self, candidates: Iterable[Feeds]) -> Iterator[tuple[Feeds, Result, Result]]:
        """Yield each of the inputs with what the two models make of it."""
        for feeds in candidates:
            yield feeds, self._run(0, feeds), self._run(1, feeds)

    def _run(self, side: int, feeds: Feeds) -> Result:
        session, model = self._sessions[side], self._models[side]
        if session is None:
            try:
                session = self._open.enter_context(_engine(apart=True).prepare(model))
            except EngineError as error:
                session = EngineFailure.of(error)
            self._sessions[side] = session
        return (
            session if isinstance(session, EngineFailure) else _results(session, model, feeds)
        )


def run_once(model: ir.Model, feeds: Feeds, *, apart: bool = False) -> Result:
    """Run a model, in this process unless ``apart``: an integer division by 0 ends it.

    Args:
        model: The model.
        feeds: Inputs by name.
        apart: Whether it runs in a child process.
    """
    try:
        with _engine(apart=apart).prepare(model) as session:
            return _results(session, model, feeds)
    except EngineError as error:
        return EngineFailure.of(error)


def _results(session: Session, model: ir.Model, feeds: Feeds) -> Result:
    wanted = {str(value.name) for value in model.graph.inputs}
    try:
        found = session.run({k: np.asarray(v) for k, v in feeds.items() if k in wanted})
    except EngineError as error:
        return EngineFailure.of(error)
    return [np.asarray(found[str(value.name)]) for value in model.graph.outputs]
