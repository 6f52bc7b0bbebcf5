"""Rules that remove an operator which returns its first input as it is."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.passes.base import (
    MatchContext,
    Op,
    RewriteRuleSetPass,
    Rule,
    Transformation,
    Var,
)


class IdlePass(Transformation, RewriteRuleSetPass):
    """A pass that removes nodes of some operators where they do nothing.

    Attributes:
        operators: The operators, of the main domain.
    """

    needs = ("shape-inference",)
    operators: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether the first output of a node is its first input, shape and all.

        Args:
            node: The node.
            x: Its first input.
        """

    def rules(self) -> Iterator[Rule]:
        def idle(context: MatchContext, x: ir.Value, **_: object) -> bool:
            others = context.root.outputs[1:]
            read = any(value.uses() or value.is_graph_output() for value in others)
            return not read and self.is_idle(context.root, x)

        for name in self.operators:
            yield Rule(partial(_call, name), _first, idle, name)


def _call(operator: str, op: Op, x: Var) -> Var:
    """The pattern of a call of one operator with any further inputs."""
    return getattr(op, operator)(x, _allow_other_inputs=True)


def _first(op: Op, x: ir.Value, **_: object) -> ir.Value:
    return x
