"""The task of a search, the record of its scores and models, and its result."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.data.confidence import Interval
from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.model.load import LoadedModel
from onnx_passes.model.save import Inspect, save_model
from onnx_passes.ops.bodies import CUSTOM, attach_to_model
from onnx_passes.plain import PlainDict, PlainMapping, spelled
from onnx_passes.report.text import amount, ending_text, plural, snr_text
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.runtime.ort import rounding_engine
from onnx_passes.tuning.audit import audit
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.groups import (
    FLOAT32,
    UNITS,
    Format,
    FormatGroup,
    Objective,
    Observed,
    by_format,
    convert,
)
from onnx_passes.tuning.loss_budget import (
    AllSamples,
    BudgetUse,
    LossBudget,
    SamplesInMemory,
    Sketch,
    Stream,
    StreamedSamples,
)
from onnx_passes.verify.snapshot import ReadBack


@dataclass(frozen=True)
class Task:
    """A model, its groups and formats, and what may be lost.

    The budget is about all `feeds`, or a `stream` in their place; groups are scored on
    `sketch`. `evaluations` is the number of whole models that may run on all samples; no other
    starts after `seconds`. The search fills `known` and `drawn`. Engines in `judges` must
    build what is chosen, and measure nothing. The search ends once no choice is expected to
    cost less by more than the share `gap`. With `score_all`, groups are scored even if the
    cheapest choice keeps the budget. `given` is the model before its opset was raised, None if
    it was not; `notes` say why.
    """

    model: ir.Model
    groups: Sequence[FormatGroup]
    formats: Mapping[str, Format]
    engine: Engine
    objective: Objective
    budget: LossBudget
    feeds: Sequence[Feeds]
    sketch: Sequence[Feeds]
    evaluations: int = 8
    seconds: float = math.inf
    stream: Stream | None = None
    known: Observed = field(default_factory=Observed)
    judges: Sequence[Engine] = ()
    gap: float = 0.01
    drawn: Sketch | None = None
    score_all: bool = False
    given: ir.Model | None = None
    notes: Sequence[str] = ()

    @property
    def original(self) -> ir.Model:
        """The model that others are measured against."""
        return self.model if self.given is None else self.given

    def build(self, names: Mapping[str, str]) -> ir.Model:
        """Return the model with formats by group, or raise PassError."""
        nodes = {group.name: group.nodes for group in self.groups}
        return convert(self.model, by_format(nodes, names), self.formats, self.known)

    def run_few(self, model: ir.Model) -> list[Outputs]:
        """Return the outputs of a model on the samples of the scores."""
        with rounding_engine(self.engine, model).prepare(model) as session:
            return self.join([session.run(feed) for feed in self.sketch])

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Recorded ranges of values."""
        return self.known.ranges

    def whole(self) -> AllSamples:
        """Return all samples, to measure models on."""
        if self.stream is not None:
            return StreamedSamples(self.original, self.stream, self.budget)
        return SamplesInMemory(self.original, self.engine, self.feeds, self.budget)

    def spread(self, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Return outputs of all samples, made of those of the samples of the scores."""
        return outputs if self.drawn is None else self.drawn.spread(outputs)

    def join(self, outputs: list[Outputs]) -> list[Outputs]:
        """Join outputs of the samples of the scores, where those of all samples are joined."""
        size = self._batch
        return outputs if size is None else join_outputs(outputs, size)

    def join_effects(self, score: Score, outputs: list[Outputs]) -> Score:
        """Join what a group moves, as its outputs are joined."""
        size = self._batch
        return score if size is None else join_effects(score, outputs, size)

    @property
    def _batch(self) -> int | None:
        return None if self.stream is None else self.stream.plan.binding.batch

    @property
    def share(self) -> float:
        """How large the samples of the scores are, as a share of all."""
        if self.stream is not None:
            plan = self.stream.plan
            return min(1.0, len(self.sketch) * plan.binding.batch / plan.used)
        return _bytes(self.sketch) / max(1, _bytes(self.feeds))

    @property
    def key(self) -> str:
        """What identifies the task: a hash of model, data and settings."""
        settings = {
            "groups": [[g.name, g.nodes, g.formats] for g in self.groups],
            "formats": sorted(repr(item) for item in self.formats.values()),
            "engine": self.engine.name,
            "judges": [judge.name for judge in self.judges],
            "objective": self.objective,
            "format": FORMAT,
            "budget": [dict(self.budget.limits), repr(self.budget.flips)],
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        if self.stream is not None:
            digest.update(self.stream.plan.digest.encode())
        digest.update(ir.to_proto(self.model).SerializeToString(deterministic=True))
        for sample in (*self.feeds, *self.sketch):
            for name, value in sorted(sample.items()):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TriedModel:
    """A model that was run, with the format of each group.

    `predicted` is a share of the budget. Without `spent`, it did not run. `why` is one clause
    if it was rejected.
    """

    names: Mapping[str, str]
    cost: float
    predicted: float
    spent: BudgetUse | None
    accepted: bool
    why: str = ""


Ended: TypeAlias = Literal[
    "optimal", "within the gap", "evaluations", "time", "interrupted", "not recorded"
]


@dataclass
class SearchResult:
    """How a search ended.

    `model` is the best that keeps the budget, and never missing; `start` is the cost of the
    original. No choice that may be expected to keep the budget costs less than `bound`, unless
    it was run and rejected. `front` has choices that no other beats in loss and cost. `work`
    counts models that were run on all samples. `judges` holds by engine why it does not
    build the original, and `notes` why the original is returned.
    """

    task: Task
    model: ir.Model
    best: TriedModel
    bound: float
    start: float
    tried: list[TriedModel] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    front: list[PlainDict] = field(default_factory=list)
    ended: Ended = "optimal"
    work: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    judges: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a share of it."""
        cost = self.best.cost
        return max(0.0, (cost - max(self.bound, 0.0)) / cost) if cost else 0.0

    def fitted(self) -> list[str]:
        """Return the formats that took integers from most of the samples that judged them."""
        task = self.task
        if task.stream is not None or 2 * _rows(task.sketch) <= _rows(task.feeds):
            return []
        return sorted(n for n in set(self.best.names.values()) if task.formats[n].learns)


def _rows(samples: Sequence[Feeds]) -> int:
    """Return the number of rows of samples, by the first axis of their first input."""
    firsts = [value for sample in samples for value in [*sample.values()][:1]]
    return sum((*np.asarray(first).shape, 1)[0] for first in firsts)


def _bytes(feeds: Sequence[Feeds]) -> int:
    return sum(v.nbytes for f in feeds for v in f.values() if isinstance(v, np.ndarray))


def join_outputs(batches: Sequence[Outputs], size: int) -> list[Outputs]:
    """Join batches along the axis of samples, or return them if an output does not join."""
    joined: Outputs = {}
    for name in batches[0]:
        whole = _join([batch.get(name) for batch in batches], size)
        if whole is None:
            return list(batches)
        joined[name] = whole
    return [joined]


def join_effects(score: Score, batches: Sequence[Outputs], size: int) -> Score:
    """Join what a group in a format moves, as its outputs are joined."""
    if len(join_outputs(batches, size)) == len(batches):
        return score
    moved = dict.fromkeys(name for effect in score.effect for name in effect)
    joined: dict[str, Array] = {}
    for name in moved:
        parts = [_effect_on(e, name, b) for e, b in zip(score.effect, batches, strict=True)]
        whole = _join(parts, size)
        assert whole is not None, "effects have the shapes of outputs"
        joined[name] = whole
    return replace(score, effect=[joined] if score.effect else ())


def _effect_on(effect: Mapping[str, Array], name: str, like: Outputs) -> Array:
    value = like[name]
    assert isinstance(value, np.ndarray), "only tensors move"
    return effect[name] if name in effect else np.zeros_like(value)


def _join(values: Sequence[object], size: int) -> Array | None:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if len(arrays) < len(values) or len({a.dtype for a in arrays}) > 1:
        return None
    first = arrays[0].shape
    # The last batch may be smaller.
    batched = bool(first) and first[0] == size and all(a.ndim for a in arrays)
    if batched and len({a.shape[1:] for a in arrays}) == 1:
        return np.concatenate(arrays)
    if size == 1 and len({a.shape for a in arrays}) == 1:
        return np.stack(arrays)
    return None


FORMAT = 2
"""Of the entries of a record."""
_NAME = "record.jsonl"


class Record:
    """Decisions in a folder, one a line, from which a search continues.

    Without a folder, all is in memory. `key` identifies model, data and settings: UsageError
    if the folder holds the record of another search.
    """

    def __init__(self, folder: Path | None, key: str) -> None:
        self.folder, self.entries = folder, list[PlainDict]()
        if folder is None:
            return
        (folder / "effects").mkdir(parents=True, exist_ok=True)
        path = folder / _NAME
        if path.exists():
            self.entries = list(_lines(path))
            found = self.entries[0].get("key") if self.entries else None
            if found != key:
                raise UsageError(
                    f"the record in {folder} is that of another model, data or settings",
                    help="give another --record, or remove the folder",
                )
            # A line that was cut short would spoil the next one.
            path.write_text("".join(_line(entry) for entry in self.entries))
        else:
            self.add("search", format=FORMAT, key=key)

    def add(self, event: str, **data: object) -> None:
        """Write down a decision."""
        entry = {"event": event, **data}
        self.entries.append(entry)
        if self.folder is not None:
            with open(self.folder / _NAME, "a", encoding="utf-8") as file:
                file.write(_line(entry))

    def of(self, event: str) -> list[PlainDict]:
        """Return the decisions of a kind, in order."""
        return [entry for entry in self.entries if entry["event"] == event]

    def add_score(self, score: Score) -> None:
        """Write down a score, and how it moves the outputs."""
        if self.score(score.group, score.format) is not None:
            return
        number = len(self.of("score"))
        if self.folder is not None:
            arrays = {
                f"{place} {name}": array
                for place, sample in enumerate(score.effect)
                for name, array in sample.items()
            }
            path = self.folder / "effects" / f"{number}.npz"
            np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy names no such type
        self.add(
            "score",
            number=number,
            group=score.group,
            format=score.format,
            refused=score.refused,
            snr=spelled(score.snr),
            cost=score.cost,
            shared=score.shared,
            samples=len(score.effect),
        )

    def score(self, group: str, name: str) -> Score | None:
        """Return a score that was written down; None if there is none."""
        for entry in self.of("score"):
            if (entry["group"], entry["format"]) == (group, name):
                return self._read(entry)
        return None

    def _read(self, entry: PlainMapping) -> Score | None:
        if self.folder is None:
            return None
        path = self.folder / "effects" / f"{entry['number']}.npz"
        if not path.exists():
            return None
        effect = _read_arrays(path, entry["samples"])
        return Score(
            entry["group"],
            entry["format"],
            entry["refused"],
            float(entry["snr"]),
            entry["cost"],
            effect,
            shared=entry.get("shared", 0.0),
        )

    def add_sketch(self, sketch: Sketch) -> None:
        """Write down which samples groups are scored on, if they were chosen."""
        if sketch.numbers:
            self.add(
                "sketch",
                numbers=list(sketch.numbers),
                represented=[list(places) for places in sketch.represented],
                by_rows=sketch.by_rows,
            )

    def sketch(self, feeds: Sequence[Feeds]) -> Sketch | None:
        """Return the samples that were chosen by an earlier run; None if none were."""
        for entry in self.of("sketch"):
            numbers, represented = entry["numbers"], entry["represented"]
            return Sketch.of(feeds, numbers, represented, by_rows=entry["by_rows"])
        return None


def _read_arrays(path: Path, samples: int) -> list[PlainDict]:
    found: list[PlainDict] = [{} for _ in range(samples)]
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            place, _, name = key.partition(" ")
            found[int(place)][name] = arrays[key]
    return found


def _line(entry: PlainMapping) -> str:
    return json.dumps(entry, sort_keys=True) + "\n"


def _lines(path: Path) -> Iterator[PlainDict]:
    for line in path.read_text("utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if isinstance(entry, dict):
            yield entry


def read_record(folder: Path) -> list[PlainDict]:
    """Return the decisions in a folder; UsageError if there are none."""
    path = folder / _NAME
    if not path.is_file():
        raise UsageError(
            f"there is no record in {folder}", help="run tune with --record first"
        )
    return list(_lines(path))


def record_tried(record: Record, tried: TriedModel) -> None:
    """Write down a model that was tried."""
    record.add(
        "try",
        names=dict(tried.names),
        cost=tried.cost,
        predicted=spelled(tried.predicted),
        accepted=tried.accepted,
        why=tried.why,
        spent=_write_use(tried.spent),
    )


def _write_use(spent: BudgetUse | None) -> PlainDict | None:
    if spent is None:
        return None
    return {
        "shares": {n: spelled(v) for n, v in spent.shares.items()},
        "values": {n: spelled(v) for n, v in spent.values.items()},
        "flips": None if spent.flips is None else asdict(spent.flips),
        "broken": spent.broken,
        "deployed": _write_use(spent.deployed),
    }


def _read_use(data: PlainMapping | None) -> BudgetUse | None:
    if data is None:
        return None
    return BudgetUse(
        {n: float(v) for n, v in data["shares"].items()},
        {n: float(v) for n, v in data["values"].items()},
        None if data["flips"] is None else Interval(**data["flips"]),
        data["broken"],
        _read_use(data["deployed"]),
    )


def find_tried(record: Record, names: Mapping[str, str]) -> TriedModel | None:
    """Return what an earlier run has found of a choice; None if nothing."""
    for entry in record.of("try"):
        if entry["names"] == dict(names):
            return TriedModel(
                names,
                entry["cost"],
                float(entry["predicted"]),
                _read_use(entry["spent"]),
                entry["accepted"],
                entry["why"],
            )
    return None


def save(result: SearchResult, path: Path, source: LoadedModel) -> None:
    """Write the model; the file is read back before it is in its place.

    `source` has its external data. ModelError if the file cannot be written, VerificationError
    if it does not hold the measured model or a chosen format.
    """
    attach_to_model(result.model, (CUSTOM,))
    save_model(result.model, path, source=source, inspect=inspector(result))


def inspector(result: SearchResult) -> Inspect:
    """Return a check of a written file against a result, for ``save_model``."""
    same = ReadBack()

    def inspect(model: ir.Model, load: Callable[[], ir.Model]) -> None:
        same(model, load)
        task = result.task
        found = audit(
            load(), task.model, task.groups, result.best.names, task.formats, task.ranges
        )
        if found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise VerificationError(
                f"the written file does not hold the chosen formats: "
                f"{'; '.join(map(str, found[:3]))}{more}",
                help="no file was replaced; report the model",
            )

    return inspect


def to_json(result: SearchResult) -> PlainDict:
    """Return all of a result but the model."""
    task, best = result.task, result.best
    tried: list[PlainDict] = [
        {
            "names": dict(tried.names),
            "cost": tried.cost,
            "predicted": spelled(tried.predicted),
            "measured": None if tried.spent is None else spelled(tried.spent.total),
            "accepted": tried.accepted,
            "why": tried.why,
        }
        for tried in result.tried
    ]
    return {
        "objective": task.objective,
        "unit": UNITS[task.objective],
        "ended": result.ended,
        "cost": {"original": result.start, "chosen": best.cost, "bound": result.bound},
        "gap": result.gap,
        **use_to_json(task, best.spent),
        "groups": [_group(result, name, tried) for name in best.names],
        "front": result.front,
        "tried": tried,
        "data": None
        if task.stream is None
        else {"samples": task.stream.plan.used, "plan": task.stream.plan.digest},
        "notes": [*task.notes, *result.notes],
        "judges": dict(result.judges),
        "fitted": result.fitted(),
        "work": result.work,
        "seconds": result.seconds,
    }


def use_to_json(task: Task, spent: BudgetUse | None) -> PlainDict:
    """Return the budget of a task, and what a model uses of it."""
    flips, asked = (None if spent is None else spent.flips), task.budget.flips
    deployed = None if spent is None else spent.deployed
    return {
        "engine": task.engine.name,
        "budget": {n: list(limits) for n, limits in task.budget.limits.items()},
        "values": {n: spelled(v) for n, v in (spent.values if spent else {}).items()},
        "deployed": {n: spelled(v) for n, v in (deployed.values if deployed else {}).items()},
        "shares": {n: spelled(v) for n, v in (spent.shares if spent else {}).items()},
        "flips": flips
        and {
            "share": flips.value,
            "at most": flips.high,
            "confidence": None if asked is None else asked.confidence,
            "kind": "statistical, by Clopper and Pearson",
        },
    }


def use_lines(data: PlainMapping) -> list[str]:
    """Return what a model uses of the budget (see :func:`use_to_json`) as text."""
    text = []
    for name, value in sorted(data["values"].items()):
        low, high = data["budget"][name]
        told = f"measured {name} {float(value):.6g} in [{low:g}, {high:g}]"
        if name in data["deployed"]:
            told += f"; {data['engine']} gives {float(data['deployed'][name]):.6g}"
        text.append(told)
    if data["flips"] is not None:
        flips = data["flips"]
        text.append(
            f"flips {flips['share']:.3%}, at most {flips['at most']:.3%} of all data with "
            f"{flips['confidence']:.0%} confidence ({flips['kind']})"
        )
    return text


def _group(result: SearchResult, name: str, tried: Sequence[PlainMapping]) -> PlainDict:
    scores = {s.format: s for s in result.scores if s.group == name}
    chosen = result.best.names[name]
    group = next(g for g in result.task.groups if g.name == name)
    start = scores[FLOAT32].cost if FLOAT32 in scores else 0.0
    own = scores.get(chosen)
    gain = start - own.cost if own else 0.0
    return {
        "group": name,
        "nodes": list(group.nodes),
        "format": chosen,
        "snr": spelled(own.snr) if own else "inf",
        "gain": gain,
        "refused": {n: s.refused for n, s in scores.items() if s.refused},
        "others": {
            n: {
                "snr": spelled(s.snr),
                "gain": start - s.cost,
                "why": _why(n, name, start - s.cost, (chosen, gain), tried),
            }
            for n, s in scores.items()
            if not s.refused and n not in (chosen, FLOAT32)
        },
    }


def lines(data: PlainMapping) -> list[str]:
    """Return a result (see :func:`to_json`) as text: a table of groups, then the front."""
    unit, cost = data["unit"], data["cost"]
    if cost["original"]:
        saved = 1 - cost["chosen"] / cost["original"]
        text = [
            f"cost {amount(cost['chosen'], unit)} of {amount(cost['original'], unit)}: "
            f"{saved:.1%} less; {ending_text(data['gap'], data['ended'])}",
        ]
    else:
        text = [f"no cost is known, the original is written; ended: {data['ended']}"]
    text += data["notes"]
    for name, why in data["judges"].items():
        note = f"does not build the original, so it refuses no model: {why}" if why else ""
        text.append(f"{name} {note or 'builds the model'}")
    if data["fitted"]:
        text.append(
            f"{', '.join(data['fitted'])}: weights were rounded by the samples that measure "
            "the budget; other data may lose more, so compare on some that was held back"
        )
    if data["data"] is not None:
        text.append(f"measured on {data['data']['samples']:,} samples, read as a stream")
    text += use_lines(data)
    rows = [("group", "format", "SNR [dB]", "gain", "refused")]
    refused: dict[str, list[str]] = {}
    for group in data["groups"]:
        noise, gain = snr_text(group["snr"], 1), amount(group["gain"], unit)
        rows.append(
            (group["group"], group["format"], noise, gain, ", ".join(group["refused"]))
        )
        for name, why in group["refused"].items():
            refused.setdefault(f"{name}: {why}", []).append(group["group"])
    text += ["", *_table(rows)]
    for why, groups in refused.items():
        text.append(f"refused in {plural(len(groups), 'group')}: {why}")
    text += ["", *_table([("expected share of budget", "cost"), *_front(data)])]
    return text


def _front(data: PlainMapping) -> list[tuple[str, ...]]:
    unit = data["unit"]
    return [(f"{float(p['expected']):.4g}", amount(p["cost"], unit)) for p in data["front"]]


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def explain(entries: Sequence[PlainMapping], node: str, data: PlainMapping) -> list[str]:
    """Return why a node has its format, from the record of a search."""
    group = next((name for name, nodes in data.items() if node in nodes), None)
    if group is None:
        return [f"{node} is in no group, so it stays in float32"]
    choices = [entry for entry in entries if entry["event"] == "choice"]
    chosen = choices[-1]["names"].get(group, FLOAT32) if choices else FLOAT32
    scores = [e for e in entries if e["event"] == "score" and e["group"] == group]
    start = next((e["cost"] for e in scores if e["format"] == FLOAT32), 0.0)
    own = next((e["cost"] for e in scores if e["format"] == chosen), start)
    text = [f"{node} is in the group {group}, which has the format {chosen}"]
    for entry in scores:
        if entry["format"] == FLOAT32:
            continue
        if entry["refused"]:
            text.append(f"  {entry['format']}: refused, {entry['refused']}")
            continue
        gain = start - entry["cost"]
        why = _why(entry["format"], group, gain, (chosen, start - own), entries)
        why = "chosen" if entry["format"] == chosen else why
        noise = float(entry["snr"])
        text.append(f"  {entry['format']}: SNR {noise:.1f} dB, gain {gain:.4g}; {why}")
    return text


def _why(
    name: str,
    group: str,
    gain: float,
    chosen: tuple[str, float],
    entries: Sequence[PlainMapping],
) -> str:
    """Return why a group does not have a format."""
    if gain <= 0:
        return "not chosen, it costs as much as float32 or more"
    for other in reversed(entries):
        if not other.get("accepted", True) and other["names"].get(group) == name:
            return f"not chosen, a model with it was rejected: {other['why']}"
    if gain > chosen[1]:
        return (
            f"not chosen, it gains more than {chosen[0]}, but loses what others need of the "
            "budget, or gains less than the gap that is allowed"
        )
    return f"not chosen, {chosen[0]} gains as much"
