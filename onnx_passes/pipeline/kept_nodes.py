"""Nodes that the user wants to stay: the rewrites that remove them are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.configs.problems import located
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ConfigError
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.context import Application
from onnx_passes.passes.options import did_you_mean
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.attempt import Attempt


@dataclass(frozen=True)
class KeptNodes:
    """The nodes that must stay.

    Attributes:
        operators: The operator of each, by its name or that of a value that it computes.
    """

    operators: dict[str, ir.OperatorIdentifier]

    @classmethod
    def of(cls, model: ir.Model, config: PipelineConfig) -> KeptNodes:
        """Look the nodes up that a pipeline names.

        Args:
            model: The model before the first pass.
            config: The pipeline.

        Raises:
            ConfigError: The model has no such node.
        """
        known = _nodes(model) if config.keep else {}
        for index, name in enumerate(config.keep):
            if name not in known:
                raise ConfigError(
                    f"{name!r} is to be kept, and the model has no such node or value",
                    where=located(config.tree.values.get(("keep", index))),
                    help=did_you_mean(
                        name, known, "onnx-passes inspect model MODEL --show layers lists them"
                    ),
                )
        return cls({name: known[name].op_identifier() for name in config.keep})

    def lost_in(self, model: ir.Model) -> list[str]:
        """Return the names of those that a model has no more.

        Args:
            model: The model after a pass.
        """
        found = _nodes(model) if self.operators else {}
        return [
            name
            for name, operator in self.operators.items()
            if name not in found or found[name].op_identifier() != operator
        ]

    def restore(
        self, before: ir.Model, made: Attempt
    ) -> tuple[Attempt | None, frozenset[str]]:
        """Run a pass again without the rewrites that remove a node.

        Args:
            before: The model before the pass.
            made: What the pass made.

        Returns:
            What it makes without them, None if nothing less than the whole pass can be left
            out, and the keys of the rewrites.

        Raises:
            OnnxPassesError: The pass raised in a second run.
        """
        nodes, skip, left = _nodes(before), frozenset[str](), made
        while lost := self.lost_in(left.model):
            texts = tuple(_head(describe(nodes[name])) for name in lost if name in nodes)
            keys = {a.key for a in left.applied if _matches(a, texts)}
            if not keys:
                return None, skip
            skip |= keys
            left = made.attempts.apply(skip=skip)
        return left, skip


def _nodes(model: ir.Model) -> dict[str, ir.Node]:
    """Return the nodes of a model by the names of their values, and by their own."""
    nodes = list(all_nodes(model))
    found = {str(value.name): node for node in nodes for value in node.outputs}
    return found | {node.name: node for node in nodes if node.name}


def _head(text: str) -> str:
    return text.partition("(")[0] + "("


def _matches(application: Application, heads: Sequence[str]) -> bool:
    return any(text.startswith(head) for text in application.nodes for head in heads)
