"""The task of a search, the models that it tried, and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import VerificationError
from onnx_passes.model.load import LoadedModel
from onnx_passes.model.save import Inspect, save_model
from onnx_passes.ops.bodies import CUSTOM, attach_to_model
from onnx_passes.plain import PlainDict, PlainMapping, spelled
from onnx_passes.report.text import amount, ending_text, plural, snr_text
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.runtime.ort import rounding_engine
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.groups import (
    FLOAT32,
    UNITS,
    Format,
    FormatGroup,
    Objective,
    Observed,
    audit,
    by_format,
    convert,
)
from onnx_passes.tuning.loss_budget import BudgetUse, LossBudget, SamplesInMemory
from onnx_passes.verify.snapshot import ReadBack


@dataclass(frozen=True)
class Task:
    """A model, its groups and formats, and what may be lost.

    The budget is about all `feeds`; groups are scored on the few of `sketch`. `evaluations` is
    the number of whole models that may run on all samples; no other starts after `seconds`.
    The search fills `known`. Engines in `judges` must
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
    known: Observed = field(default_factory=Observed)
    judges: Sequence[Engine] = ()
    gap: float = 0.01
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
            return [session.run(feed) for feed in self.sketch]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Recorded ranges of values."""
        return self.known.ranges

    def whole(self) -> SamplesInMemory:
        """Return all samples, to measure models on."""
        return SamplesInMemory(self.original, self.engine, self.feeds, self.budget)

    @property
    def share(self) -> float:
        """How large the samples of the scores are, as a share of all."""
        return _bytes(self.sketch) / max(1, _bytes(self.feeds))


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
        if 2 * _rows(task.sketch) <= _rows(task.feeds):
            return []
        return sorted(n for n in set(self.best.names.values()) if task.formats[n].learns)


def _rows(samples: Sequence[Feeds]) -> int:
    """Return the number of rows of samples, by the first axis of their first input."""
    firsts = [value for sample in samples for value in [*sample.values()][:1]]
    return sum((*np.asarray(first).shape, 1)[0] for first in firsts)


def _bytes(feeds: Sequence[Feeds]) -> int:
    return sum(v.nbytes for f in feeds for v in f.values() if isinstance(v, np.ndarray))


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
        found = audit(load(), task.model, task.groups, result.best.names, task.formats)
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


def _why(
    name: str,
    group: str,
    gain: float,
    chosen: tuple[str, float],
    tried: Sequence[PlainMapping],
) -> str:
    """Return why a group does not have a format."""
    if gain <= 0:
        return "not chosen, it costs as much as float32 or more"
    for other in reversed(tried):
        if not other["accepted"] and other["names"].get(group) == name:
            return f"not chosen, a model with it was rejected: {other['why']}"
    if gain > chosen[1]:
        return (
            f"not chosen, it gains more than {chosen[0]}, but loses what others need of the "
            "budget, or gains less than the gap that is allowed"
        )
    return f"not chosen, {chosen[0]} gains as much"
