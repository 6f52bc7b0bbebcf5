"""How far a compiler got with a model, where nothing executes what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import onnx_ir as ir

from onnx_passes.errors import (
    EngineBuildError,
    EngineError,
    EngineUnavailableError,
)
from onnx_passes.runtime.base import Engine


class Level(StrEnum):
    """What was seen of a model on an engine, the least first."""

    ABSENT = "absent"
    REJECTED = "rejected"
    PARSED = "parsed"
    BUILT = "built"
    EXECUTED = "executed"

    @property
    def rank(self) -> int:
        """Its place in the order."""
        return list(Level).index(self)


@dataclass(frozen=True)
class Finding:
    """How far a model got.

    Attributes:
        level: The highest level reached.
        reason: Why not further, in the engine's words; empty where nothing failed.
        help: What would help, or None.
    """

    level: Level
    reason: str = ""
    help: str | None = None


def examine(engine: Engine, model: ir.Model) -> Finding:
    """Parse and compile a model; nothing is executed.

    A crash or a hang of an engine in a child process is a finding like any other.

    Raises:
        ConfigError: An option does not fit the engine or the model.
    """
    try:
        with engine.prepare(model):
            return Finding(Level.BUILT)
    except EngineUnavailableError as error:
        return Finding(Level.ABSENT, error.message, error.help)
    except EngineBuildError as error:
        return Finding(Level.PARSED, error.message, error.help)
    except EngineError as error:
        return Finding(Level.REJECTED, error.message, error.help)
