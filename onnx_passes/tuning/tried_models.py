"""Models that were tried, in the record of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from onnx_passes.data.confidence import Interval
from onnx_passes.tuning.loss_budget import Spent
from onnx_passes.tuning.search_journal import Record, plain
from onnx_passes.tuning.search_task import TriedModel


def record_tried(record: Record, tried: TriedModel) -> None:
    """Write down a model that was tried.

    Args:
        record: The journal.
        tried: The model, and what was found of it.
    """
    spent = tried.spent
    record.add(
        "try",
        names=dict(tried.names),
        cost=tried.cost,
        predicted=plain(tried.predicted),
        accepted=tried.accepted,
        why=tried.why,
        shares=None if spent is None else {n: plain(v) for n, v in spent.shares.items()},
        values=None if spent is None else {n: plain(v) for n, v in spent.values.items()},
        flips=None if spent is None or spent.flips is None else asdict(spent.flips),
    )


def find_tried(record: Record, names: Mapping[str, str]) -> TriedModel | None:
    """Return what an earlier run has found of a choice; None if nothing.

    Args:
        record: The journal.
        names: The format of each group, by name.
    """
    for entry in record.of("try"):
        if entry["names"] == dict(names):
            shares, values = entry["shares"], entry["values"]
            spent = None
            if shares is not None:
                spent = Spent(
                    {n: float(v) for n, v in shares.items()},
                    {n: float(v) for n, v in values.items()},
                    None if entry["flips"] is None else Interval(**entry["flips"]),
                )
            return TriedModel(
                names,
                entry["cost"],
                float(entry["predicted"]),
                spent,
                entry["accepted"],
                entry["why"],
            )
    return None
