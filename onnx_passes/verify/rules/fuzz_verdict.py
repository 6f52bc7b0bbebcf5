"""One verdict of the property test and the proof of a rule, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from onnxscript.rewriter import RewriteRule

from onnx_passes.contracts import Equality, Tolerance, contracts_of
from onnx_passes.errors import UsageError
from onnx_passes.passes.patterns import rule_name
from onnx_passes.plain import PlainDict
from onnx_passes.verify.rules.applying import assumes_finite
from onnx_passes.verify.rules.fault import Fault
from onnx_passes.verify.rules.fuzz import Tested, fuzz_rule
from onnx_passes.verify.rules.job import Job
from onnx_passes.verify.rules.pattern import pattern_of
from onnx_passes.verify.rules.proof import CUTS, NEAR, Coverage
from onnx_passes.verify.rules.refutations import repeats, write_refutation
from onnx_passes.verify.rules.regression import write_regression
from onnx_passes.verify.rules.schemas import impossible

if TYPE_CHECKING:
    from onnx_passes.verify.rules.proof import Proof

LIMIT_BEHIND_TEST = 9
"""Templates that are drawn for a proof, where the rule has been tested on many models."""

_CAUSES = {
    "values": "wrong values",
    "bits": "other bits",
    "tolerance": "beyond the tolerance",
    "model": "an invalid model",
    "engine": "a result that the engine does not run",
    "rule": "an exception of the rule",
}
"""What a fault breaks, in words."""

LEAST_MODELS = 20
"""Models of the property test on which a rule that is called proved must fire."""


def verdict_of(subject: object, rule: RewriteRule, job: Job) -> PlainDict:
    """Test and prove one rule as ``job`` asks, and say what follows.

    Args:
        subject: The class or rule that is certified.
        rule: The rule.
        job: What is asked, with limits and seed.

    Returns:
        Names, the verdict ("proved", "tested", "refuted", "never fired", "undecided"), its
        reason, contracts derived and declared, whether they disagree, and the evidence.
    """
    cls = subject if isinstance(subject, type) else type(subject)
    allowed = frozenset(getattr(cls, "interface_changes", ()))
    declared = next(
        (c for c in contracts_of(cls) if isinstance(c, Equality | Tolerance)), None
    )
    tested = proof = None
    finite = assumes_finite(cls)
    shown: list[Fault] = []

    def confirm(fault: Fault) -> bool:
        found = repeats(fault, declared)
        shown.extend([fault] * found)
        return found

    if job.level != "prove":
        tested = fuzz_rule(
            rule,
            seconds=job.seconds,
            seed=job.seed,
            models=job.models,
            allowed=allowed,
            faults=job.faults,
            declared=declared if isinstance(declared, Tolerance) else None,
            finite=finite,
            confirm=confirm,
        )
    unproved = ""
    if job.level != "test":
        differ = tested is not None and tested.inexact is not None
        proof, unproved = _proof(rule, job, confirm, ieee=not differ)
    verdict, reason = _verdict(rule, tested, proof, unproved)
    contract = _contract(tested, proof, verdict)
    loose = None if tested is None else tested.loose
    disagrees = (
        verdict == "refuted"
        or loose is not None
        or (isinstance(declared, Equality) and _inexact(tested, proof))
    )
    if loose is not None and not reason:
        reason = loose.reason
    result: PlainDict = {
        "rule": rule_name(rule),
        "verdict": verdict,
        "reason": reason,
        "claim": _claim(proof) if verdict == "proved" else "",
        "contract": None if contract is None else str(contract),
        "declared": None if declared is None else str(declared),
        "assumes": "no input is NaN or infinite" if finite else "",
        "disagrees": disagrees,
        "arguable": verdict == "refuted" and _arguable(tested, proof),
        "tested": None if tested is None else _tested(tested),
        "proof": None if proof is None else proof.as_dict(),
    }
    fault = None if tested is None else tested.fault
    if fault is None and verdict == "refuted":
        fault = shown[-1] if shown else None
    if fault is None and tested is not None:
        fault = loose or (tested.inexact if disagrees else None)
    if fault is not None:
        result["counterexample"] = fault.text()
        result["sort"] = fault.sort
        result["cause"] = _CAUSES[fault.breaks]
        if tested is not None and len(tested.faults) > 1:
            result["further"] = [(_CAUSES[f.breaks], f.text()) for f in tested.faults[1:]]
        if job.folder is not None:
            folder = Path(job.folder)
            if fault.after is not None and fault.found is not None:
                folder, _ = write_refutation(fault, declared, folder)
            result["folder"] = str(folder)
            test = write_regression(fault, job.subject, job.index or 0, folder, declared)
            result["test"] = str(test)
    return result


def _proof(
    rule: RewriteRule, job: Job, confirm: Callable[[Fault], bool], *, ieee: bool
) -> tuple[Proof | None, str]:
    from onnx_passes.verify.rules import Effort, prove_rule

    # The property test has tried to break the rule already.
    limit = LIMIT_BEHIND_TEST if job.level == "all" else Effort().limit
    try:
        effort = Effort(seed=job.seed, limit=limit, ieee=ieee)
        return prove_rule(rule, effort=effort, confirm=confirm), ""
    except UsageError as error:
        return None, f"not proved: {error.message}"


def _claim(proof: Proof | None) -> str:
    """Return what "proved" ranges over: the templates that were made, and no more.

    A rule is a program: what another path of its guard or its rewrite would do is not proved.
    """
    if proof is None:
        return ""
    parts = [
        f"{j.arithmetic} for {_covered(j.coverage)}"
        for j in proof.judgements
        if j.outcome == "proved" and j.coverage is not None
    ]
    return (
        f"{'; '.join(parts)}; on the {proof.templates} templates that its guard admitted, "
        "along the paths that they take through its check and rewrite"
    )


def _covered(coverage: Coverage) -> str:
    """Return what a proof covers, with the sizes that it excludes."""
    cuts = f" ({CUTS})" if CUTS in coverage.conditions else ""
    return f"{coverage.text}{cuts}"


def _idle(rule: RewriteRule, tested: Tested) -> str:
    models = f"its pattern or guard admitted none of {tested.attempts} models"
    if tested.not_run:
        models = f"the engine ran none of the {tested.not_run} models that its guard admitted"
    return impossible(pattern_of(rule)) or models


def _verdict(
    rule: RewriteRule, tested: Tested | None, proof: Proof | None, unproved: str
) -> tuple[str, str]:
    if tested is not None and tested.fault is not None:
        arguable = "" if tested.faults else f"; {NEAR}"
        return "refuted", tested.fault.reason + arguable
    if proof is not None and proof.outcome == "refuted":
        found = proof.counterexample
        reason = "" if found is None else found.reason
        return "refuted", f"{reason}; {NEAR}" if NEAR in proof.notes else reason
    if tested is not None and tested.out_of_time:
        return "undecided", f"out of time: {tested.models} models; give it more with --time"
    if proof is not None and proof.out_of_time:
        return "undecided", f"out of time: {proof.judgements[0].reason}"
    if proof is not None and proof.outcome == "proved":
        if tested is None or tested.models >= LEAST_MODELS:
            return "proved", ""
        if tested.models:
            few = f"proved, but it fired on {tested.models} of {tested.attempts} models only"
            return "tested", few
    reasons = [] if proof is None else [j.reason for j in proof.judgements if j.reason]
    reason = unproved or next(iter(reasons), "")
    if tested is not None and tested.verdict == "never fired":
        return tested.verdict, _idle(rule, tested)
    if tested is not None:
        return tested.verdict, reason
    return "undecided", reason


def _arguable(tested: Tested | None, proof: Proof | None) -> bool:
    """Whether all that refutes a rule rests on constants within its own tolerances."""
    if tested is not None and tested.faults:
        return False
    return proof is None or proof.outcome != "refuted" or NEAR in proof.notes


def _contract(
    tested: Tested | None, proof: Proof | None, verdict: str
) -> Equality | Tolerance | None:
    """Return the weaker of what the two levels support, where both say something."""
    if verdict not in ("proved", "tested"):
        return None
    of_test = None if tested is None else tested.contract
    of_proof = None if proof is None else proof.contract
    said = [c for c in (of_test, of_proof) if isinstance(c, Equality | Tolerance)]
    return next((c for c in said if isinstance(c, Tolerance)), said[0] if said else None)


def _inexact(tested: Tested | None, proof: Proof | None) -> bool:
    if tested is not None and tested.inexact is not None:
        return True
    found = None if proof is None else proof.counterexample
    return found is not None


def _tested(tested: Tested) -> PlainDict:
    return {
        "models": tested.models,
        "firings": tested.firings,
        "runs": tested.runs,
        "covers": tested.covered.as_dict(),
        "operators": [f"{d}:{o}" if d else o for d, o in sorted(tested.operators)],
        "unrepeated": tested.unrepeated,
        "attempts": tested.attempts,
        "not_run": tested.not_run,
        "dtypes": dict(sorted(tested.dtypes.items())),
        "surroundings": dict(sorted(tested.kinds.items())),
        "opsets": {str(k): n for k, n in sorted(tested.opsets.items())},
        "errors": {
            kind: {"rtol": error.relative, "atol": error.absolute}
            for kind, error in sorted(tested.errors.items())
        },
        "out_of_time": tested.out_of_time,
    }
