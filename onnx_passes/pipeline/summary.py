"""Models and rewrites as a report holds them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.context import Application
from onnx_passes.report.model import ModelSummary, RewriteSummary
from onnx_passes.surgery.fingerprint import canonical_hash
from onnx_passes.surgery.walk import (
    all_graphs,
    node_count,
    operator_histogram,
    weight_bytes,
)


def summarize(model: ir.Model) -> ModelSummary:
    """Return a model in numbers."""
    return ModelSummary(
        nodes=node_count(model),
        operators=operator_histogram(model),
        initializers=sum(len(graph.initializers) for graph in all_graphs(model)),
        weight_bytes=weight_bytes(model),
        opsets=dict(model.opset_imports),
        hash=canonical_hash(model),
    )


def rewrite_summary(application: Application) -> RewriteSummary:
    """Return one application of a rewrite rule."""
    return RewriteSummary(
        number=application.number,
        rule=application.rule,
        nodes=list(application.nodes),
        replaced=list(application.replaced),
        new_nodes=list(application.new_nodes),
    )
