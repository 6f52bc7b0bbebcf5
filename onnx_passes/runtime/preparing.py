"""An engine that changes each model before it runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.runtime.base import Engine, Session


@dataclass(frozen=True)
class PreparingEngine:
    """Run on another engine what is made of a model.

    Attributes:
        engine: The engine.
        change: Returns the model to run; it has the same inputs and outputs.
    """

    engine: Engine
    change: Callable[[ir.Model], ir.Model]

    @property
    def name(self) -> str:
        """The name of the engine."""
        return self.engine.name

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return what the engine says of itself."""
        return self.engine.describe()

    def prepare(self, model: ir.Model) -> AbstractContextManager[Session]:
        """Make the changed model ready; see ``Engine.prepare``."""
        return self.engine.prepare(self.change(model))
