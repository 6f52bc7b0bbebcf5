"""Which limit holds for which output: what the user gave, or a default above the noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import ConfigError
from onnx_passes.report.text import NOISE, number
from onnx_passes.verify.noise import HEADROOM, OriginalRuns
from onnx_passes.verify.result import ENGINE, Check, OutputCheck, Verdict

_KINDS = ("tolerance", "drift")
_TOLERANCE = "verify.tolerance"
_SPREADS = f"{number(HEADROOM)} times the spread"

Limits = tuple[Tolerance, dict[str, Tolerance]]


@dataclass
class Thresholds:
    """The limits of a pipeline.

    Attributes:
        settings: The section ``verify``.
        notes: What was raised and why, a sentence each.
        low: Returns the outputs computed by way of types below float32, each with its default.
        lifted: Limits of outputs in place of a given tolerance that noise alone would break.
        beyond: The limit that noise would lead to, by output and the largest limit that still
            sees a fault, which holds instead. What breaks only the latter is not judged.
    """

    settings: Verify
    notes: list[str] = field(default_factory=list)
    low: Callable[[], Mapping[str, Tolerance]] = dict
    lifted: dict[str, Tolerance] = field(default_factory=dict)
    beyond: dict[tuple[str, Tolerance], Tolerance] = field(default_factory=dict)

    def step(self, contract: Tolerance, override: OutputTolerance | None = None) -> Limits:
        """Resolve a tolerance: this use of the pass, then its class, then the pipeline.

        Args:
            contract: The tolerance that the class declares.
            override: Limits of this use of the pass; None for none.
        """
        levels = [override, contract, self.settings.tolerance]
        rtol = next((t.rtol for t in levels if t and t.rtol is not None), None)
        atol = next((t.atol for t in levels if t and t.atol is not None), None)
        outputs = self.settings.tolerance.outputs | (override.outputs if override else {})
        exact = {name: Tolerance(t.rtol, t.atol) for name, t in outputs.items()}
        return Tolerance(rtol, atol), exact | self.lifted

    def drift(self) -> Limits:
        """Return what the distance to the original is held to, noise left out."""
        given = self.settings.drift
        step, outputs = self.step(Tolerance())
        rtol = given.rtol if given.rtol is not None else step.rtol
        atol = given.atol if given.atol is not None else step.atol
        return Tolerance(rtol, atol), outputs

    def local(
        self, kind: str, contracts: Sequence[Contract], override: OutputTolerance | None
    ) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """Return what inner values are held to where a check of some kind failed.

        Args:
            kind: The kind of the check.
            contracts: The contracts of the pass.
            override: Limits of this use of the pass; None for none.
        """
        if kind == "equality":
            return Equality(), {}
        if kind == "drift" or (kind == ENGINE and not contracts):
            return self.drift()
        if kind == ENGINE and any(isinstance(c, Equality) for c in contracts):
            return Equality(), {}
        declared = next((c for c in contracts if isinstance(c, Tolerance)), Tolerance())
        return self.step(declared, override)

    @property
    def given(self) -> bool:
        """Whether the user gave the limit of some output."""
        tolerance, drift = self.settings.tolerance, self.settings.drift
        return bool(tolerance.outputs) or _given(tolerance) or _given(drift)

    def holds(self, kind: str) -> bool:
        """Whether a limit that the user gave holds even where rounding alone breaks it.

        The tolerance of a file for the seed system is that of each pass, and not of the drift.

        Args:
            kind: The kind of the check, such as "tolerance" or "drift".
        """
        if kind == "drift" and self.settings.for_seed:
            return _given(self.settings.drift)
        return self.given

    def above(
        self, limits: Limits, noise: Sequence[OriginalRuns], ignored: frozenset[str], what: str
    ) -> Limits:
        """Raise a default to :data:`HEADROOM` times the noise, and note where that was done.

        The default of an output is that of the coarsest type that it is computed by way of. It
        is raised as far as a fault is still seen.

        Args:
            limits: Limits; those that the user gave stay.
            noise: Runs of the original.
            ignored: Outputs that do not count as evidence.
            what: Names the limit in the note: "tolerance" or "drift".
        """
        limit, overrides = limits
        if limit.rtol is not None or limit.atol is not None:
            return limits
        defaults, shares = {**self.low(), **overrides}, dict[str, float]()
        raised = dict(defaults)
        for runs in noise:
            for found in runs.against(limit, defaults, ignored, self.low().keys()):
                base = found.output.partition("[")[0]
                share, known = found.share or 0.0, shares.get(found.output, 1 / HEADROOM)
                if not known < share < float("inf") or {found.output, base} & overrides.keys():
                    continue
                shares[found.output], factor = share, HEADROOM * share
                wanted = Tolerance(found.rtol * factor, found.atol * factor)
                now, why = runs.limit_of(found, factor), f"{number(HEADROOM)} {NOISE}"
                if now != wanted:
                    self.beyond[found.output, now] = wanted
                    why = f"less than {why}, which would hide faults"
                raised[found.output] = now
                self._note_raised(
                    what,
                    found.output,
                    f"raised from {_text(found.rtol, found.atol)} to "
                    f"{_text(now.rtol, now.atol)}, {why}: {_spread(found, runs)}",
                )
        return limit, raised

    def or_noise(
        self, check: Check, compare_within: Callable[[dict[str, Tolerance]], Check]
    ) -> Check:
        """Return a failed check as not verified where noise may be all there is.

        Args:
            check: The check.
            compare_within: Repeats it with other limits of outputs.
        """
        wrong = [o for o in check.outputs if not o.passed]
        known = {o.output: self.beyond.get((o.output, _limit(o))) for o in wrong}
        noise = {name: limit for name, limit in known.items() if limit}
        if check.verdict is not Verdict.FAILED or not noise or len(noise) < len(known):
            return check
        again = compare_within(noise).outputs
        if any(not found.passed for found in again if found.output in noise):
            return check
        reason = (
            f"{', '.join(sorted(noise)[:3])} not judged: what differs is within "
            f"{number(HEADROOM)} {NOISE}, and that noise would hide a fault"
        )
        return replace(check, verdict=Verdict.NOT_VERIFIED, reason=reason)

    def _note_raised(self, what: str, output: str, told: str) -> None:
        """Note that a limit was raised: once for tolerance and drift where they agree."""
        both = f"the default limits of {output}, tolerance and drift, are {told}"
        alone = {kind: f"the default {kind} limit of {output} is {told}" for kind in _KINDS}
        known = [n for n in self.notes if n in (both, *alone.values())]
        if not known:
            self.notes.append(alone[what])
        elif both not in known and alone[what] not in known:
            self.notes[self.notes.index(known[0])] = both

    def refuse(
        self,
        noise: Sequence[OriginalRuns],
        ignored: frozenset[str],
        steps: Sequence[tuple[str, str | None, OutputTolerance]] = (),
    ) -> None:
        """Refuse limits that the user gave and that noise alone would break.

        The tolerance of a file for the seed system is raised instead, and that is noted.

        Args:
            noise: Runs of the original.
            ignored: Outputs that do not count as evidence.
            steps: The passes with a tolerance of their own: name, place in the pipeline file,
                and tolerance.

        Raises:
            ConfigError: A limit lies under the noise.
        """
        for what, where, (limit, overrides), all_given in self._asked(steps):
            for runs in noise:
                for found in runs.against(limit, overrides, ignored):
                    base = found.output.partition("[")[0]
                    named = {found.output, base} & overrides.keys()
                    if found.passed or not (all_given or named):
                        continue
                    told = f"verify.tolerance.outputs.{base}" if named else what
                    if self._lift(what, found, runs):
                        continue
                    raise ConfigError(
                        f"{told} ({_text(found.rtol, found.atol)}) lies under the noise: "
                        f"{_spread(found, runs)}",
                        where=where,
                        help=_advice(found, told),
                    )

    def _lift(self, what: str, found: OutputCheck, runs: OriginalRuns) -> bool:
        """Raise a tolerance above the noise; False if it is refused."""
        now = _enough(found)
        if what != _TOLERANCE or not self.settings.for_seed or now is None:
            return False
        self.lifted[found.output] = now
        self.notes.append(
            f"{_TOLERANCE} ({_text(found.rtol, found.atol)}) lies under the noise, and is "
            f"raised to {_text(now.rtol, now.atol)} for {found.output}, {_SPREADS}: "
            f"{_spread(found, runs)}"
        )
        return True

    def _asked(
        self, steps: Sequence[tuple[str, str | None, OutputTolerance]]
    ) -> Iterator[tuple[str, str | None, Limits, bool]]:
        settings = self.settings
        step = self.step(Tolerance())
        yield _TOLERANCE, None, step, _given(settings.tolerance)
        if _given(settings.drift):
            yield "verify.drift", None, self.drift(), True
        for name, where, override in steps:
            limits = self.step(Tolerance(), override)
            yield f"the tolerance of {name}", where, limits, _given(override)


def _given(tolerance: Tolerance | OutputTolerance | object) -> bool:
    return any(getattr(tolerance, key) is not None for key in ("rtol", "atol"))


def _text(rtol: float | None, atol: float | None) -> str:
    return f"rtol {number(rtol or 0.0)}, atol {number(atol or 0.0)}"


def _spread(found: OutputCheck, runs: OriginalRuns) -> str:
    error = "" if found.max_abs is None else f" by up to {number(found.max_abs)}"
    return (
        f"the original differs from itself in output {found.output}{error} between "
        f"{runs.between}"
    )


def _limit(found: OutputCheck) -> Tolerance:
    return Tolerance(found.rtol, found.atol)


def _enough(found: OutputCheck) -> Tolerance | None:
    """Return limits that a difference is well under, None where it is not finite."""
    share, error = found.share or 0.0, found.max_abs or 0.0
    if 0 < share < float("inf"):
        factor = HEADROOM * share
        return Tolerance(found.rtol * factor, found.atol * factor)
    return Tolerance(atol=HEADROOM * error) if 0 < error < float("inf") else None


def _advice(found: OutputCheck, what: str) -> str:
    enough = _enough(found)
    if enough is None:
        return f"leave {what} out, or compare on another engine: values are not finite"
    limits = "" if enough.rtol is None else f"rtol {number(enough.rtol)} and "
    limits += f"atol {number(enough.atol or 0.0)}"
    return f"set {what} to {limits} or more ({_SPREADS}), or leave it out"
