"""Seeds for random operators that have none, so that two models draw the same numbers."""

from __future__ import annotations

import hashlib

import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.node_queries import draws_without_seed


def with_seeds(model: ir.Model, seed: int) -> ir.Model:
    """Return a model whose random operators have seeds of their own.

    A seed follows from the name of the node's first output, so that it stays the same whatever
    is rewritten around the node. ONNX Runtime would otherwise number its generators, and every
    node less shifts those after it.

    Args:
        model: The model; not changed.
        seed: Goes into all seeds.

    Returns:
        The model itself where each random operator has a seed, else a copy.
    """
    if not any(map(draws_without_seed, all_nodes(model))):
        return model
    copy = copy_model(model)
    for node in all_nodes(copy):
        if draws_without_seed(node):
            text = f"{seed} {node.outputs[0].name}".encode()
            number = int.from_bytes(hashlib.sha256(text).digest()[:2], "big")
            kind = ir.AttrInt64 if node.op_type == "Dropout" else ir.AttrFloat32
            node.attributes["seed"] = kind("seed", number)
    return copy
