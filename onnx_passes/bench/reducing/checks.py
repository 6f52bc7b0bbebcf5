"""Checks of a candidate: an engine, a function, a command of the user, or a person."""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.bench.reducing.candidates import (
    CandidateStore,
    CheckOutcome,
    SmallerModel,
    Status,
)
from onnx_passes.bench.reducing.parts import Boundary
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, EngineUnavailableError, UsageError
from onnx_passes.optional import users_call
from onnx_passes.runtime import processes
from onnx_passes.runtime.engine_base import BUILT_ONLY, Engine, Feeds, Outputs
from onnx_passes.runtime.tensorrt.engine import compiler_of
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.saved import write_samples

UNKNOWN = CheckOutcome(Status.UNJUDGED, "values of its inputs are not known")
"""What is said of a candidate that has no values."""


@dataclass
class _SameFault:
    """A fault of another kind than that of the whole model is another fault."""

    reads_values: bool = field(default=True, init=False)
    kind: str | None = field(default=None, init=False)

    def bad(self, kind: str, told: str) -> CheckOutcome:
        """Say that a candidate fails, if it does so in the same way."""
        if self.kind is None:
            self.kind = kind
        if kind != self.kind:
            return CheckOutcome(Status.UNJUDGED, f"fails in another way: {told}")
        return CheckOutcome(Status.BAD, told)


@dataclass
class RunCheck(_SameFault):
    """An engine against another, or golden values, or whether it runs a model at all.

    Attributes:
        engine: The engine in doubt.
        against: The engine that is right, or golden values; None where it is enough that the
            engine runs the model and makes no NaN or Inf of finite inputs.
        contract: How close outputs have to be.
    """

    engine: Engine
    against: Engine | Boundary | None = None
    contract: Equality | Tolerance = field(default_factory=Tolerance)

    @property
    def text(self) -> str:
        """The engines and the contract."""
        other = getattr(self.against, "name", "golden values" if self.against else "nothing")
        return f"{self.engine.name} against {other} by {self.contract}"

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Run the candidate on both; EngineUnavailableError if an engine is not there."""
        del number
        feeds = candidate.feeds()
        if feeds is None and self._compiles_only:
            feeds = {}
        if feeds is None:
            return UNKNOWN
        try:
            expected = self._expected(candidate.model, feeds)
        except EngineUnavailableError:
            raise
        except EngineError as error:
            return CheckOutcome(Status.UNJUDGED, f"the other engine: {_line(error.message)}")
        if expected is None:
            return CheckOutcome(Status.UNJUDGED, "golden values of its outputs are not known")
        try:
            with self.engine.prepare(candidate.model) as session:
                actual = session.run(feeds)
        except EngineUnavailableError as error:
            # The whole model was refused: a part that is compiled is good without a GPU.
            if self.kind is None or not error.message.startswith(BUILT_ONLY):
                raise
            return CheckOutcome(Status.GOOD, _line(error.message))
        except EngineError as error:
            return self.bad(error.code, _line(error.message))
        if self.against is None:
            wrong = [n for n, a in actual.items() if not is_finite(a)]
            if wrong and all(map(is_finite, feeds.values())):
                return self.bad("finite", f"{wrong[0]}: has NaN or Inf")
            return CheckOutcome(Status.GOOD)
        return _compared(self, expected, actual, self.contract)

    @property
    def _compiles_only(self) -> bool:
        """Whether the engine compiles and cannot execute here, so that no values are read."""
        compiler = compiler_of(self.engine)
        return self.against is None and compiler is not None and not compiler.executes

    def _expected(self, model: ir.Model, feeds: Feeds) -> Outputs | None:
        if self.against is None:
            return {}
        if isinstance(self.against, Boundary):
            return self.against.values([str(v.name) for v in model.graph.outputs])
        with self.against.prepare(model) as session:
            return session.run(feeds)


@dataclass
class FunctionCheck:
    """A Python function, called in this process.

    It gets the path of a candidate as text, and returns whether the candidate fails. ``text``
    is what the user calls it.
    """

    function: Callable[[str], object]
    store: CandidateStore
    text: str
    reads_values: bool = False

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Call the function; UsageError if it raises, or returns neither True nor False."""
        del number
        printed = io.StringIO()
        what = f"--check-function {self.text}"
        how = "let it return True for a model that fails, and False for others"
        with (
            self.store.file(candidate) as path,
            redirect_stdout(printed),
            users_call(what, UsageError, how),
        ):
            bad = self.function(str(path))
        if not isinstance(bad, bool | np.bool_):
            raise UsageError(f"{what} returns {bad!r}", help=how)
        log = printed.getvalue().encode(errors="replace")
        return CheckOutcome(Status.BAD if bad else Status.GOOD, log=log)


