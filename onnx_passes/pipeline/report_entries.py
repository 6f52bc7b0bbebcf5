"""Models and rewrites as a report holds them."""

from __future__ import annotations

from onnx_passes.model.walk import all_graphs, operator_histogram
from onnx_passes.passes.context import Application
from onnx_passes.report.run_report import ModelSummary, RewriteSummary
from onnx_passes.verify.snapshot import Snapshot


def summarize(state: Snapshot) -> ModelSummary:
    """Return a model in numbers; its hash waits until somebody asks.

    Args:
        state: The model.
    """
    summary = ModelSummary(
        nodes=state.nodes,
        operators=operator_histogram(state.model),
        initializers=sum(len(graph.initializers) for graph in all_graphs(state.model)),
        weight_bytes=state.weight_bytes,
        opsets=dict(state.model.opset_imports),
        hash="",
    )
    summary.put_off_hash(lambda: state.hash)
    return summary


def rewrite_summary(application: Application) -> RewriteSummary:
    """Return one application of a rewrite rule."""
    return RewriteSummary(
        number=application.number,
        rule=application.rule,
        nodes=list(application.nodes),
        replaced=list(application.replaced),
        new_nodes=list(application.new_nodes),
    )
