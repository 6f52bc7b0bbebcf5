"""What a preset makes of a quantised network: what is left, and what it decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.certifying.models.recipe import INTEGERS
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.passes.analysis._demands import floats_between, steps_of
from onnx_passes.runtime.engine_base import Feeds
from tests.corpus.settled import result_of
from tests.corpus.ties import Ties, ties_of


@dataclass(frozen=True)
class Outcome:
    """What a preset made of one network.

    Attributes:
        model: The result.
        ties: What became of each decision.
        floats: Nodes between thresholds that compute in floating point.
        quantisers: Quantisers that are left.
        is_regular: Whether integers suffice between the network's quantisers.
    """

    model: ir.Model
    ties: Ties
    floats: list[ir.Node]
    quantisers: list[ir.Node]
    is_regular: bool


def outcome(original: ir.Model, config: PipelineConfig, feeds: Sequence[Feeds]) -> Outcome:
    """Run a preset on a network, and account for what the result decides."""
    result = result_of(original, config).model
    _, left = steps_of(result.graph)
    return Outcome(
        result,
        ties_of(original, result, feeds),
        floats_between(result.graph),
        left,
        INTEGERS in original.metadata_props,
    )
