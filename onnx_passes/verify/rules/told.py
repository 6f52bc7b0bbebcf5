"""In which arithmetics an operator can be evaluated, found by evaluating it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.blank import ShapeSemantics
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.counting import CountingSemantics
from onnx_passes.ops.domains.field import FieldSemantics
from onnx_passes.ops.domains.ieee import IeeeSemantics
from onnx_passes.ops.domains.intervals import IntervalSemantics
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.domains.scaled import ScaledSemantics
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import MALFORMED, Semantics, Unsupported
from onnx_passes.verify.rules.random_calls import RandomCall, random_call

DOMAINS: Mapping[str, Callable[[], Semantics]] = {
    "numbers": ConcreteSemantics,
    "rounding": RoundingSemantics,
    "reals": RealSemantics,
    "IEEE": IeeeSemantics,
    "field": lambda: FieldSemantics(0),
    "shapes": ShapeSemantics,
    "intervals": IntervalSemantics,
    "scaled integers": ScaledSemantics,
    "counts": CountingSemantics,
}
"""Arithmetics by the name that the documentation gives them."""

_DRAWS = 30


def domains_of(operator: Operator) -> dict[str, bool]:
    """Return in which arithmetics an operator is evaluated, on some random call at least."""
    found = dict.fromkeys(DOMAINS, False)
    rng = np.random.default_rng(0)
    for _ in range(_DRAWS if operator.evaluates else 0):
        try:
            call = random_call(operator, rng)
        except MALFORMED:
            continue
        for name, make in DOMAINS.items():
            if call is not None and not found[name]:
                found[name] = _evaluated(call, make())
    return found


def _evaluated(call: RandomCall, semantics: Semantics) -> bool:
    known: dict[ir.Value, Tensor] = {}
    try:
        for value, array in call.arrays.items():
            known[value] = constant(array, value.dtype or ir.DataType.FLOAT, semantics)
        evaluate_node(call.node, known, semantics, call.opset)
    except (Unsupported, *MALFORMED):
        return False
    return True


def data_of(operator: Operator) -> dict[str, bool]:
    """Return what describes an operator besides what it computes."""
    cls = type(operator)
    return {
        "laws": operator.algebra != Algebra(),
        "inputs": bool(operator.steers or getattr(operator, "domain_of", ()))
        or any("admits" in vars(c) for c in cls.__mro__ if c not in (Operator, Elementwise)),
        "breakpoints": "breakpoints" in vars(cls)
        or bool(getattr(operator, "kinks", ()) or getattr(operator, "ties", False)),
        "cost": cls.cost is not Operator.cost or operator.free or bool(operator.moves),
    }
