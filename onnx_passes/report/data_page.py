"""The result of a run over a data set as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.evaluation_result import DataResult
from onnx_passes.errors import OnnxPassesError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.data_set import result_lines
from onnx_passes.report.page import samples
from onnx_passes.report.page.rendering import render_page
from onnx_passes.report.summary import Tone, Words

MOST = 16
_TONES: dict[str, Tone] = {"passed": "good", "failed": "bad"}


def data_page(result: DataResult) -> str:
    """Return a result as a page for a browser.

    The worst samples are read again; those whose files are gone are left out.
    """
    data = result.data
    words = Words(data["outcome"].upper(), _TONES.get(data["outcome"], "warn"))
    models = ", ".join(model["name"] for model in data["models"])
    return render_page(
        "data.html",
        f"{words.head}: {models[:200]}",
        "report.css",
        words=words,
        models=models,
        whole="\n".join(result_lines(data, result.timing.to_json(), verbose=True)),
        left_out=list(_left_out(data["counts"])),
        pairs=[_pair(pair) for pair in data["pairs"]],
        worst=[(name, samples.values_of(feeds)) for name, feeds in _worst(result)],
    )


def _left_out(counts: PlainMapping) -> Iterator[tuple[str, str, str]]:
    """Yield what was not evaluated: a file or a shard, its samples, and why."""
    for part in counts["broken"]:
        yield part["name"], "", part["reason"]
    for e in counts["left_out"]:
        yield f"shard {e['shard']}", f"{e['first']} to {e['stop'] - 1}", e["reason"]


def _pair(pair: PlainMapping) -> PlainDict:
    classes, alone = pair["found"]["classes"], pair["alone"]
    drawn: list[PlainDict | None] = []
    if classes is not None:
        if not alone:
            drawn.append(samples.matrix("Reference and candidate", classes, "agreement"))
        drawn.append(samples.matrix("Label and decision", classes, "right"))
    return {
        "candidate": pair["candidate"],
        "alone": alone,
        "errors": [
            (name, rows)
            for name, output in pair["found"]["outputs"].items()
            if (rows := samples.errors(output))
        ],
        "matrices": [found for found in drawn if found is not None],
        "classes": [] if classes is None else samples.per_class(classes, alone=alone),
    }


def _worst(result: DataResult) -> list[tuple[str, dict[str, Array]]]:
    data = DataSet(result.job.plan)
    found: list[tuple[str, dict[str, Array]]] = []
    for row in result.worst_rows()[:MOST]:
        try:
            feeds = {name: np.asarray(v) for name, v in data.feeds(row).items()}
        except (OnnxPassesError, OSError):
            continue  # its file is gone since
        found.append((result.data["samples"][str(row)], feeds))
    return found
