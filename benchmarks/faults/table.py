"""The table of planted faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from benchmarks.faults import oracle
from benchmarks.faults.runner import Kept, Outcome, Seen, examine, keep
from benchmarks.faults.suite import FAULTS, INNOCENTS, Fault

_ABOUT = """\
Each pass is right at every match but one, chosen before, and runs verified. *Caught by* is
the check that refused it, with the setting where that is not the default one; *by default*
is what the default settings made of it. *Named* says whether the guilty rewrite was named,
of as many as the pass made. *Time* is the run with the fault by default settings, localised
where it failed, over the verified run without it (one run each). *Usual check*: one random
input, the whole model in ONNX Runtime, numpy's allclose at its default tolerances, and at
rtol = atol = 1e-3; *refuses both* where it refuses the pass without its fault as well."""

_HEAD = (
    "| fault | model | contract | caught by | named | rewrites | time | by default "
    "| usual check | usual, 1e-3 |"
)

_SETTINGS = {
    "default": "by default settings",
    "adversarial": "by `verify.inputs: adversarial`",
    "given": "only on inputs made for the fault",
    "float64": "by `verify.reference: float64`",
    "strict": "refused as not verified (`--strict`)",
}


@dataclass(frozen=True)
class Usual:
    """What the usual check makes of a pass, at its two tolerances.

    Attributes:
        sees: Whether it sees the fault.
        refuses: Whether it refuses the pass without the fault.
    """

    sees: tuple[bool, bool]
    refuses: tuple[bool, bool]

    @property
    def words(self) -> list[str]:
        """What to call it, by tolerance."""
        return [
            ("refuses both" if refuses else "seen") if sees else "not seen"
            for sees, refuses in zip(self.sees, self.refuses, strict=True)
        ]


def tables(*, full: bool = True) -> list[str]:
    """Return the tables of all faults, and of correct rewrites."""
    about = " ".join(_ABOUT.splitlines())
    lines = ["## Planted faults", "", about, "", _HEAD, "|---" * 10 + "|"]
    outcomes: list[tuple[Outcome, Usual]] = []
    for fault in FAULTS:
        outcome = examine(fault, full=full)
        found = _usual(fault, outcome.at, full=full)
        outcomes.append((outcome, found))
        lines.append(_row(outcome, found))
    kept = [keep(cls, source, full=full) for cls, source in INNOCENTS]
    return [*lines, "", *_totals(outcomes), "", *_correct([o for o, _ in outcomes], kept)]


def _usual(fault: Fault, at: str, *, full: bool) -> Usual:
    original, model = fault.source.proto(full=full), fault.source.model(full=full)
    found = []
    for where in (at, ""):
        result = oracle.rewritten(fault, where, full=full)
        default, loose = oracle.usual(original, result, model)
        found.append((not default, not loose))
    return Usual(*found)


def _row(outcome: Outcome, usual: Usual) -> str:
    fault, decisive = outcome.fault, outcome.decisive
    contract = ", ".join(map(str, fault.cls.contracts()))
    by = decisive.by if decisive.caught else f"**{decisive.verdict}**"
    if outcome.setting != "default":
        by += f" ({outcome.setting})"
    cells = [
        fault.description,
        fault.source.name,
        contract,
        by,
        decisive.named,
        str(outcome.applications),
        f"{outcome.seen['default'].seconds / outcome.clean_seconds:.1f}",
        _brief(outcome.seen["default"]),
        *usual.words,
    ]
    return f"| {' | '.join(cells)} |"


def _brief(seen: Seen) -> str:
    return "caught" if seen.caught else seen.verdict


def _totals(outcomes: list[tuple[Outcome, Usual]]) -> list[str]:
    count = len(outcomes)
    caught = [o for o, _ in outcomes if o.decisive.caught]
    by = Counter(o.setting for o in caught)
    settings = ", ".join(f"{n} {_SETTINGS[s]}" for s, n in by.most_common())
    named = sum(o.decisive.named == "right" for o in caught)
    rules = sum(o.decisive.verdict == "failed" and o.decisive.named != "-" for o in caught)
    wrong = sum(s.named == "wrong" for o, _ in outcomes for s in o.seen.values())
    words = [Counter(u.words[i] for _, u in outcomes) for i in (0, 1)]
    usual = [f"{w['seen']}, and refuses {w['refuses both']} with and without" for w in words]
    share = named / max(rules, 1)
    return [
        f"- Caught: {len(caught)} of {count}: {settings}.",
        f"- Right rewrite named: {named} of {rules} ({share:.0%}); an innocent one: {wrong}.",
        f"- Of the {count} passes the usual check tells with their fault from without in "
        f"{usual[0]}; at 1e-3 in {usual[1]}.",
    ]


def _correct(outcomes: list[Outcome], kept: list[Kept]) -> list[str]:
    rows = [*kept, *map(_kept, outcomes)]
    bad = [r for r in rows if r.accused]
    exact = sum(r.applications for r in rows if r.contract == "equality")
    total = sum(r.applications for r in rows)
    beside = sum(max(o.applications - 1, 0) for o in outcomes)
    lines = [
        f"- Correct rewrites accused: {sum(r.accused for r in bad)} of {total}, in "
        f"{len(rows)} passes of their own ({exact} under equality, {total - exact} under "
        f"tolerance); {beside} more shared a pass with a wrong one.",
    ]
    return lines + [
        f"- Accused: {r.name} on {r.model}: {r.verdict.partition(chr(10))[0]}" for r in bad
    ]


def _kept(outcome: Outcome) -> Kept:
    """Return the pass of a fault without it."""
    fault = outcome.fault
    return Kept(
        f"{fault.name}, without its fault",
        fault.source.name,
        ", ".join(map(str, fault.cls.contracts())),
        outcome.clean_applications,
        len(outcome.accused),
        "; ".join(outcome.accused),
    )