@dataclass
class AskCheck:
    """A person who looks at each candidate.

    ``ask`` gets its path and number, and returns whether it fails.
    """

    ask: Callable[[Path, int], bool]
    store: CandidateStore
    text: str = "a person"
    reads_values: bool = False

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Write the candidate and ask."""
        with self.store.file(candidate) as path:
            bad = self.ask(path, number)
        return CheckOutcome(Status.BAD if bad else Status.GOOD, "as you say")


def _compared(
    check: _SameFault, expected: Outputs, actual: Outputs, contract: Equality | Tolerance
) -> CheckOutcome:
    if not expected:
        return CheckOutcome(Status.UNJUDGED, "it has no outputs")
    wrong = Promise(contract, inside=True).broken(expected, actual)
    if not wrong:
        return CheckOutcome(Status.GOOD)
    return check.bad("differs", f"{wrong[0].output}: {wrong[0].reason}")


def is_finite(data: object) -> bool:
    """Whether a value has no NaN or infinity."""
    if isinstance(data, list):
        return all(map(is_finite, data))
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fcV":
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(data.astype(np.complex128)).all())


def _line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


if TYPE_CHECKING:
    from tempfile import _TemporaryFileWrapper

    _TemporaryFile = _TemporaryFileWrapper[bytes]


_TIMEOUT = 600.0
_USAGE = 2
"""Exit code of this program where a command or its data is wrong."""

_LOG = 4 << 20  # bytes of each stream that are looked through, from its end


@dataclass(frozen=True)
class FailureCriteria:
    """What counts as a failure.

    ``codes`` are the exit codes that do, by default all but 0; ``ignored`` those that do not.
    The output has to match one of ``patterns``. With patterns and without codes, the exit code
    does not count.
    """

    codes: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    def bad(self, code: int, output: str) -> bool:
        """Whether a command that ended so has failed."""
        if code in self.ignored:
            return False
        if self.codes and code not in self.codes:
            return False
        if self.patterns:
            return any(pattern.search(output) for pattern in self.patterns)
        return code != 0 or bool(self.codes)


@dataclass
class CommandCheck:
    """Writes candidates to files and runs a command on them.

    ``{model}`` becomes the candidate's path, ``{inputs}`` a .npz file with the values of its
    inputs. ``timeout`` is in seconds, and ends child processes too.
    """

    command: str | Sequence[str]
    store: CandidateStore
    rules: FailureCriteria = FailureCriteria()
    timeout: float = _TIMEOUT
    words: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Raise UsageError if there is no such command, or it is not given the candidate."""
        self.words = processes.check_words(self.command)
        if not any("{model}" in word for word in self.words):
            raise UsageError(
                "--check does not say where the path of a candidate goes",
                help="write {model} there: --check 'python check.py {model}'",
            )

    @property
    def reads_values(self) -> bool:
        """Whether the command is given the values of the inputs."""
        return any("{inputs}" in word for word in self.words)

    @property
    def text(self) -> str:
        """The command and what counts as a failure of it."""
        return f"{shlex.join(self.words)} {self.rules!r}"

    @property
    def own(self) -> bool:
        """Whether the command is one of this program's, whose exit codes are known."""
        name, *rest = self.words
        if Path(name).name == "onnx-passes":
            return True
        return "python" in Path(name).name and rest[:2] == ["-m", "onnx_passes"]

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Run the command; UsageError if it is this program's, and is used wrongly."""
        with ExitStack() as stack:
            path = stack.enter_context(self.store.file(candidate))
            given = [word.replace("{model}", str(path)) for word in self.words]
            if any("{inputs}" in word for word in given):
                feeds = candidate.feeds()
                if feeds is None:
                    return CheckOutcome(Status.UNJUDGED, "values of its inputs are not known")
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                values = Path(folder) / "inputs.npz"
                write_samples(values, [{k: np.asarray(v) for k, v in feeds.items()}])
                given = [word.replace("{inputs}", str(values)) for word in given]
            return self._run(given, number)

    def _run(self, words: Sequence[str], number: int) -> CheckOutcome:
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            code = self._code(words, out, err)
            if code is None:
                return CheckOutcome(Status.UNJUDGED, f"ran longer than {self.timeout:g} s")
            log = _tail(out) + _tail(err)
        output = log.decode(errors="replace")
        told = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
        if self.own and code == _USAGE and code not in self.rules.codes:
            said = next((x for x in output.splitlines() if x.startswith("error")), told)
            if number <= 1:
                raise UsageError(
                    f"--check is used wrongly, which is no failure of the model: {said}",
                    help="try the command by itself, on the whole model",
                )
            # Inputs of the whole model do not fit a part of it.
            return CheckOutcome(Status.UNJUDGED, said, log)
        bad = self.rules.bad(code, output)
        return CheckOutcome(Status.BAD if bad else Status.GOOD, told, log)

    def _code(
        self, words: Sequence[str], out: _TemporaryFile, err: _TemporaryFile
    ) -> int | None:
        """Return the exit code of a command; None where it took too long."""
        try:
            ended = processes.run(words, self.timeout, stdout=out.file, stderr=err.file)
        except OSError as error:
            raise UsageError(
                f"--check cannot be run: {words[0]}: {error.strerror or error}"
            ) from error
        return ended.code


def _tail(stream: _TemporaryFile) -> bytes:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _LOG))
    return stream.read()
