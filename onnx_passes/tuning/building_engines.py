"""Engines that have to build what is chosen, and measure nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_model
from onnx_passes.runtime.engine_base import Engine, Feeds


class Judges:
    """Asks engines whether they build models.

    Args:
        engines: The engines.
        feeds: Inputs of the original, whose sizes models are built for.
    """

    def __init__(self, engines: Sequence[Engine], feeds: Feeds) -> None:
        self._engines = list(engines)
        self.values: Mapping[str, object] = dict(feeds)
        """Values by name, whose sizes parts are built for."""

    def refusals(self, model: ir.Model) -> dict[str, str]:
        """Return why engines do not build a model, by name of the engine.

        Args:
            model: The original, a part of it, or either in other formats.
        """
        found: dict[str, str] = {}
        fixed = _fix_sizes(model, self.values) if self._engines else model
        for engine in self._engines:
            try:
                with engine.prepare(fixed):
                    pass
            except EngineError as error:
                found[engine.name] = error.message
        return found

    def refuses(self, before: Mapping[str, str], model: ir.Model) -> str | None:
        """Return why an engine does not build a model, in one clause; None if all do.

        Args:
            before: The refusals of the same in float32: such an engine has no say.
            model: The model.
        """
        for name, why in self.refusals(model).items():
            if name not in before:
                return f"{name} refuses it: {why}"[:300]
        return None

    def leave_out(
        self, before: ir.Model, models: dict[str, ir.Model], refused: dict[str, str]
    ) -> None:
        """Leave out what an engine refuses that builds the same in float32.

        Args:
            before: A part in float32.
            models: The part by format; what is refused is removed.
            refused: Why, by format; added to.
        """
        known = self.refusals(before)
        for name, model in list(models.items()):
            why = self.refuses(known, model)
            if why is not None:
                refused[name] = why
                del models[name]


def _fix_sizes(model: ir.Model, values: Mapping[str, object]) -> ir.Model:
    """Return a model whose inputs have sizes: compilers ask for them."""
    copy = copy_model(model)
    for value in copy.graph.inputs:
        known = values.get(str(value.name))
        if known is not None:
            value.shape = ir.Shape(np.asarray(known).shape)
    return copy
