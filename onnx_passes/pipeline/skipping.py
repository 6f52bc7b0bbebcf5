"""Passes that are skipped, because they are known to leave the model unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_passes.configs.resolved import PassStep
from onnx_passes.passes.base import Analysis, Pass, is_shipped
from onnx_passes.passes.roots import Operators, begins_nowhere, operators_of
from onnx_passes.verify.snapshot import Snapshot


@dataclass
class Skipping:
    """Which passes to skip.

    The rounds of a group run dozens of passes, and few of them find anything. A pass that
    depends on the model and its options alone (see ``Pass.repeats_itself``) does nothing if it
    did nothing to the very same model. Nor does it if the model has no operator that its rules
    begin at.
    """

    _model: Snapshot | None = None
    _left: dict[tuple[type[Pass], str], list[str]] = field(default_factory=dict)
    _operators: Operators = frozenset()

    def notes(self, pass_: Pass, step: PassStep, model: Snapshot) -> list[str] | None:
        """Return what a pass would say that has nothing to do; None where it has to run.

        Args:
            pass_: The pass.
            step: The pass with its options, as the pipeline has it.
            model: The model.
        """
        if not pass_.repeats_itself or isinstance(pass_, Analysis):
            return None
        self._look_at(model)
        key = (step.cls, step.text)
        if key in self._left:
            return self._left[key]
        needed = pass_.needed_operators if is_shipped(type(pass_)) else frozenset()
        if needed and not needed & self._operators:
            return []
        return [] if begins_nowhere(pass_, self._operators) else None

    def note(self, step: PassStep, model: Snapshot, notes: list[str]) -> None:
        """Note that a pass left a model alone, and what it said.

        Args:
            step: The pass with its options, as the pipeline has it.
            model: The model.
            notes: What the pass said.
        """
        self._look_at(model)
        self._left[(step.cls, step.text)] = list(notes)

    def _look_at(self, model: Snapshot) -> None:
        if model is not self._model:
            self._model = model
            self._left.clear()
            self._operators = operators_of(model.model)
