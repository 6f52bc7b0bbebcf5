"""The result of a run over a data set, and its text: the same bytes however it was computed.

The worst samples can be written as inputs for other commands.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from onnx_passes.data.dataset import DataSet
from onnx_passes.data.demand import EXIT_CODES, Demand, RunOutcome
from onnx_passes.data.evaluation_job import FORMAT, DataJob
from onnx_passes.data.measures import PairState
from onnx_passes.errors import OnnxPassesError, ReferenceDataError
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.report.text import percent
from onnx_passes.verify.saved import write_samples


@dataclass
class RunTiming:
    """What is not part of the result: how, and how fast it was computed.

    ``seconds`` is wall time. ``samples`` are those that workers evaluated, ``resumed`` the
    shards from the journal.
    """

    executor: str
    seconds: float = 0.0
    samples: int = 0
    retries: int = 0
    resumed: int = 0


@dataclass(frozen=True)
class DataResult:
    """What was found. ``data`` is JSON, and the same for any executor."""

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
    counts: PlainDict,
    timing: RunTiming,
) -> DataResult:
    """Judge what was added up.

    ``counts`` says how many samples were evaluated, left out and not needed.
    """
    alone = len(job.runs) == 1
    pairs: list[PlainDict] = [
        {
            "reference": job.runs[0].name,
            "candidate": run.name,
            "alone": alone,
            "verdict": rule.judge(state, alone=alone),
            "found": state.finish(),
        }
        for run, state in zip(job.candidates, states, strict=True)
    ]
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
        "measures": asdict(job.measures),
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
    order = (RunOutcome.UNDECIDED, RunOutcome.FAILED, RunOutcome.PASSED)
    return next((o for o in order if o in outcomes), RunOutcome.UNDECIDED)


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


MOST = 16
LIST = "samples.json"


def save_worst(
    result: DataResult, folder: Path, models: Sequence[str | Path] | None = None
) -> str:
    """Write the worst samples of a run: each as a file of inputs, and a list of them.

    The folder gets ``0.npz``, ``1.npz``, ... and ``samples.json``. ``models`` are the paths in
    the command; by default those of the run. Returns a sentence on what was written. Raises
    ``ReferenceDataError`` if the folder cannot be written to.
    """
    data = DataSet(result.job.plan)
    paths = [str(path) for path in models or [m.path for m in result.job.models]]
    entries: list[dict[str, object]] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for row in result.worst_rows()[:MOST]:
            path = folder / f"{len(entries)}.npz"
            try:
                feeds = data.feeds(row)
            except OnnxPassesError:
                continue  # its file is gone since
            write_samples(path, [{n: np.asarray(v) for n, v in feeds.items()}])
            again = ["onnx-passes", "compare", *paths, "--inputs", str(path)]
            entries.append(
                {
                    "file": path.name,
                    "sample": result.data["samples"][str(row)],
                    "number": row,
                    "command": shlex.join(again),
                }
            )
        (folder / LIST).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ReferenceDataError(
            f"the worst samples cannot be written: {error.strerror or error}",
            where=str(folder),
            help="choose a folder that you may write to",
        ) from error
    return f"the {len(entries)} worst samples are in {folder}, listed in {LIST}"


_NAMED = 5


def result_lines(
    data: PlainMapping, timing: RunTiming, notes: Sequence[str] = (), *, verbose: bool = False
) -> Iterator[str]:
    """Yield a result as lines for a terminal."""
    counts = data["counts"]
    yield f"{data['outcome'].upper()}  {_counts(counts)}"
    for entry in counts["broken"]:
        yield f"  left out: {entry['name']}: {entry['reason']}"
    shown = counts["left_out"][: None if verbose else _NAMED]
    for entry in shown:
        yield (
            f"  left out: shard {entry['shard']}, samples {entry['first']} to "
            f"{entry['stop'] - 1}: {entry['reason']}"
        )
    if more := len(counts["left_out"]) - len(shown):
        yield f"  left out: {more:,} more shards; -v and --json name them"
    for pair in data["pairs"]:
        yield from _pair(pair, data["samples"], _NAMED if not verbose else 100)
    speed = timing.samples / timing.seconds if timing.seconds else 0.0
    if speed:
        again = f", {timing.resumed} shards from the journal" if timing.resumed else ""
        told = f"{timing.seconds:.1f} s {timing.executor}, {speed:,.0f} samples a second"
        yield f"{told}{again}"
    elif timing.resumed:
        yield f"all {timing.resumed} shards are from the journal"
    for note in notes:
        yield f"note: {note}"


def verdict_text(data: PlainMapping) -> str:
    """Return the verdict of a run with one candidate, in one sentence."""
    (pair,) = data["pairs"]
    found, counts = pair["verdict"].get("accuracy"), data["counts"]
    told = f"over {counts['evaluated']:,} samples of the data set "
    if found is None:
        told += f"{pair['found']['failing_samples']:,} are too far from the original"
    else:
        told += f"{found['drop']:.3%} of accuracy are lost, and {found['limit']:.3%} may be"
        if found["low"] is not None:
            told += (
                f"; it is at least {found['low']:.3%} and at most {found['high']:.3%}, each "
                f"with {percent(found['confidence'], 6)} confidence"
            )
    if counts["quarantined"] or counts["broken"]:
        left = [entry["reason"] for entry in (*counts["left_out"], *counts["broken"])]
        told += f"; {counts['quarantined']:,} samples could not be evaluated: {left[0]}"
    return told


def _counts(counts: PlainMapping) -> str:
    text = f"{counts['evaluated']:,} of {counts['samples']:,} samples evaluated"
    if counts["not_needed"]:
        text += f", the rest was not needed to decide ({counts['not_needed']:,})"
    if counts["quarantined"]:
        text += f", {counts['quarantined']:,} could not be"
    if counts["broken"]:
        text += f"; files that cannot be read: {len(counts['broken'])}"
    return text


def _pair(pair: PlainMapping, names: Mapping[str, str], most: int) -> Iterator[str]:
    verdict, found = pair["verdict"], pair["found"]
    alone = pair["alone"]
    yield pair["candidate"] if alone else f"{pair['candidate']} against {pair['reference']}"
    yield from _accuracy(verdict)
    yield from _metrics(verdict)
    yield from _classes(found["classes"], verdict["statistics"], alone=alone)
    if alone:
        return
    for missing, count in found["missing"].items():
        yield f"  output {missing} in {count:,} samples"
    for name, output in found["outputs"].items():
        yield f"  {name}: {_output(output)}"
        for reason, count in output["reasons"].items():
            yield f"    {reason}, in {count:,} samples"
        if output["failing"]:
            listed = [names[str(row)] for _, row in output["failing"][:most]]
            yield f"    worst: {', '.join(listed)}"
    share = verdict["statistics"].get("failing_samples")
    if share is not None:
        sure = percent(verdict["statistics"]["confidence"], 6)
        yield (
            f"  samples that differ: {found['failing_samples']:,}; at most "
            f"{share['high']:.3%} of such data, with {sure} confidence"
        )


def _accuracy(verdict: PlainMapping) -> Iterator[str]:
    accuracy = verdict.get("accuracy")
    if accuracy is None:
        return
    sure = percent(accuracy["confidence"], 6)
    low, high = accuracy["low"], accuracy["high"]
    text = f"  accuracy drop {accuracy['drop']:.3%}, limit {accuracy['limit']:.3%}"
    if low is not None:
        text += f"; at least {low:.3%} and at most {high:.3%}, each with {sure} confidence"
    yield text
    yield (
        f"  of {accuracy['samples']:,} samples {accuracy['lost']:,} were lost and "
        f"{accuracy['gained']:,} gained"
    )
    if (needed := accuracy.get("samples_needed")) is not None:
        yield f"  not decided: about {needed:,} samples would be needed if the drop stays"


def _metrics(verdict: PlainMapping) -> Iterator[str]:
    for name, metric in verdict.get("metrics", {}).items():
        text = f"  {name} {_number(metric['value'])}"
        yield f"{text}, range {_number(metric['low'])} to {_number(metric['high'])}"


def _classes(
    classes: PlainMapping | None, statistics: PlainMapping, *, alone: bool
) -> Iterator[str]:
    if classes is None:
        return
    if classes["labelled"]:
        sides = ("right",) if alone else ("left", "right")
        told = []
        for side in sides:
            share = statistics.get(f"accuracy_{side}")
            text = f"{classes[f'accuracy_{side}']:.3%}"
            if share is not None:
                text += f" ({share['low']:.3%} to {share['high']:.3%})"
            told.append(text)
        yield f"  accuracy {' -> '.join(told)}"
    if not alone:
        yield f"  decisions that changed: {classes['flips']:,} of {classes['rows']:,}"


def _output(output: PlainMapping) -> str:
    parts = [f"{output['failing_samples']:,} of {output['samples']:,} samples differ"]
    if output["rmse"] is not None:
        parts += [
            f"max error {_number(output['max_abs'])}",
            f"RMSE {_number(output['rmse'])}",
            f"SQNR {_number(output['sqnr_db'])} dB",
        ]
    return ", ".join(parts)


def _number(value: Plain) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
