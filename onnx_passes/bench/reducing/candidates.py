"""Candidates of a reduction: what a check says of them, their files, and their record.

No candidate is judged twice. The ledger can replay all of them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

import onnx_ir as ir

from onnx_passes.errors import ModelError, UsageError
from onnx_passes.model.formats import inlined
from onnx_passes.model.save import pending, write_data, writing
from onnx_passes.model.walk import Choice, all_tensors, tensors_replaced
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
    """What a check says of a candidate; ``log`` is all that it printed."""

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
        self, model: ir.Model | Callable[[], ir.Model], feeds: Callable[[], Feeds | None]
    ) -> None:
        """Create a candidate; ``feeds`` returns None if an input has no known value."""
        self._model, self.feeds = model, feeds

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
    def reads_values(self) -> bool:
        """Whether the answer depends on the values of the inputs."""
        ...

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Judge a candidate.

        ``number`` counts candidates of the search. OnnxPassesError if the check itself cannot
        be done.
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
    notes: tuple[str, ...] = ()


_INLINE = 16 << 20  # bytes of weights; a file of these is written faster than a check starts


@dataclass
class CandidateStore:
    """Writes candidates of one model.

    ``folder`` is where candidates go; None for the system's temporary folder, or that of the
    model's external data, so that those can be referred to. Up to ``inline`` bytes, weights
    are written into each candidate. ``keep`` leaves a data file when all is done.
    """

    model: ir.Model
    folder: Path | None = None
    inline: int = _INLINE
    keep: bool = False
    _scratch: Path | None = field(default=None, init=False)
    _data: Path | None = field(default=None, init=False)
    _at: Path | None = field(default=None, init=False)
    _choose: Choice = field(default_factory=lambda: inlined, init=False)

    def __enter__(self) -> Self:
        """Make the place ready, and write the weights there if they have to be."""
        tensors = {id(t): t for t in all_tensors(self.model) if t.dtype != ir.DataType.STRING}
        beside = _folder(tensors.values())
        if sum(t.nbytes for t in tensors.values()) <= self.inline:
            self._at = self.folder or self._temporary()
        elif beside and (self.folder or beside).resolve() == beside and _writable(beside):
            self._at, self._choose = beside, _by_reference
        else:
            self._at = self.folder or self._temporary()
            stem = self._at / ("weights" if self.keep else f".{secrets.token_hex(6)}")
            with (
                writing(self._at, _WHAT, _ROOM),
                write_data(self.model, stem, 1024) as (data, choose),
            ):
                if data is not None:
                    data.publish()
                    self._data = data.path
                self._choose = choose
        return self

    def __exit__(self, *error: object) -> None:
        """Take everything away again."""
        if self._data is not None and not self.keep:
            self._data.unlink(missing_ok=True)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def write(self, model: ir.Model | SmallerModel, path: Path) -> None:
        """Write a candidate; raise ModelError if that fails."""
        with writing(path, _WHAT, _ROOM):
            try:
                whole = model.model if isinstance(model, SmallerModel) else model
                with tensors_replaced(whole, self._choose):
                    content = ir.to_proto(whole).SerializeToString(deterministic=True)
            except (ir.serde.SerdeError, ValueError, TypeError) as error:
                raise ModelError(f"a candidate cannot be written: {error}") from error
            path.write_bytes(content)

    @contextmanager
    def file(self, model: ir.Model | SmallerModel) -> Iterator[Path]:
        """Write a candidate to a file that is there for a while."""
        assert self._at is not None
        path = self._at / f".onnx-passes-{secrets.token_hex(6)}.onnx"
        try:
            self.write(model, path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _temporary(self) -> Path:
        self._scratch = Path(tempfile.mkdtemp(prefix="onnx-passes-"))
        return self._scratch


def _folder(tensors: Iterable[ir.TensorProtocol]) -> Path | None:
    """Return the one folder in which all large tensors lie already."""
    large = [t for t in tensors if t.nbytes > 1024]
    if not large or not all(isinstance(t, ir.ExternalTensor) for t in large):
        return None
    folders = {
        Path(t.path).resolve().parent for t in large if isinstance(t, ir.ExternalTensor)
    }
    return folders.pop() if len(folders) == 1 else None


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


def _by_reference(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
    del initializer
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.ExternalTensor(
        Path(tensor.path).name,
        tensor.offset,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name or "",
    )


_WHAT, _ROOM = "a candidate", "make room there, or choose another folder"
_VERSION = 1


@dataclass(frozen=True)
class Question:
    """A candidate before it is built, and its hash; ``build`` returns None if it fails."""

    key: str
    nodes: int
    build: Callable[[], SmallerModel | None]


@dataclass(frozen=True)
class Trial:
    """A candidate that was judged, its number counted from 1.

    One that could not be built, or was ``replayed`` from a file, has no ``candidate``.
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

    ``tell`` is called after each. ``replay`` is a file that answers are read
    from, if it exists, and written to. ``about`` hashes what answers depend on besides the
    check: the model, and how it is taken apart.
    """

    check: ModelCheck
    tell: Callable[[Trial], None] = lambda trial: None
    replay: Path | None = None
    about: str = ""
    trials: list[Trial] = field(default_factory=list)
    seen: dict[str, CheckOutcome] = field(default_factory=dict)
    _known: dict[str, CheckOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read saved answers; raise UsageError if they are those of another question."""
        if self.replay is not None and self.replay.exists():
            self._known = self._read(self.replay)

    @property
    def run(self) -> int:
        """How many checks were run."""
        return sum(not trial.replayed for trial in self.trials)

    def ask(self, question: Question) -> CheckOutcome:
        """Judge a candidate, unless it was seen before."""
        key, number = question.key, len(self.trials) + 1
        if key in self.seen:
            return self.seen[key]
        replayed, seconds, candidate = key in self._known, 0.0, None
        if replayed:
            outcome = self._known[key]
        elif (candidate := question.build()) is None:
            outcome = CheckOutcome(Status.UNJUDGED, "the type of an input is not known")
        else:
            start = time.perf_counter()
            outcome = self.check.judge(candidate, number)
            seconds = time.perf_counter() - start
        self.seen[key] = outcome
        trial = Trial(number, question.nodes, outcome, seconds, replayed, candidate)
        self.tell(trial)
        # Models of all trials together may be large.
        self.trials.append(replace(trial, candidate=None))
        if self.replay is not None and not replayed:
            self._write(self.replay)
        return outcome

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
        with writing(path, "--replay", _ROOM), pending(path) as file:
            file.write(json.dumps(told, indent=1).encode())
            file.publish(path)


@dataclass
class Artifacts:
    """Keeps candidates and what the check printed, in folders by status.

    ``unjudged`` has those that could not be judged. Large weights of ``model`` are written
    once a folder.
    """

    model: ir.Model
    folder: Path
    _stores: dict[Status, CandidateStore] = field(default_factory=dict)

    def keep(self, trial: Trial) -> None:
        """Write a candidate, named after its number; or raise ModelError."""
        if trial.candidate is None:
            return
        status = trial.outcome.status
        folder = self.folder / status.value
        with writing(folder, "--artifacts", _ROOM):
            folder.mkdir(parents=True, exist_ok=True)
            if status not in self._stores:
                self._stores[status] = CandidateStore(
                    self.model, folder, keep=True
                ).__enter__()
            stem = f"{trial.number:04d}-{trial.nodes}-nodes"
            self._stores[status].write(trial.candidate, folder / f"{stem}.onnx")
            if trial.outcome.log:
                (folder / f"{stem}.log").write_bytes(trial.outcome.log)
