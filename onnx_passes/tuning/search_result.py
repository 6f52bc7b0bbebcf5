"""What a search found, as JSON and as text, and the file that holds its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.errors import VerificationError
from onnx_passes.model.load import LoadedModel
from onnx_passes.model.save import save_model
from onnx_passes.ops.bodies import CUSTOM, attach_to_model
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.text import amount, ending_text, plural, snr_text
from onnx_passes.tuning.audit import audit
from onnx_passes.tuning.part_costs import UNITS
from onnx_passes.tuning.part_formats import FLOAT32
from onnx_passes.tuning.search_journal import plain
from onnx_passes.tuning.search_task import SearchResult
from onnx_passes.verify.read_back import ReadBack

Inspect: TypeAlias = Callable[[ir.Model, Callable[[], ir.Model]], None]


def save(result: SearchResult, path: Path, source: LoadedModel) -> None:
    """Write the model; the file is read back before it is in its place.

    Args:
        result: What the search found.
        path: The file.
        source: The model that was read, for its external data.

    Raises:
        ModelError: The file cannot be written.
        VerificationError: It does not hold the model that was measured, or a layer does not
            have the format that was chosen.
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
    spent = best.spent
    tried: list[PlainDict] = [
        {
            "names": dict(tried.names),
            "cost": tried.cost,
            "predicted": plain(tried.predicted),
            "measured": None if tried.spent is None else plain(tried.spent.total),
            "accepted": tried.accepted,
            "why": tried.why,
        }
        for tried in result.tried
    ]
    return {
        "objective": task.objective,
        "unit": UNITS[task.objective],
        "engine": task.engine.name,
        "ended": result.ended,
        "cost": {"original": result.start, "chosen": best.cost, "bound": result.bound},
        "gap": result.gap,
        "budget": {n: list(limits) for n, limits in task.budget.limits.items()},
        "values": {n: plain(v) for n, v in (spent.values if spent else {}).items()},
        "shares": {n: plain(v) for n, v in (spent.shares if spent else {}).items()},
        "flips": None
        if spent is None or spent.flips is None
        else {
            "share": spent.flips.value,
            "at most": spent.flips.high,
            "confidence": task.budget.flips.confidence if task.budget.flips else None,
            "kind": "statistical, by Clopper and Pearson",
        },
        "groups": [_group(result, name, tried) for name in best.names],
        "front": result.front,
        "tried": tried,
        "data": None
        if task.stream is None
        else {"samples": task.stream.plan.used, "plan": task.stream.plan.digest},
        "judges": dict(result.judges),
        "fitted": result.fitted(),
        "work": result.work,
        "seconds": result.seconds,
    }


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
        "snr": plain(own.snr) if own else "inf",
        "gain": gain,
        "bounds": {
            "kind": "sound, for each element of a product, for inputs in the recorded ranges",
            "nodes": {n: plain(b) for n, b in own.bounds.items()} if own else {},
        },
        "refused": {n: s.refused for n, s in scores.items() if s.refused},
        "others": {
            n: {
                "snr": plain(s.snr),
                "gain": start - s.cost,
                "why": _why(n, name, start - s.cost, (chosen, gain), tried),
            }
            for n, s in scores.items()
            if not s.refused and n not in (chosen, FLOAT32)
        },
    }


def lines(data: PlainMapping) -> list[str]:
    """Return a result as lines of text: a table of groups, then the front.

    Args:
        data: What :func:`to_json` returns.
    """
    unit, cost = data["unit"], data["cost"]
    if cost["original"]:
        saved = 1 - cost["chosen"] / cost["original"]
        text = [
            f"cost {amount(cost['chosen'], unit)} of {amount(cost['original'], unit)}: "
            f"{saved:.1%} less; {ending_text(data['gap'], data['ended'])}",
        ]
    else:
        text = [f"no cost is known, the original is written; ended: {data['ended']}"]
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
    for name, value in sorted(data["values"].items()):
        low, high = data["budget"][name]
        text.append(f"measured {name} {float(value):.6g} in [{low:g}, {high:g}]")
    if data["flips"] is not None:
        flips = data["flips"]
        text.append(
            f"flips {flips['share']:.3%}, at most {flips['at most']:.3%} of all data with "
            f"{flips['confidence']:.0%} confidence ({flips['kind']})"
        )
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
    """Return why a node has its format, from the record of a search.

    Args:
        entries: The record.
        node: Name of the node.
        data: The groups: names of nodes by group.
    """
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
        if node in entry["bounds"]:
            bound = float(entry["bounds"][node])
            text.append(
                f"    each element of its product is off by at most {bound:.4g} "
                "(sound bound, for inputs in the recorded ranges)"
            )
    return text


def _why(
    name: str,
    group: str,
    gain: float,
    chosen: tuple[str, float],
    entries: Sequence[PlainMapping],
) -> str:
    """Return why a group does not have a format.

    Args:
        name: The format.
        group: The group.
        gain: What it gains.
        chosen: The format that was chosen, and what it gains.
        entries: Models that were tried and interactions that were found, as a record has them.
    """
    if gain <= 0:
        return "not chosen, it costs as much as float32 or more"
    for other in reversed(entries):
        if group in other.get("groups", ()):
            return "not chosen, it loses more beside other groups than alone"
        if not other.get("accepted", True) and other["names"].get(group) == name:
            return f"not chosen, a model with it was rejected: {other['why']}"
    if gain > chosen[1]:
        return (
            f"not chosen, it gains more than {chosen[0]}, but loses what others need of the "
            "budget, or gains less than the gap that is allowed"
        )
    return f"not chosen, {chosen[0]} gains as much"
