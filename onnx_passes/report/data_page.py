"""The result of a run over a data set as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.evaluation_result import DataResult
from onnx_passes.errors import OnnxPassesError
from onnx_passes.plain import PlainMapping
from onnx_passes.report.data_set import result_lines
from onnx_passes.report.html import document
from onnx_passes.report.page import samples
from onnx_passes.report.page.markup import Element, named, tag
from onnx_passes.report.page.overview import badge
from onnx_passes.report.page.table import table
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
    return document(
        f"{words.head}: {models[:200]}",
        tag(
            "header",
            tag("p", tag("strong", "onnx-passes"), class_="brand"),
            tag("h1", badge(words)),
            tag("p", named(models), class_="models"),
            class_=f"hero {words.tone}",
        ),
        tag(
            "main",
            tag(
                "pre",
                "\n".join(result_lines(data, result.timing.to_json(), verbose=True)),
                class_="whole",
            ),
            list(_left_out(data["counts"])),
            [list(_pair(pair)) for pair in data["pairs"]],
            samples.worst(_worst(result)),
        ),
    )


def _left_out(counts: PlainMapping) -> Iterator[Element]:
    rows = [[named(part["name"]), "", part["reason"]] for part in counts["broken"]]
    rows += [
        [f"shard {e['shard']}", f"{e['first']} to {e['stop'] - 1}", e["reason"]]
        for e in counts["left_out"]
    ]
    if rows:
        told = table("Left out", ["Part", "Samples", "Reason"], rows)
        yield tag("section", tag("h2", "Left out"), told, class_="card warn")


def _pair(pair: PlainMapping) -> Iterator[Element]:
    classes, alone = pair["found"]["classes"], pair["alone"]
    drawn = [samples.errors(name, out) for name, out in pair["found"]["outputs"].items()]
    if classes is not None:
        drawn += [
            None if alone else samples.matrix("Reference and candidate", classes, "agreement"),
            samples.matrix("Label and decision", classes, "right"),
        ]
    shown = [figure for figure in drawn if figure is not None]
    yield tag(
        "section",
        tag("h2", named(pair["candidate"])),
        tag("div", shown, class_="figures") if shown else None,
    )
    found = None if classes is None else samples.per_class(classes, alone=alone)
    if found is not None:
        yield found


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
