"""What a check says of a candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import onnx
import onnx_ir as ir

from onnx_passes.model.slots import Choice
from onnx_passes.runtime.base import Feeds


class Status(StrEnum):
    """Whether a candidate fails; one that cannot be judged counts as one that does not."""

    BAD = "bad"
    GOOD = "good"
    UNJUDGED = "unjudged"


@dataclass(frozen=True)
class CheckOutcome:
    """What a check says.

    Attributes:
        status: Whether the candidate fails.
        told: Why, in one line.
        log: All that the check printed.
    """

    status: Status
    told: str = ""
    log: bytes = b""

    @property
    def bad(self) -> bool:
        """Whether the candidate fails."""
        return self.status is Status.BAD


class SmallerModel:
    """A smaller model that may still fail."""

    def __init__(
        self,
        model: ir.Model | Callable[[], ir.Model],
        feeds: Callable[[], Feeds | None],
        render: Callable[[Choice], onnx.ModelProto] | None = None,
    ) -> None:
        """Create a candidate.

        Args:
            model: The model, or what makes it.
            feeds: Returns the values of its inputs; None where one is not known.
            render: Makes the protobuf without the model; gets what to write for tensors.
        """
        self._model, self.feeds, self.render = model, feeds, render

    @property
    def model(self) -> ir.Model:
        """The model."""
        if not isinstance(self._model, ir.Model):
            self._model = self._model()
        return self._model


class ModelCheck(Protocol):
    """Decides whether a candidate fails in the way that matters."""

    @property
    def text(self) -> str:
        """What is asked, so that answers are not mixed up with those to other questions."""
        ...

    @property
    def width(self) -> int:
        """How many candidates may be judged at a time."""
        ...

    @property
    def reads_values(self) -> bool:
        """Whether the answer depends on the values of the inputs."""
        ...

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Judge a candidate.

        Args:
            candidate: The model to judge.
            number: Its number in the search.

        Raises:
            OnnxPassesError: The check itself cannot be done.
        """
        ...
