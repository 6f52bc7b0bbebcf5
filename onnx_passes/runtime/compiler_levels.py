"""How far an engine that compiles got with a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import onnx_ir as ir

from onnx_passes.errors import (
    EngineBuildError,
    EngineError,
    EngineUnavailableError,
)
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, Session

BUILT_ONLY = "built, not executed: "
"""What the error of a run begins with where a model was compiled and cannot be executed."""


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
        outputs: What it gave, by sample; empty where it was not executed.
        log: The last lines that the engine logged where it stopped; None for none.
    """

    level: Level
    reason: str = ""
    help: str | None = None
    outputs: tuple[Outputs, ...] = ()
    log: str | None = None


def examine(engine: Engine, model: ir.Model, samples: Sequence[Feeds] = ()) -> Finding:
    """Parse and compile a model, and execute it on samples.

    A crash or a hang of an engine in a child process is a finding like any other.

    Args:
        engine: The engine.
        model: The model.
        samples: Inputs by name; none for a model that is not to be executed.

    Raises:
        ConfigError: An option does not fit the engine or the model.
    """
    try:
        with engine.prepare(model) as session:
            return _execute(session, samples)
    except EngineUnavailableError as error:
        return Finding(Level.ABSENT, error.message, error.help)
    except EngineBuildError as error:
        return Finding(Level.PARSED, error.message, error.help, log=error.where)
    except EngineError as error:
        return Finding(Level.REJECTED, error.message, error.help, log=error.where)


def _execute(session: Session, samples: Sequence[Feeds]) -> Finding:
    try:
        outputs = tuple(session.run(feeds) for feeds in samples)
    except EngineUnavailableError as error:
        return Finding(Level.BUILT, error.message.removeprefix(BUILT_ONLY), error.help)
    except EngineError as error:
        return Finding(Level.BUILT, f"it does not run: {error.message}", error.help)
    return Finding(Level.EXECUTED if outputs else Level.BUILT, outputs=outputs)
