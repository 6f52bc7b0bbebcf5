"""What was judged so far: nothing is judged twice, and all of it can be replayed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from onnx_passes.errors import UsageError
from onnx_passes.model.save import pending
from onnx_passes.verify.reduce.outcome import CheckOutcome, ModelCheck, SmallerModel, Status
from onnx_passes.verify.reduce.store import writing

_VERSION = 1


@dataclass(frozen=True)
class Question:
    """A candidate before it is built.

    Attributes:
        key: A hash of it.
        nodes: How many nodes it has.
        build: Builds it; None where that is not possible.
    """

    key: str
    nodes: int
    build: Callable[[], SmallerModel | None]


@dataclass(frozen=True)
class Trial:
    """A candidate that was judged.

    Attributes:
        number: Its place in the order, from 1.
        nodes: How many nodes it has.
        outcome: What the check says.
        seconds: Wall time of the check.
        replayed: Whether the answer came from a file.
        candidate: The candidate; None where it could not be built, or was replayed.
    """

    number: int
    nodes: int
    outcome: CheckOutcome
    seconds: float
    replayed: bool = False
    candidate: SmallerModel | None = None


@dataclass
class Ledger:
    """Judges candidates, and remembers the answers.

    Attributes:
        check: What judges them.
        tell: Called after each, in the order of their numbers.
        replay: File that answers are read from, if it is there, and written to.
        about: What the answers depend on besides the check: a hash of the model and of how it
            is taken apart.
    """

    check: ModelCheck
    tell: Callable[[Trial], None] = lambda trial: None
    replay: Path | None = None
    about: str = ""
    trials: list[Trial] = field(default_factory=list)
    seen: dict[str, CheckOutcome] = field(default_factory=dict)
    _known: dict[str, CheckOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the answers that are there.

        Raises:
            UsageError: They do not answer this question.
        """
        if self.replay is not None and self.replay.exists():
            self._known = self._read(self.replay)

    @property
    def run(self) -> int:
        """How many checks were run."""
        return sum(not trial.replayed for trial in self.trials)

    def ask(self, questions: Sequence[Question]) -> list[CheckOutcome]:
        """Judge candidates, those that were seen before excepted."""
        new = {q.key: q for q in questions if q.key not in self.seen}
        fresh = [q for q in new.values() if q.key not in self._known]
        for question in new.values():
            if question.key in self._known:
                self._note(question, self._known[question.key], 0.0, None, replayed=True)
        first = len(self.trials) + 1
        numbered = list(enumerate(fresh, first))
        if len(fresh) > 1 and self.check.width > 1:
            with ThreadPoolExecutor(self.check.width) as pool:
                answers = list(pool.map(self._judged, numbered))
        else:
            answers = [self._judged(one) for one in numbered]
        for question, (outcome, seconds, candidate) in zip(fresh, answers, strict=True):
            self._note(question, outcome, seconds, candidate, replayed=False)
        if fresh and self.replay is not None:
            self._write(self.replay)
        return [self.seen[q.key] for q in questions]

    def _judged(
        self, one: tuple[int, Question]
    ) -> tuple[CheckOutcome, float, SmallerModel | None]:
        number, question = one
        candidate = question.build()
        if candidate is None:
            return (
                CheckOutcome(Status.UNJUDGED, "the type of an input is not known"),
                0.0,
                None,
            )
        start = time.perf_counter()
        outcome = self.check.judge(candidate, number)
        return outcome, time.perf_counter() - start, candidate

    def _note(
        self,
        question: Question,
        outcome: CheckOutcome,
        seconds: float,
        candidate: SmallerModel | None,
        *,
        replayed: bool,
    ) -> None:
        self.seen[question.key] = outcome
        number = len(self.trials) + 1
        trial = Trial(number, question.nodes, outcome, seconds, replayed, candidate)
        self.tell(trial)
        # Models of all trials together may be large.
        self.trials.append(Trial(number, question.nodes, outcome, seconds, replayed))

    def _read(self, path: Path) -> dict[str, CheckOutcome]:
        help_ = "name another file: --replay reads it where it is there, and writes it"
        try:
            told = json.loads(path.read_text())
            known = {
                str(key): CheckOutcome(Status(status), str(text))
                for key, (status, text) in told["answers"].items()
            }
            asked = told["version"], told["check"], told["about"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"--replay: the file holds no answers that could be replayed: {error}",
                where=str(path),
                help=help_,
            ) from error
        if asked != (_VERSION, self.check.text, self.about):
            what = "check" if asked[1] != self.check.text else "model, or other options"
            raise UsageError(
                f"--replay: the answers are to another {what}", where=str(path), help=help_
            )
        return known

    def _write(self, path: Path) -> None:
        answers = {
            key: (o.status.value, o.told) for key, o in {**self._known, **self.seen}.items()
        }
        told = {
            "version": _VERSION,
            "check": self.check.text,
            "about": self.about,
            "answers": answers,
        }
        with writing(path, "--replay"), pending(path) as file:
            file.write(json.dumps(told, indent=1).encode())
            file.publish(path)
