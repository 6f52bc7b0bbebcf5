"""Which passes have no operator to begin at, known without building their rules."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias
from weakref import WeakKeyDictionary

import onnx_ir as ir

from onnx_passes.model.walk import all_graphs, node_operator, nodes_of
from onnx_passes.passes.base import Pass, RewriteRulePass, RewriteRuleSetPass

Operators: TypeAlias = frozenset[tuple[str, str] | None]
"""Domains and operators; None means any."""

_ROOTS: WeakKeyDictionary[type[Pass], dict[Hashable, Operators]] = WeakKeyDictionary()


def operators_of(model: ir.Model) -> Operators:
    """Return the operators of all nodes, in subgraphs and functions too."""
    return frozenset(
        operator
        for graph in all_graphs(model)
        for operator in map(node_operator, nodes_of(graph))
    )


def begins_nowhere(pass_: Pass, operators: Operators) -> bool:
    """Whether a model of these operators has no node that a rule of the pass begins at.

    Only a pass that depends on the model and its options alone (``Pass.repeats_itself``) is
    known that well. Building its rules takes longer than running them on a small model, so
    what they begin at is worked out once in a process.

    Args:
        pass_: The pass.
        operators: The operators of the model.
    """
    if not pass_.repeats_itself or not isinstance(pass_, RewriteRulePass | RewriteRuleSetPass):
        return False
    roots = _roots_of(pass_)
    return None not in roots and not roots & operators


def _roots_of(pass_: RewriteRulePass | RewriteRuleSetPass) -> Operators:
    cls = type(pass_)
    # The methods too: a rule that was put in for another, in a test, begins elsewhere.
    key = (cls.rules, cls.pattern, repr(sorted(pass_.options.items())))
    known = _ROOTS.setdefault(cls, {})
    if key not in known:
        known[key] = frozenset(info.root for info in pass_.patterns())
    return known[key]
