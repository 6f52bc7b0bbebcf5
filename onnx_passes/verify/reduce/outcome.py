"""What a check says of a candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import Choice
from onnx_passes.runtime.engine_base import Feeds

_IDENTITY = (
    '<ir_version: 8, opset_import: ["": 17]> '
    "identity (float[1] x) => (float[1] y) { y = Identity(x) }"
)


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
    def last_words(self) -> str:
        """The last line that the check has printed, as part of a message, if that is text."""
        lines = self.log.decode(errors="replace").strip().splitlines()
        if not lines:
            return ""
        unreadable = lines[-1].count("\N{REPLACEMENT CHARACTER}")
        if 10 * unreadable > len(lines[-1]):
            return "; what it last printed is no text"
        said = "".join(c if c.isprintable() else "?" for c in lines[-1])
        return f"; it last said: {said[:200]}"

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

    @classmethod
    def identity(cls) -> SmallerModel:
        """Return a model that no check should fail."""
        return cls(ir.from_onnx_text(_IDENTITY), dict)

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


@dataclass(frozen=True)
class Reduction:
    """A model made smaller.

    Attributes:
        model: The smallest model that was seen to fail.
        feeds: Values of its inputs; None where one is not known.
        before: Number of nodes of the whole model, constants aside.
        after: Number of nodes left.
        checks: Number of checks that were run.
        replayed: Number of answers that came from a file.
        told: What the check says of the result.
        others: Models of other nodes that fail as well, by themselves.
        good: A model that does not fail, as close in size as one was seen; None without one.
        notes: What else there is to know, a sentence each.
    """

    model: ir.Model
    feeds: Feeds | None
    before: int
    after: int
    checks: int
    replayed: int
    told: str
    good: ir.Model | None = None
    others: tuple[ir.Model, ...] = ()
    notes: tuple[str, ...] = ()
