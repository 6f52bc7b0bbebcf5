"""The result of a run over a data set: the same bytes however it was computed.

The worst samples can be written as inputs for other commands.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from onnx_passes.data.dataset import DataSet
from onnx_passes.data.demand import EXIT_CODES, Demand, RunOutcome
from onnx_passes.data.evaluation_job import FORMAT, DataJob
from onnx_passes.data.measures import PairState
from onnx_passes.errors import OnnxPassesError, ReferenceDataError
from onnx_passes.plain import PlainDict
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
