"""Which of a pass's rewrites are wrong.

Local scores usually say so with no search: each application is held against the nodes that it
matched, on recorded values. Where they do not, because a rewrite is in a loop or a function,
or only wrong together with others, the pass is bisected. Either way the answer is put to the
test: the pass is run without the accused, and must then keep its contract.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.attempt import Attempt, Attempts, SearchEnded
from onnx_passes.report.summary import margin
from onnx_passes.verify.bisection import first_true
from onnx_passes.verify.case import Case
from onnx_passes.verify.local import LocalScore
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.score import GAP
from onnx_passes.verify.snapshot import Change

MOST_CULPRITS = 32
"""Number of wrong rewrites beyond which the pass is wrong, and not some of them."""
MOST_HUNTED = 5
"""Number of searches for a rewrite that is not wrong by itself."""

Scores = Callable[[Sequence[Application], frozenset[str], Attempt], list[LocalScore | None]]


@dataclass(frozen=True)
class Culprit:
    """A rewrite found wrong.

    Attributes:
        application: The rewrite, with its number in the run that failed.
        how: How it was found: "by its own error", "by bisection", "the only rewrite", or "by
            its region alone" and what a compiler says of that.
        score: Its own error relative to the largest element; None where it has none.
        value: The value that it computes wrongly, on recorded values; None where not known.
    """

    application: Application
    how: str
    score: float | None = None
    value: OutputCheck | None = None


@dataclass
class CulpritSearch:
    """What a search found.

    Attributes:
        culprits: The rewrites found wrong, in the order in which they were found.
        rest: The pass without them, where that keeps its contract.
        notes: What a reader should know of the search, a sentence each.
    """

    culprits: list[Culprit] = field(default_factory=list)
    rest: Attempt | None = None
    notes: list[str] = field(default_factory=list)


def find_culprits(
    attempts: Attempts,
    failed: Attempt,
    scores: Scores,
    *,
    bisect: bool = True,
) -> CulpritSearch:
    """Find the rewrites without which a pass keeps its contract.

    Args:
        attempts: Runs the pass.
        failed: What it made with all its rewrites.
        scores: Local scores of rewrites, given those left out, on the sample that failed.
        bisect: Whether to search where no rewrite is wrong by itself. Where the pass is held
            against the original, the fault may be in an earlier one.

    Returns:
        The rewrites; none where no single one can be named, with a note that says why.
    """
    search = CulpritSearch()
    if failed.applied:
        try:
            _Hunt(attempts, scores, search, bisect).run(failed)
        except SearchEnded as ended:
            search.notes.append(f"{ended}: more may be wrong")
        except OnnxPassesError as error:
            # Localising explains a failure that is already certain: it must not replace it.
            search.notes.append(f"localising ended early: {error.message}")
    # Each run numbers anew; the numbers reported are those of the failure.
    numbers = {a.key: a.number for a in failed.applied}
    search.culprits = [
        replace(c, application=replace(c.application, number=numbers[c.application.key]))
        for c in search.culprits
        if c.application.key in numbers
    ]
    return search


def pairs_around(
    attempts: Attempts,
    failed: Attempt,
    search: CulpritSearch,
    name: str,
    steps: tuple[str, ...] = (),
) -> list[Case]:
    """Return pairs of models around what is wrong in a pass, those that differ least first.

    Args:
        attempts: Runs the pass.
        failed: What it made with all its rewrites.
        search: What was found in it.
        name: What to call the pass.
        steps: The pass, as the pipeline writes it.
    """
    before, found = attempts.before.model, [c.application for c in search.culprits]
    pairs: list[tuple[ir.Model, ir.Model, str]] = []
    if found and found[0].key in failed.keys:  # else it only applies once others are left out
        number, count = found[0].number, failed.keys.index(found[0].key) + 1
        # A pass that does not repeat what it did is shown as a whole.
        with suppress(Exception):
            good, bad = (
                attempts.apply(count=n, expected=failed.keys[:n]).model
                for n in (count - 1, count)
            )
            pairs.append((good, bad, f"what rewrite {number} of {name} changed"))
            pairs.append((before, bad, f"what {name} changed up to rewrite {number}"))
    if found and search.rest is not None and search.rest.change is not Change.NONE:
        numbers = ", ".join(str(application.number) for application in found)
        what = f"what rewrite {numbers} of {name} changed"
        pairs.append((search.rest.model, failed.model, what))
    pairs.append((before, failed.model, f"what {name} changed"))
    return [Case(old, new, {}, what, steps=steps) for old, new, what in pairs]


@dataclass
class _Hunt:
    attempts: Attempts
    scores: Scores
    search: CulpritSearch
    bisect: bool

    def run(self, failed: Attempt) -> None:
        current, hunted = failed, 0
        while current.fails and current.applied:
            if hunted >= MOST_HUNTED or len(self.search.culprits) >= MOST_CULPRITS:
                others = current.applied
                current = self.attempts.apply(only=frozenset())
                if not current.fails:
                    self.search.notes.append(
                        f"{len(self.search.culprits)} rewrites are wrong, and more: "
                        f"{len(others)} others were not looked at"
                    )
                    return
                break
            by_score = self._by_score(current)
            if by_score is not None:
                found, current = by_score
                self.search.culprits += found
                continue
            named = self._by_bisection(current) if self.bisect else []
            if not named:
                return
            self.search.culprits += named
            hunted += 1
            current = self._without(())
        if current.fails:
            self.search.culprits = [c for c in self.search.culprits if c.score is not None]
            self.search.notes.append(
                "the pass fails even without its rewrites: a rule may change more than "
                "it returns"
            )
        count = len(self.search.culprits)
        if count > MOST_CULPRITS:
            self.search.notes.append(
                f"{count} rewrites are wrong: the pass is, not some of them"
            )
        elif not current.fails:
            self.search.rest = current

    @property
    def skip(self) -> frozenset[str]:
        return frozenset(culprit.application.key for culprit in self.search.culprits)

    def _without(self, more: Sequence[Culprit]) -> Attempt:
        keys = frozenset(culprit.application.key for culprit in more)
        return self.attempts.apply(skip=self.skip | keys)

    def _by_score(self, current: Attempt) -> tuple[list[Culprit], Attempt] | None:
        """Accuse by local scores, the worst first, as few as cure the pass.

        Returns:
            Those accused and the pass without them; None where no rewrite is wrong by itself.
        """
        scores = [s for s in self.scores(current.applied, self.skip, current) if s]
        wrong = sorted((s for s in scores if not s.passed), key=lambda s: -s.score)
        suspects = [Culprit(s.application, s.how, *measured_by(s)) for s in wrong]
        if not suspects:
            return None
        everything = self._without(suspects)
        if everything.fails:
            return suspects, everything
        if all(suspect.value is None for suspect in suspects):
            return suspects, everything  # each was seen to fail alone
        tried = {len(suspects): everything}

        def cures(count: int) -> bool:
            tried[count] = self._without(suspects[:count])
            return not tried[count].fails

        fewest = first_true(len(suspects), cures)
        return self._as_far_off(suspects, fewest, tried[fewest])

    def _as_far_off(
        self, suspects: Sequence[Culprit], count: int, best: Attempt
    ) -> tuple[list[Culprit], Attempt]:
        """Accuse as well those with no better score: they may only show together."""
        more = count
        while more < len(suspects) and _score(suspects[more]) * GAP >= _score(
            suspects[count - 1]
        ):
            more += 1
        if more > count:
            attempt = self._without(suspects[:more])
            if not attempt.fails:
                return list(suspects[:more]), attempt
        return list(suspects[:count]), best

    def _by_bisection(self, current: Attempt) -> list[Culprit]:
        """Find a least set of rewrites that fail together, in few runs for each of them."""
        applied = current.applied
        if len(applied) == 1:
            return [Culprit(applied[0], "the only rewrite")]
        position, good, bad = self._first_failing(current)
        if _gradual(good, bad):
            self.search.notes.append(
                "no rewrite can be named: the error grows little by little, and at no rewrite "
                f"by {GAP:g} times"
            )
            return []
        last = applied[position - 1]
        needed, others = [last], list(applied[: position - 1])
        while others and not self._fail_alone(needed):
            place = self._first_needed(others, needed)
            needed.insert(0, others[place - 1])
            others = others[: place - 1]
        guilty = [a for a in needed if a is last or self._is_accomplice(a, needed)]
        how = "by bisection" if len(guilty) == 1 else "by bisection, wrong together"
        return [Culprit(application, how) for application in guilty]

    def _first_failing(self, current: Attempt) -> tuple[int, Attempt | None, Attempt]:
        tried = {len(current.applied): current}

        def fails(count: int) -> bool:
            keys = current.keys[:count]
            tried[count] = self.attempts.apply(skip=self.skip, count=count, expected=keys)
            return tried[count].fails

        first = first_true(len(current.applied), fails)
        return first, tried.get(first - 1), tried[first]

    def _first_needed(
        self, others: Sequence[Application], needed: Sequence[Application]
    ) -> int:
        """Return how many of the others some rewrites need to fail."""
        return first_true(len(others), lambda n: self._fail_alone([*others[:n], *needed]))

    def _fail_alone(self, applications: Sequence[Application]) -> bool:
        keys = frozenset(application.key for application in applications)
        return self.attempts.apply(skip=self.skip, only=keys).fails

    def _is_accomplice(self, one: Application, needed: Sequence[Application]) -> bool:
        """Whether one is at fault itself, and does not just make room for the others."""
        rest = {application.key for application in needed if application is not one}
        attempt = self.attempts.apply(skip=self.skip, only=frozenset(rest))
        return rest <= set(attempt.keys) and not attempt.fails


def measured_by(score: LocalScore) -> tuple[float, OutputCheck] | tuple[()]:
    """Return the error and the value of a score; nothing where no number decided."""
    return (score.score, score.worst) if score.measured else ()


def _score(culprit: Culprit) -> float:
    return culprit.score or 0.0


def _gradual(good: Attempt | None, bad: Attempt) -> bool:
    """Whether the error at the first failing rewrite stands out too little to blame it."""
    if good is None:
        return False
    low, high = margin(good.checks), margin(bad.checks)
    if low is None or high is None or not high.limit:
        return False
    return high.ratio < GAP * low.ratio
