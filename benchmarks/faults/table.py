"""The table of planted faults."""

from __future__ import annotations

from collections import Counter, defaultdict

from benchmarks.faults.case import EVERYWHERE, Setting
from benchmarks.faults.runner import Kept, Outcome, examine, judge, keep, run
from benchmarks.faults.suite import FAULTS, INNOCENTS, KINDS

_ABOUT = (
    "Each pass is right at every match but one, chosen before, and runs verified. *Caught "
    "by* is the check that refused it, with the setting where that is not the default one. "
    "*Named* says whether the guilty rewrite was named, of as many as the pass made. *Time* "
    "is the run with the fault over the one without it (one run each)."
)

_HEAD = "| fault | model | contract | caught by | named | rewrites | time | by default |"

_SETTINGS = {
    "default": "by default settings",
    "adversarial": "by `verify.inputs: adversarial`",
    "given": "only on inputs made for the fault",
    "float64": "by `verify.reference: float64`",
    "strict": "refused as not verified (`--strict`)",
}


def tables(*, full: bool = True) -> list[str]:
    """Return the tables of all faults, and of correct rewrites."""
    lines = ["## Planted faults", "", _ABOUT, "", _HEAD, "|---" * 8 + "|"]
    outcomes = []
    for fault in FAULTS:
        outcomes.append(examine(fault, full=full))
        lines.append(_row(outcomes[-1]))
    kept = [keep(cls, source, full=full) for cls, source in INNOCENTS]
    return [*lines, "", *_totals(outcomes), "", *_correct(outcomes, kept)]


def _row(outcome: Outcome) -> str:
    fault, decisive = outcome.fault, outcome.decisive
    by = decisive.by if decisive.caught else f"**{decisive.verdict}**"
    if outcome.setting != "default":
        by += f" ({outcome.setting})"
    default = outcome.seen["default"]
    cells = [
        *(fault.description, fault.source.name, ", ".join(map(str, fault.cls.contracts()))),
        *(by, decisive.named, str(outcome.applications)),
        f"{default.seconds / outcome.clean_seconds:.1f}",
        "caught" if default.caught else default.verdict,
    ]
    return f"| {' | '.join(cells)} |"


def _totals(outcomes: list[Outcome]) -> list[str]:
    count = len(outcomes)
    caught = [o for o in outcomes if o.decisive.caught]
    by = Counter(o.setting for o in caught)
    settings = ", ".join(f"{n} {_SETTINGS[s]}" for s, n in by.most_common())
    named = sum(o.decisive.named == "right" for o in caught)
    rules = sum(o.decisive.verdict == "failed" and o.decisive.named != "-" for o in caught)
    wrong = sum(s.named == "wrong" for o in outcomes for s in o.seen.values())
    share = named / max(rules, 1)
    return [
        f"- Caught: {len(caught)} of {count}: {settings}.",
        f"- Right rewrite named: {named} of {rules} ({share:.0%}); an innocent one: {wrong}.",
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


def tables_by_kind() -> list[str]:
    """Return by kind how many wrong passes are caught, and right ones accused."""
    settings: tuple[Setting, ...] = ("default", "adversarial")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for fault in KINDS.faults:
        row = counts[fault.family]
        row["passes"] += 1
        for setting in settings:
            result = run(fault, EVERYWHERE, full=False, setting=setting)
            row[setting] += (seen := judge(result, fault, EVERYWHERE)).caught
        if not seen.caught:
            print(f"{fault.family}: {fault.name}: {seen.verdict}", flush=True)
    for cls, source in KINDS.innocents:
        row = counts[cls.__module__]
        row["passes"] += 1
        row["accused"] += bool(keep(cls, source, full=False).accused)
    columns = ("passes", *settings, "accused")
    lines = [f"| kind | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return lines + [
        f"| {kind} | {' | '.join(str(row[name]) for name in columns)} |"
        for kind, row in counts.items()
    ]
