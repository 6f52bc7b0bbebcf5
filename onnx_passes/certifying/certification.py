"""Certify one rule in a process of its own, and return the verdict as plain data.

A crash, a hang or too much memory is a verdict. The module is also the program of the child
process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying.coverage import impossible
from onnx_passes.certifying.proof import CUTS, NEAR, Counterexample, Fault, Proof
from onnx_passes.certifying.replay import Feeds, PairRunner
from onnx_passes.certifying.rewrite_rule import (
    GIB,
    Job,
    assumes_finite,
    declared_by,
    pattern_of,
    resolve,
    rules_of,
)
from onnx_passes.certifying.rule_fuzzing import Tested, fuzz_rule
from onnx_passes.certifying.rule_paths import RulePaths, cap
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import UsageError
from onnx_passes.passes.patterns import rule_name
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_models import insert_barriers
from onnx_passes.runtime.processes import kill, kill_group, start
from onnx_passes.verify.bundle import REPLAY_SECONDS, Bundle, write_failing
from onnx_passes.verify.judge import default_tolerance

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

    The verdict is "proved", "tested", "refuted", "never fired" or "undecided". Beside it are
    its reason, the contracts derived and declared, whether they disagree, and the evidence.
    """
    found = _judged(subject, rule, job, lambda verdict: None)
    cap([found])
    return found


def _judged(
    subject: object, rule: RewriteRule, job: Job, so_far: Callable[[PlainDict], object]
) -> PlainDict:
    """Return the verdict on a rule and what ran of its code, before `cap` looks at that.

    `so_far` gets the verdict of the property test, before the proof begins.
    """
    cls = subject if isinstance(subject, type) else type(subject)
    paths = RulePaths(rule, cls if cls is subject else None)
    found = RuleEvidence(rule, paths, declared_by(cls), assumes_finite(cls), job.folder)
    if job.level != "prove":
        found.tested = fuzz_rule(
            rule,
            seconds=job.seconds,
            seed=job.seed,
            models=job.models,
            allowed=frozenset(getattr(cls, "interface_changes", ())),
            faults=job.faults,
            declared=found.declared if isinstance(found.declared, Tolerance) else None,
            finite=found.finite,
            confirm=found.confirm,
            paths=found.paths,
        )
        # The property test has broken it already, or ends before a proof that may not.
        if job.level == "test" or found.tested.faults:
            return found.as_dict()
        so_far(found.as_dict())
    found.prove(job)
    return found.as_dict()


