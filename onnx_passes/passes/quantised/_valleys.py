"""Activations that fall down to one minimum, and rise from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.streamline._terms import scalar

_SILU = -1.2784645427610738
_GELU = -0.7517915246935645
_GELU_TANH = -0.7524614220710162
_MISH = -1.192431298737
_ROOT = 2.0**0.5
"""Where the minima are; around them the functions are flat, so that no digit matters."""


@dataclass(frozen=True)
class Valley:
    """An activation of one value, as an operator or as its formula.

    Attributes:
        nodes: The nodes in topological order; the last one computes the result.
        source: What they read.
        minimum: The value of ``source`` up to which the result falls.
    """

    nodes: tuple[ir.Node, ...]
    source: ir.Value
    minimum: float


def valley_of(node: ir.Node) -> Valley | None:
    """Return the activation that a node ends: SiLU, Swish, Gelu, HardSwish, Mish, a square."""
    x = node.inputs[0] if node.inputs else None
    if x is None or any(a.is_ref() for a in node.attributes.values()):
        return None
    minimum = _of_operator(node)
    if minimum is not None:
        return Valley((node,), x, minimum)
    if (node.domain, node.op_type) != ("", "Mul"):
        return None
    if node.inputs[0] is node.inputs[1]:
        return Valley((node,), x, 0.0)
    for place in (0, 1):
        found = _of_product(node, node.inputs[place], node.inputs[1 - place])
        if found is not None:
            return found
    return None


def _of_operator(node: ir.Node) -> float | None:
    match node.domain, node.op_type:
        case "", "Gelu":
            tanh = node.attributes.get_string("approximate", "none") == "tanh"
            return _GELU_TANH if tanh else _GELU
        case "", "HardSwish":
            return -1.5
        case "", "Mish":
            return _MISH
        case "", "Pow":
            return 0.0 if scalar(node.inputs[1]) == 2 else None
        case "", "Swish":
            slope = node.attributes.get_float("alpha", 1.0) or 0.0
            return _SILU / slope if slope > 0 else None
        case _, "Silu" if node.domain == CUSTOM:
            return _SILU
    return None


def _of_product(node: ir.Node, p: ir.Value | None, gate: ir.Value | None) -> Valley | None:
    """Recognise ``p * gate(u)``, where both come from one value by positive factors."""
    found = _gate(gate)
    if p is None or found is None:
        return None
    nodes, inner, minimum = found
    beside, source = [], p
    while True:
        scaled = _find_scaling(inner, source)
        if scaled is not None:
            break
        step = _factor(source.producer())
        if step is None:
            return None
        beside.append(source.producer())
        source = step[0]
    within, slope = scaled
    parts = [n for n in (*reversed(beside), *within, *nodes) if n is not None]
    return Valley((*dict.fromkeys(parts), node), source, minimum / slope)


def _find_scaling(value: ir.Value, source: ir.Value) -> tuple[list[ir.Node], float] | None:
    """Return the nodes and the factor that make a value of another one."""
    nodes: list[ir.Node] = []
    slope = 1.0
    while value is not source:
        node = value.producer()
        step = _factor(node)
        if step is None or node is None:
            return None
        value, slope = step[0], slope * step[1]
        nodes.insert(0, node)
    return nodes, slope


def _factor(node: ir.Node | None) -> tuple[ir.Value, float] | None:
    """Return the operand and the factor of a product with, or quotient by, a number over 0."""
    if node is None or node.domain != "" or node.op_type not in ("Mul", "Div"):
        return None
    for place in (0,) if node.op_type == "Div" else (0, 1):
        value, factor = node.inputs[place], scalar(node.inputs[1 - place])
        if value is not None and factor is not None and factor > 0:
            return value, factor if node.op_type == "Mul" else 1 / factor
    return None


def _gate(value: ir.Value | None) -> tuple[list[ir.Node], ir.Value, float] | None:
    """Return nodes of a function that rises from 0 to 1, its operand, and the minimum."""
    node = None if value is None else value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type == "Add":  # 1 + Erf(z)
        for place in (0, 1):
            erf = _only(node.inputs[place], "Erf")
            if erf is not None and scalar(node.inputs[1 - place]) == 1:
                return _with(erf, [erf, node], _GELU / _ROOT)
    if node.op_type == "Tanh":  # of Softplus
        softplus = _only(node.inputs[0], "Softplus")
        return None if softplus is None else _with(softplus, [softplus, node], _MISH)
    minimum = _GATES[node.op_type](node) if node.op_type in _GATES else None
    return None if minimum is None else _with(node, [node], minimum)


def _with(
    first: ir.Node, nodes: list[ir.Node], minimum: float
) -> tuple[list[ir.Node], ir.Value, float] | None:
    inner = first.inputs[0]
    return None if inner is None else (nodes, inner, minimum)


def _only(value: ir.Value | None, kind: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and (node.domain, node.op_type) == ("", kind) else None


def _of_hard_sigmoid(node: ir.Node) -> float | None:
    slope = node.attributes.get_float("alpha", 0.2) or 0.0
    term = node.attributes.get_float("beta", 0.5)
    return -(term or 0.0) / (2 * slope) if slope > 0 and term is not None else None


_GATES: dict[str, Callable[[ir.Node], float | None]] = {
    "Sigmoid": lambda node: _SILU,
    "HardSigmoid": _of_hard_sigmoid,
}

__all__ = ["Valley", "valley_of"]
