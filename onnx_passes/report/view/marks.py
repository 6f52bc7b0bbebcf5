"""What a saved run says of the nodes of its model, before or after: regions and evidence."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.patterns import shorten
from onnx_passes.report.pass_report import PassReport, RewriteSummary
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.view.graph import Mark
from onnx_passes.verify.evidence import ORDER, Evidence


def marks_of(report: RunReport, model: ir.Model) -> dict[str, Mark]:
    """Return marks by the name of a value that a node of the model computes.

    A node is marked by each application that matched it or put it there, and by each part of a
    change whose frontier it computes. If there are several, the weakest evidence is kept.

    Args:
        report: A run on this model, or one whose result it is.
        model: The model of the page.
    """
    names: dict[str, str] = {}
    for node in all_nodes(model):
        names.update({shorten(v.name): v.name for v in node.outputs if v.name})
    found: dict[str, Mark] = {}
    for done in report.passes:
        by_number = {rewrite.number: rewrite for rewrite in done.rewrites}
        for part in done.evidence:
            mark = Mark(part.kind.value, _region(done, part))
            for name in _values(part, by_number.values(), part.numbers):
                known = names.get(shorten(name))
                if known is not None and _weaker(mark, found.get(known)):
                    found[known] = mark
    return found


def _region(done: PassReport, part: Evidence) -> str:
    told = f"pass {done.index + 1}, {done.name}: {part.what}"
    return f"{told} ({part.reason})" if part.reason else told


def _values(
    part: Evidence, rewrites: Iterable[RewriteSummary], numbers: Iterable[int]
) -> Iterable[str]:
    yield from part.values
    wanted = set(numbers)
    for rewrite in rewrites:
        if rewrite.number in wanted:
            yield from (name for pair in rewrite.replaced for name in pair)
            for text in (*rewrite.nodes, *rewrite.new_nodes):
                yield from text.partition(" = ")[0].split(", ")


def _weaker(mark: Mark, known: Mark | None) -> bool:
    order = [kind.value for kind in ORDER]
    return known is None or order.index(mark.kind) > order.index(known.kind)
