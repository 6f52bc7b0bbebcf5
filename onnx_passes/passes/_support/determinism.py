"""Which nodes compute the same result every time."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.ops.node_queries import RANDOM, RANDOM_CONTRIB
from onnx_passes.passes._support.scopes import nodes_within
from onnx_passes.passes.constants import constant, is_constant

PURE_DOMAINS = frozenset({"", "ai.onnx.ml"})
"""Domains whose operators, those above aside, are functions of their inputs."""


class Determinism:
    """Decides for each node of a model whether it computes the same result every time.

    An operator of an unknown domain may draw random numbers or keep state: it is not trusted.
    """

    def __init__(self, model: ir.Model) -> None:
        """Look at no node yet."""
        self._functions = model.functions
        self._bodies: dict[ir.OperatorIdentifier, bool] = {}

    def holds(self, node: ir.Node, imports: Mapping[str, int]) -> bool:
        """Whether ``node``, its subgraphs and the functions it calls are deterministic.

        Args:
            node: The node.
            imports: The opset imports of the model, or of the function around the node.
        """
        return all(self._own(inner, imports) for inner in nodes_within(node))

    def _own(self, node: ir.Node, imports: Mapping[str, int]) -> bool:
        key = node.op_identifier()
        if key in self._functions:
            return self._body(key)
        if node.domain == "com.microsoft":
            return node.op_type not in RANDOM_CONTRIB
        if node.domain not in PURE_DOMAINS:
            return False
        if node.op_type == "Dropout":
            return is_inference_dropout(node, imports.get("", 1))
        return node.op_type not in RANDOM

    def _body(self, key: ir.OperatorIdentifier) -> bool:
        if key not in self._bodies:
            self._bodies[key] = False  # a function that calls itself is not trusted
            function = self._functions[key]
            self._bodies[key] = all(
                self.holds(node, function.opset_imports) for node in function
            )
        return self._bodies[key]


def is_inference_dropout(node: ir.Node, opset: int) -> bool:
    """Whether a Dropout node surely drops nothing.

    Before opset 7 an attribute ``is_test`` says so, from 12 on the third input
    ``training_mode``; in between Dropout is always for inference.

    Args:
        node: The Dropout.
        opset: Version of the main domain.
    """
    if opset < 7:
        attribute = node.attributes.get("is_test")
        return attribute is not None and not attribute.is_ref() and attribute.as_int() == 1
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    return mode is None or (is_constant(mode) and not constant(mode).any())
