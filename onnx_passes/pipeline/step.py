"""A pass that is checked, and what one engine says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance
from onnx_passes.contracts import Contract, Metric, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.state import Known
from onnx_passes.verify.evidence import Evidence, Kind
from onnx_passes.verify.result import Check, Verdict

_SIGHT = {
    True: "the outputs agree, and can see the change",
    False: "the outputs agree, and cannot see the change",
    None: "the outputs agree; whether they can see the change was not asked",
}


@dataclass(frozen=True)
class Step:
    """A pass that is checked, and the model before and after it."""

    pass_: Pass
    before: ir.Model
    model: ir.Model
    override: OutputTolerance | None
    applied: Sequence[Application]
    translated: bool = False

    @property
    def promises(self) -> list[Contract]:
        """The contracts that values inside the model can keep."""
        return [c for c in self.pass_.contracts() if not isinstance(c, Metric)]

    @property
    def by_type(self) -> bool:
        """Whether its promises hold values to no more than their types allow."""
        return held_by_type(self.promises, self.override)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the rewrites that it recorded."""
        return tuple(application.number for application in self.applied)

    @property
    def label(self) -> str:
        """The rules that fired, or the pass."""
        return ", ".join(dict.fromkeys(a.rule for a in self.applied)) or self.pass_.name


def held_by_type(contracts: Sequence[Contract], override: OutputTolerance | None) -> bool:
    """Whether contracts leave limits to the types of values.

    Args:
        contracts: What a pass promises.
        override: Tolerances of this use of it.
    """
    limits = [contract for contract in contracts if isinstance(contract, Tolerance)]
    return all(t.rtol is None and t.atol is None for t in limits) and override is None


@dataclass(frozen=True)
class EngineFinding:
    """What one engine says of a pass."""

    checks: list[Check]
    evidence: list[Evidence]
    known: Known
    certain: bool = False

    @property
    def failed(self) -> bool:
        return any(check.verdict is Verdict.FAILED for check in self.checks)


def with_sight(one: Evidence, sees: bool | None) -> Evidence:
    """Return evidence of outputs only, with what the outputs can see of the change.

    Args:
        one: The evidence.
        sees: Whether the outputs see the change; None if that is not known.
    """
    kind = Kind.BLIND if sees is False else Kind.OUTPUTS_ONLY
    return replace(one, kind=kind, reason=f"{_SIGHT[sees]} ({one.reason})")


def does_not_run(kind: str, bench: Bench, error: EngineError) -> Check:
    """Return the check of a result that an engine refuses, which fails.

    Args:
        kind: The kind of the check.
        bench: The engine.
        error: What it raised.
    """
    aside = f" ({error.help})" if error.help else ""
    reason = f"the result does not run: {error.message}{aside}"
    return Check(kind, Verdict.FAILED, bench.engine.name, reason=reason)
