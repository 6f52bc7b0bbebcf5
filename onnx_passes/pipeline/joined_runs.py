"""Run parts of models beside each other in one session.

To make a session takes longer than to run a few nodes, and there is a part for each rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.ops.randomness import may_draw
from onnx_passes.runtime.engine_base import Array, Engine, Outputs
from onnx_passes.runtime.parallel import run_one
from onnx_passes.runtime.rounding_barriers import with_barriers
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.region import Region, boundary_of
from onnx_passes.verify.region_models import joined_model

_MOST_BYTES = 1 << 24
"""Bytes of weights in one session: kernels copy them, and parts alone do so in turn."""


@dataclass(frozen=True)
class NodeRun:
    """Nodes that are run by themselves.

    Attributes:
        model: The model that they are from.
        nodes: The nodes, in order.
        rows: What they read, by name, and maybe more; of the same types and ranks in each row.
    """

    model: ir.Model
    nodes: Sequence[ir.Node]
    rows: Sequence[Mapping[str, Array]]

    @property
    def nbytes(self) -> int:
        """Bytes of the constants that the nodes read."""
        values = {v for node in self.nodes for v in node.inputs if v is not None}
        return sum(t.nbytes for t in map(constant_tensor, values) if t is not None)


def stands_alone(model: ir.Model, nodes: Sequence[ir.Node]) -> bool:
    """Whether nodes compute the same beside others, whatever their values are named.

    Seeds of random operators follow from names, and bodies read values by name.

    Args:
        model: The model that they are from.
        nodes: The nodes.
    """
    return not model.functions and not any(
        may_draw(node) or any(subgraphs_of(node)) for node in nodes
    )


def run_joined(engine: Engine, pieces: Sequence[NodeRun]) -> list[list[Outputs]] | None:
    """Run pieces in one session, each on its own rows.

    Args:
        engine: What runs them.
        pieces: The nodes of each, with what they read.

    Returns:
        What each piece computes, by row; None where they do not run together, so that each
        has to be run by itself.
    """
    imports = {tuple(sorted(piece.model.graph.opset_imports.items())) for piece in pieces}
    versions = {piece.model.ir_version for piece in pieces}
    if len(imports) != 1 or len(versions) != 1:
        return None
    if sum(piece.nbytes for piece in pieces) > _MOST_BYTES:
        return None
    if not all(stands_alone(piece.model, piece.nodes) for piece in pieces):
        return None
    boundaries = [boundary_of(piece.nodes) for piece in pieces]
    parts = [
        (Region(tuple(piece.nodes), boundary, ()), piece.rows)
        for piece, boundary in zip(pieces, boundaries, strict=True)
    ]
    joined = joined_model(pieces[0].model, parts)
    if with_barriers(joined) is not joined:
        return None  # what is below float32 is rounded as its neighbors demand
    found: list[list[Outputs]] = [[{} for _ in piece.rows] for piece in pieces]
    try:
        with engine.prepare(joined) as session:
            for turn in range(max(len(piece.rows) for piece in pieces)):
                feeds = {
                    f"{place}/{name}": piece.rows[min(turn, len(piece.rows) - 1)][name]
                    for place, piece in enumerate(pieces)
                    for name in boundaries[place]
                }
                for name, value in run_one(session, feeds).items():
                    place, _, own = name.partition("/")
                    if turn < len(found[int(place)]):
                        found[int(place)][turn][own] = value
    except EngineError:
        return None
    return found
