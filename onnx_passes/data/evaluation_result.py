"""The result of a run over a data set: the same bytes however it was computed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from onnx_passes.data.accumulators.exact_sums import plain
from onnx_passes.data.accumulators.metric_sums import Metrics
from onnx_passes.data.accumulators.pair import PairState
from onnx_passes.data.confidence import bootstrap
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.demand import EXIT_CODES, Demand, RunOutcome
from onnx_passes.data.evaluation_job import FORMAT, DataJob
from onnx_passes.errors import OnnxPassesError
from onnx_passes.plain import PlainDict


@dataclass
class RunTiming:
    """What is not part of the result: how, where and how fast it was computed.

    Attributes:
        executor: What ran the shards.
        seconds: Wall time.
        samples: Samples that workers evaluated.
        busy: Seconds that workers spent on shards.
        processor: Seconds of processor time that they spent.
        retries: Shards that were tried again.
        resumed: Shards that came from the journal.
        machines: Shards by digest of the processor.
    """

    executor: str
    seconds: float = 0.0
    samples: int = 0
    busy: float = 0.0
    processor: float = 0.0
    retries: int = 0
    resumed: int = 0
    machines: Counter[str] = field(default_factory=Counter)
    started: float = field(default_factory=time.perf_counter)

    def add(self, outcome: PlainDict) -> None:
        """Add the outcome of a shard."""
        self.busy += float(outcome.get("seconds", 0.0))
        self.processor += float(outcome.get("processor", 0.0))
        if "error" not in outcome:
            self.samples += int(outcome["samples"])
        if "worker" in outcome:
            self.machines[str(outcome["worker"].get("cpu", ""))] += 1

    def to_json(self) -> PlainDict:
        """Return the fields as JSON has them."""
        return {
            "executor": self.executor,
            "seconds": self.seconds,
            "samples": self.samples,
            "samples_per_second": self.samples / self.seconds if self.seconds else None,
            "busy_seconds": self.busy,
            "processor_seconds": self.processor,
            "retries": self.retries,
            "resumed_shards": self.resumed,
            "machines": dict(self.machines),
        }


@dataclass(frozen=True)
class DataResult:
    """What was found.

    Attributes:
        data: The result as JSON has it; the same for any executor.
        timing: What is not part of it.
        job: What was evaluated.
    """

    data: PlainDict
    timing: RunTiming
    job: DataJob

    @property
    def outcome(self) -> RunOutcome:
        """How the run ended."""
        return RunOutcome(self.data["outcome"])

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return EXIT_CODES[self.outcome]

    def text(self) -> str:
        """Return the result as canonical JSON."""
        return json.dumps(self.data, sort_keys=True, indent=2, allow_nan=False) + "\n"

    def worst_rows(self) -> list[int]:
        """Return the numbers of the samples that are worth a look, the worst first."""
        rows: dict[int, None] = {}
        for pair in self.data["pairs"]:
            classes = pair["found"]["classes"]
            lists = [] if classes is None else [classes["lost"], classes["flipped"]]
            for output in pair["found"]["outputs"].values():
                lists += [output["failing"], output["largest"]]
            for found in lists:
                rows.update(dict.fromkeys(row for _, row in found))
        return list(rows)


def describe(
    job: DataJob,
    rule: Demand,
    states: Sequence[PairState],
    groups: Sequence[Sequence[Metrics]],
    counts: PlainDict,
    timing: RunTiming,
) -> DataResult:
    """Judge what was added up.

    Args:
        job: What was evaluated.
        rule: What is demanded.
        states: What all samples add up to, by candidate.
        groups: Metrics by group of shards and candidate; empty without metrics.
        counts: How many samples were evaluated, left out and not needed.
        timing: What is not part of the result.
    """
    alone = len(job.runs) == 1
    pairs: list[PlainDict] = []
    for place, (run, state) in enumerate(zip(job.candidates, states, strict=True)):
        pairs.append(
            {
                "reference": job.runs[0].name,
                "candidate": run.name,
                "alone": alone,
                "verdict": rule.judge(state, alone=alone),
                "found": state.finish(),
                "bootstrap": _bootstrap([g[place] for g in groups], rule.confidence),
            }
        )
    outcomes = {RunOutcome(pair["verdict"]["outcome"]) for pair in pairs}
    outcome = _overall(outcomes, rule, complete=not (counts["left_out"] or counts["broken"]))
    data: PlainDict = {
        "format": FORMAT,
        "outcome": str(outcome),
        "plan": job.plan.digest,
        "models": [{"name": m.name, "digest": m.digest} for m in job.models],
        "runs": [
            {"name": r.name, "model": r.model, "engine": dict(r.engine.make().describe())}
            for r in job.runs
        ],
        "measures": job.measures.to_json(),
        "counts": counts,
        "pairs": pairs,
    }
    result = DataResult(json.loads(json.dumps(data)), timing, job)
    result.data["samples"] = _names(job, result.worst_rows())
    return result


def _overall(outcomes: set[RunOutcome], rule: Demand, *, complete: bool) -> RunOutcome:
    """Return how the run ends. An element that is too far off is one, whatever is missing."""
    certain = rule.accuracy is None and not rule.metrics
    if RunOutcome.FAILED in outcomes and (complete or certain):
        return RunOutcome.FAILED
    if not complete:
        return RunOutcome.INCOMPLETE
    return (
        RunOutcome.UNDECIDED
        if RunOutcome.UNDECIDED in outcomes
        else next(
            (o for o in (RunOutcome.FAILED, RunOutcome.PASSED) if o in outcomes),
            RunOutcome.UNDECIDED,
        )
    )


def _names(job: DataJob, rows: Sequence[int]) -> dict[str, str]:
    """Return the names of samples by number."""
    data = DataSet(job.plan)
    found: dict[str, str] = {}
    for row in rows:
        try:
            found[str(row)] = data.name(row)
        except (OnnxPassesError, OSError):
            found[str(row)] = f"sample {row}"  # the file is gone since
    return found


def _bootstrap(groups: Sequence[Metrics], confidence: float) -> PlainDict:
    """Return the bounds of metrics by resampling groups of shards."""
    found: PlainDict = {}
    if not groups:
        return found
    for name in groups[0].states:
        states = [group.states[name] for group in groups]
        empty = Metrics((name,)).states[name].to_json()
        used = [state for state in states if state.to_json() != empty]
        if len(used) < 8:
            found[name] = None
            continue
        forms = [state.to_json() for state in used]

        def measure(
            numbers: list[int], name: str = name, forms: list[object] = forms
        ) -> float:
            total = Metrics((name,)).states[name]
            for number in numbers:
                other = Metrics((name,)).states[name]
                other.load(forms[number])
                total.merge(other)
            return float(total.finish())

        low, high = bootstrap(measure, len(forms), confidence)
        found[name] = {
            "low": plain(low),
            "high": plain(high),
            "confidence": confidence,
            "groups": len(forms),
        }
    return found