@dataclass
class RuleEvidence:
    """What was found of one rule by the property test and by the prover.

    `unproved` says why there is no proof. `shown` are the faults whose own script shows them.
    With `finite`, it assumes that no input is NaN or infinite. Refutations are written to
    `folder`.
    """

    rule: RewriteRule
    paths: RulePaths
    declared: Equality | Tolerance | None
    finite: bool
    folder: str | None
    tested: Tested | None = None
    proof: Proof | None = None
    unproved: str = ""
    shown: list[Fault] = field(default_factory=list)

    def confirm(self, fault: Fault) -> bool:
        """Whether the script of a refutation shows it; such faults are kept."""
        found = is_reproducible(fault, self.declared)
        self.shown.extend([fault] * found)
        return found

    def prove(self, job: Job) -> None:
        """Prove the rule, if need be on few templates: the property test tried to break it."""
        from onnx_passes.certifying import Effort, prove_rule

        effort = Effort(
            seed=job.seed,
            limit=Effort().limit if self.tested is None else LIMIT_BEHIND_TEST,
            ieee=self.tested is None or self.tested.inexact is None,
            was_tested=self.tested is not None,
        )
        try:
            self.proof = prove_rule(
                self.rule, effort=effort, confirm=self.confirm, paths=self.paths
            )
        except UsageError as error:
            self.unproved = f"not proved: {error.sentence}"

    def as_dict(self) -> PlainDict:
        """Return the verdict and all that led to it."""
        tested, proof, declared = self.tested, self.proof, self.declared
        verdict, reason = self._verdict()
        contract = self._contract() if verdict in ("proved", "tested") else None
        refuted = verdict == "refuted"
        broken = self._broken()
        if broken is not None and not refuted:
            verdict, reason = "refuted", f"not the declared {declared}: {broken.reason}"
        result: PlainDict = {
            "rule": rule_name(self.rule),
            "verdict": verdict,
            "reason": reason,
            "claim": self._claim() if verdict == "proved" else "",
            "never_ran": "",
            "paths": self.paths.taken(),
            **self.paths.told(),
            "contract": None if contract is None else str(contract),
            "declared": None if declared is None else str(declared),
            "assumes": "no input is NaN or infinite" if self.finite else "",
            "tested": None if tested is None else tested.as_dict(),
            "proof": None if proof is None else proof.as_dict(),
        }
        fault = self._fault(refuted=refuted, disagrees=broken is not None)
        if fault is None:
            return result
        result |= {"counterexample": fault.text(), "cause": _CAUSES[fault.breaks]}
        if tested is not None and len(tested.faults) > 1:
            result["further"] = [(_CAUSES[f.breaks], f.text()) for f in tested.faults[1:]]
        if self.folder is not None and fault.after is not None and fault.found is not None:
            folder, _ = write_refutation(fault, declared, Path(self.folder))
            result["folder"] = str(folder)
        return result

    def _broken(self) -> Fault | Counterexample | None:
        """Return what breaks the declared contract, and no weaker one."""
        tested, found = self.tested, None if self.proof is None else self.proof.counterexample
        if tested is not None and tested.loose is not None:
            return tested.loose
        if not isinstance(self.declared, Equality):
            return None
        return found if tested is None or tested.inexact is None else tested.inexact

    def _fault(self, *, refuted: bool, disagrees: bool) -> Fault | None:
        """Return what is shown: what refutes the rule, or contradicts what it declares."""
        tested, shown = self.tested, self.shown if refuted else []
        if tested is None or (tested.fault is None and shown):
            return shown[-1] if shown else None
        return tested.fault or tested.loose or (tested.inexact if disagrees else None)

    def _claim(self) -> str:
        """Return what "proved" ranges over: the templates that were made, and no more.

        A rule is a program: what another path of its guard or rewrite would do is not proved.
        """
        assert self.proof is not None
        parts = [
            f"{j.arithmetic} for {c.text}{f' ({CUTS})' if CUTS in c.conditions else ''}"
            for j in self.proof.judgements
            if j.outcome == "proved" and (c := j.coverage) is not None
        ]
        return (
            f"{'; '.join(parts)}; on the {self.proof.templates} templates that its guard "
            f"admitted, along the paths through lines {self.paths.taken()}"
        )

    def _verdict(self) -> tuple[str, str]:
        tested, proof = self.tested, self.proof
        if tested is not None and tested.fault is not None:
            arguable = "" if tested.faults else f"; {NEAR}"
            return "refuted", tested.fault.reason + arguable
        if proof is not None and proof.outcome == "refuted":
            found = proof.counterexample
            return "refuted", "" if found is None else found.reason
        if tested is not None and tested.out_of_time:
            return "undecided", tested.late()
        if proof is not None and proof.out_of_time:
            return "undecided", f"out of time: {proof.judgements[0].reason}"
        if proof is not None and proof.outcome == "proved":
            if tested is not None and tested.alone:
                return "tested", f"proved for one value alone of {', '.join(tested.alone)}"
            if tested is None or tested.models >= LEAST_MODELS:
                return "proved", ""
            if tested.models:
                few = f"it fired on {tested.models} of {tested.attempts} models only"
                return "tested", f"proved, but {few}"
        if tested is not None and tested.verdict == "never fired":
            return tested.verdict, impossible(pattern_of(self.rule)) or tested.idle()
        reasons = [] if proof is None else [j.reason for j in proof.judgements if j.reason]
        reason = self.unproved or next(iter(reasons), "")
        return "undecided" if tested is None else tested.verdict, reason

    def _contract(self) -> Equality | Tolerance | None:
        """Return the weaker of what the two levels support, where both say something."""
        found = [each.contract for each in (self.tested, self.proof) if each is not None]
        said = [c for c in found if isinstance(c, Equality | Tolerance)]
        return next((c for c in said if isinstance(c, Tolerance)), said[0] if said else None)


def write_refutation(
    fault: Fault, declared: Equality | Tolerance | None, folder: Path
) -> tuple[Path, str]:
    """Write two models that differ, with inputs and a script, and run the script.

    Return the folder, and why the script does not show the difference; empty if it does.
    UsageError if the folder cannot be written.
    """
    assert fault.after is not None
    assert fault.found is not None
    limits = {}
    if fault.breaks == "tolerance":
        assert isinstance(declared, Tolerance)
        for name, array in fault.found.expected.items():
            rtol, atol = default_tolerance(array.dtype)
            limits[name] = (
                rtol if declared.rtol is None else declared.rtol,
                atol if declared.atol is None else declared.atol,
            )
    if fault.breaks == "values":
        for name, array in fault.found.expected.items():
            if array.dtype.kind == "f":
                limits[name] = default_tolerance(array.dtype)
    readme = f"# A rewrite rule that is wrong\n\nDeclared: {declared}\n\n{fault.text()}\n"
    # The script needs no package of ours, so that the models bring their barriers along.
    before, after = (
        insert_barriers(_with_defaults(model, fault.found.feeds))
        for model in (fault.before, fault.after)
    )
    scaled = fault.breaks == "tolerance"
    bundle = Bundle(before, after, fault.found.feeds, limits, scaled=scaled, readme=readme)
    return write_failing([bundle], folder, REPLAY_SECONDS)


