"""Outputs of choices that were run, from which those of others are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.format_scores import Score

Choice: TypeAlias = tuple[int, ...]
"""Number of the option of each group."""

_MOST = 12
"""Number of choices whose outputs are kept."""


class ChoiceRuns:
    """Outputs of choices on the samples of the scores."""

    def __init__(self) -> None:
        self._known: dict[Choice, Sequence[Outputs]] = {}

    def add(self, choice: Choice, outputs: Sequence[Outputs]) -> None:
        """Keep the outputs of a choice, if there is room.

        Args:
            choice: The choice.
            outputs: Arrays by name, of any shape and type, by sample.
        """
        if len(self._known) < _MOST:
            self._known[choice] = outputs

    def outputs(self, choice: Choice) -> list[Outputs] | None:
        """Return the outputs of a choice; None if they are not known."""
        found = self._known.get(choice)
        return None if found is None else list(found)

    def nearest(self, choice: Choice, start: Choice) -> Choice:
        """Return the choice that was run and differs in the fewest groups.

        Args:
            choice: The choice.
            start: One that counts as run.
        """

        def distance(other: Choice) -> int:
            return sum(a != b for a, b in zip(choice, other, strict=True))

        return min((start, *self._known), key=distance)


def predict(
    outputs: Sequence[Outputs], scores: Sequence[Score], sign: int = 1
) -> list[Outputs]:
    """Return the outputs of a model some of whose groups have other formats.

    To first order, each group moves them as far as it does alone.

    Args:
        outputs: Of the original, by sample.
        scores: One for each group that has another format.
        sign: 1 to move the outputs, -1 to move them back.
    """
    found: list[Outputs] = [dict(sample) for sample in outputs]
    for score in scores:
        for sample, effect in zip(found, score.effect, strict=True):
            for name, shift in effect.items():
                value = sample[name]
                assert isinstance(value, np.ndarray), "only tensors move"
                # Of scalars, numpy makes no array.
                sample[name] = np.asarray(value + sign * shift)
    return found


def are_alike(outputs: Sequence[Outputs], others: Sequence[Outputs]) -> bool:
    """Whether outputs are finite numbers of the same shapes as others.

    Args:
        outputs: Arrays of any shape and type by name, for each sample.
        others: What they are held against.
    """
    for ours, theirs in zip(outputs, others, strict=True):
        for name, value in theirs.items():
            found = ours.get(name)
            if not isinstance(value, np.ndarray) or not isinstance(found, np.ndarray):
                return False
            if found.shape != value.shape or found.dtype != value.dtype:
                return False
            if found.dtype.kind == "f" and not np.isfinite(found.astype(np.float32)).all():
                return False
    return True
