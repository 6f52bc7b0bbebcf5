"""Checks in this process: an engine against another, or a pass; and asking a person."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, EngineUnavailableError, OnnxPassesError, UsageError
from onnx_passes.model.copy import copy_model
from onnx_passes.runtime.engine_base import BUILT_ONLY, Engine, Feeds, Outputs
from onnx_passes.runtime.tensorrt.engine import compiler_of
from onnx_passes.verify.interface_check import compare_interfaces, interface_of
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.reduce.boundary import Boundary
from onnx_passes.verify.reduce.outcome import CheckOutcome, SmallerModel, Status
from onnx_passes.verify.reduce.store import CandidateStore
from onnx_passes.verify.well_formed import check_structure

if TYPE_CHECKING:
    from onnx_passes.passes.base import Pass

UNKNOWN = CheckOutcome(Status.UNJUDGED, "values of its inputs are not known")
"""What is said of a candidate that has no values."""


@dataclass
class _SameFault:
    """A fault of another kind than that of the whole model is another fault.

    Attributes:
        kind: Of the first candidate that failed, which is the whole model.
    """

    width: int = field(default=1, init=False)
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
        """Run the candidate on both.

        Raises:
            EngineUnavailableError: One of the engines is not there.
        """
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
            wrong = [n for n, a in actual.items() if not _finite(a)]
            if wrong and all(map(_finite, feeds.values())):
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
class PassCheck(_SameFault):
    """Passes that raise, break a model, or change what it computes.

    Attributes:
        make: Makes the passes, in order.
        engine: What both models are run on.
        what: The passes as text.
        contract: How close outputs have to be.
    """

    make: Callable[[], list[Pass]]
    engine: Engine
    what: str
    contract: Equality | Tolerance = field(default_factory=Equality)

    @property
    def text(self) -> str:
        """The passes, the engine and the contract."""
        return f"{self.what} on {self.engine.name} by {self.contract}"

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Apply the passes to a copy, and compare."""
        del number
        model = candidate.model
        if faults := check_structure(model):
            return CheckOutcome(Status.UNJUDGED, f"it is no valid model: {_line(faults[0])}")
        after = copy_model(model)
        try:
            for each in self.make():
                after = each(after).model
        except Exception as error:  # a pass may raise anything, which is what is looked for
            cause = error.__cause__ or error
            return self.bad(f"raises {type(cause).__name__}", _line(f"raises {cause!r}"))
        faults = check_structure(after)
        faults += compare_interfaces(interface_of(model), interface_of(after), frozenset())
        if faults:
            return self.bad("structure", _line(faults[0]))
        feeds = candidate.feeds()
        if feeds is None:
            return UNKNOWN
        try:
            with self.engine.prepare(model) as session:
                expected = session.run(feeds)
        except EngineUnavailableError:
            raise
        except EngineError as error:
            return CheckOutcome(
                Status.UNJUDGED, f"does not run before: {_line(error.message)}"
            )
        try:
            with self.engine.prepare(after) as session:
                actual = session.run(feeds)
        except OnnxPassesError as error:
            return self.bad(error.code, f"does not run afterwards: {_line(error.message)}")
        return _compared(self, expected, actual, self.contract)


@dataclass
class FunctionCheck:
    """A Python function, called in this process.

    Attributes:
        function: Given the path of a candidate as text; returns whether it fails.
        store: Writes candidates.
        text: What the user calls it.
    """

    function: Callable[[str], object]
    store: CandidateStore
    text: str
    width: int = 1
    reads_values: bool = False

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Write the candidate and call the function.

        Raises:
            UsageError: It raises, or returns something else than True or False.
        """
        del number
        printed = io.StringIO()
        with self.store.file(candidate) as path, redirect_stdout(printed):
            try:
                bad = self.function(str(path))
            except Exception as error:  # whatever it raises
                raise UsageError(
                    f"--check-function {self.text} raises {type(error).__name__}: {error}",
                    help="let it return True for a model that fails, and False for others",
                ) from error
        if not isinstance(bad, bool | np.bool_):
            raise UsageError(
                f"--check-function {self.text} returns {bad!r}",
                help="let it return True for a model that fails, and False for others",
            )
        log = printed.getvalue().encode(errors="replace")
        return CheckOutcome(Status.BAD if bad else Status.GOOD, log=log)


@dataclass
class AskCheck:
    """A person who looks at each candidate.

    Attributes:
        ask: Gets the path and the number of a candidate, and returns whether it fails.
        store: Writes candidates.
        artifact: Where.
    """

    ask: Callable[[Path, int], bool]
    store: CandidateStore
    artifact: Path
    width: int = 1
    text: str = "a person"
    reads_values: bool = False

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Write the candidate and ask."""
        try:
            self.store.write(candidate, self.artifact)
            bad = self.ask(self.artifact, number)
        finally:
            self.artifact.unlink(missing_ok=True)
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


def _finite(data: object) -> bool:
    if isinstance(data, list):
        return all(map(_finite, data))
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fcV":
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(data.astype(np.complex128)).all())


def _line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