def is_reproducible(fault: Fault, declared: Equality | Tolerance | None) -> bool:
    """Whether the script of a refutation shows it.

    A rule that raises, or makes an invalid model, has no script of this kind: that is seen
    again by applying it again.
    """
    if fault.after is None or fault.found is None:
        return True
    with tempfile.TemporaryDirectory() as scratch:
        _, why = write_refutation(fault, declared, Path(scratch) / "refutation")
    return not why


def _with_defaults(model: ir.Model, feeds: Feeds) -> ir.Model:
    """Return a copy in which inputs that have a default default to what was fed."""
    copy = model.clone()
    for value in copy.graph.inputs:
        name = value.name or ""
        if value.const_value is not None and name in feeds:
            value.const_value = ir.tensor(feeds[name], name=name)
    return copy


_running: set[subprocess.Popen[bytes]] = set()
_killed: set[subprocess.Popen[bytes]] = set()
"""Children that :func:`end_children` ended: nothing is asked again without the proof."""


def end_children() -> None:
    """End the children that other threads wait for, and what these have started."""
    for child in tuple(_running):
        _killed.add(child)
        kill_group(child.pid)


def certify_apart(job: Job) -> PlainDict:
    """Run a job in a child process, and return its verdict as plain data.

    Never raises for what the rule does: a child that dies, hangs or fails gives the verdict
    "refuted" (a crash) or "undecided" (limits), with the reason.
    """
    command = [sys.executable, "-m", "onnx_passes.certifying.certification"]
    pipe = subprocess.PIPE
    child = start(command, stdin=pipe, stdout=pipe, stderr=pipe)
    _running.add(child)
    ended = False
    try:
        asked = json.dumps(asdict(job)).encode()
        out, err = child.communicate(asked, job.limit)
        ended = True
    except subprocess.TimeoutExpired:
        pass
    finally:
        # Its own group: an engine that the child started ends with it.
        kill(child)
        if not ended:
            out, err = child.communicate()
        _running.discard(child)
        interrupted = child in _killed
        _killed.discard(child)
    # What was tested comes before the proof, which may end the process.
    lines = out.splitlines(keepends=True)
    found: PlainDict = json.loads(lines[-1]) if lines and lines[-1].endswith(b"\n") else {}
    if not ended:
        what = "the proof" if found else "it"
        reason = f"out of time: {what} did not end in {job.limit:g} seconds"
        if found.get("verdict") == "refuted":
            return found
        # What was tested is kept, but a verdict must not depend on the machine.
        late = _ended(job, "undecided", reason)
        return {**found, **late, "rule": found.get("rule", late["rule"])}
    if child.returncode == 0:
        return found
    if child.returncode < 0 and not interrupted and not job.apart:
        # The engine, as likely as the rule.
        return certify_apart(replace(job, apart=True))
    if child.returncode < 0:
        died = f"died of {signal.Signals(-child.returncode).name}"
        # The engine has a process of its own: what is left is the rule, or the proof.
        if found and not interrupted:
            return {**found, "reason": found["reason"] or f"the proof {died}"}
        verdict = "undecided" if job.level == "prove" else "refuted"
        return _ended(job, verdict, f"the process {died}")
    said, memory = err.decode(errors="replace"), f"over {job.memory / GIB:g} GiB of memory"
    if "MemoryError" in said or "bad_alloc" in said:
        if found:
            return {**found, "reason": found["reason"] or f"the proof needs {memory}"}
        return _ended(job, "undecided", f"it needs {memory}")
    last = (said.strip().splitlines() or ["no message"])[-1]
    return _ended(job, "undecided", f"the process failed: {last}")


def _ended(job: Job, verdict: str, reason: str) -> PlainDict:
    name = job.subject if job.index is None else f"{job.subject}[{job.index}]"
    return {"rule": name, "verdict": verdict, "reason": reason, "contract": None}


def _work(job: Job, say: Callable[[PlainDict], object]) -> PlainDict:
    subject = resolve(job.subject)
    if job.index is None:
        from onnx_passes.certifying.models.fuzz_pass import verdict_of_pass

        return verdict_of_pass(
            subject,
            seconds=job.seconds,
            seed=job.seed,
            models=job.models,
            folder=job.folder,
        )
    return _judged(subject, rules_of(subject)[job.index], job, say)


def _main() -> None:
    import logging
    import resource

    job = Job(**json.loads(sys.stdin.read()))
    PairRunner.apart = job.apart
    resource.setrlimit(resource.RLIMIT_AS, (job.memory, job.memory))
    # Rules may print: the answer goes where stdout was, all else to stderr.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)

    def say(verdict: PlainDict) -> None:
        print(json.dumps(verdict), file=answer, flush=True)

    say(_work(job, say))


if __name__ == "__main__":
    _main()
