"""Replace the formula of Gelu by the operator."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import product

import onnx_ir as ir
from onnxscript.rewriter import pattern

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import commuted, has_opset, number, spells
from onnx_passes.passes.constants import constant_of

ROOT, CUBIC, SLOPE = math.sqrt(2), 0.044715, math.sqrt(2 / math.pi)
NUMBERS = {"none": (1.0, 0.5, ROOT, 1 / ROOT), "tanh": (1.0, 0.5, 2.0, 3.0, CUBIC, SLOPE)}


@passes.verify.tolerance
@passes.register("fuse")
class FuseGelu(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace the formula of Gelu by the operator.

    Before: ``x * 0.5 * (1 + Erf(x / sqrt(2)))``, or
            ``x * 0.5 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``
    After:  ``Gelu(x)``, or ``Gelu<approximate = "tanh">(x)``

    Found in any order of products and sums; ``x * (1 / sqrt(2))`` for the quotient;
    ``x * x * x`` for the power; ``x * sqrt(2 / pi) * (1 + 0.044715 * x * x)`` inside of Tanh.

    Sound because this is how the operator is defined. The contract is a tolerance: products
    are rounded in another order, and where the formula meets infinity times zero, an engine's
    kernel may find the limit.

    Leaves alone: models before opset 20; numbers that differ by more than their rounding to
    single precision, and so formulas in half precision; double precision, because engines
    cancel digits in its tails differently; formulas whose inner values are read elsewhere;
    constants that callers may override, or that widen ``x``.
    """

    needs = ("shape-inference",)
    exclusive = True

    def rules(self) -> Iterator[Rule]:
        for order, approximate, swapped in product(
            ("half last", "half first", "half inside"), NUMBERS, (False, True)
        ):
            pattern = partial(_formula, order, approximate, swapped)
            yield Rule(pattern, partial(_gelu, approximate), partial(_is_gelu, approximate))


def _formula(order: str, approximate: str, swapped: bool, op: Op, x: Var) -> Var:
    curve = op.Erf(_scaled(op, x)) if approximate == "none" else op.Tanh(_bent(op, x))
    raised, half = commuted(op, "Add", curve, number(1.0)), number(0.5)
    first, second = {
        "half last": (commuted(op, "Mul", x, raised), half),
        "half first": (commuted(op, "Mul", x, half), raised),
        "half inside": (commuted(op, "Mul", raised, half), x),
    }[order]
    return op.Mul(second, first) if swapped else op.Mul(first, second)


def _scaled(op: Op, x: Var) -> Var:
    """``x / sqrt(2)``."""
    product = commuted(op, "Mul", x, number(1 / ROOT))
    return pattern.OrValue([op.Div(x, number(ROOT)), product])


def _bent(op: Op, x: Var) -> Var:
    """``sqrt(2 / pi) * (x + 0.044715 * x ** 3)``, or with one ``x`` as a factor."""
    square = pattern.OrValue([op.Mul(x, x), op.Pow(x, number(2.0))])
    cube = pattern.OrValue([commuted(op, "Mul", x, square), op.Pow(x, number(3.0))])
    quadratic = pattern.OrValue(
        [
            commuted(op, "Mul", commuted(op, "Mul", x, number(CUBIC)), x),
            commuted(op, "Mul", square, number(CUBIC)),
        ]
    )
    cubic = pattern.OrValue(
        [commuted(op, "Mul", cube, number(CUBIC)), commuted(op, "Mul", quadratic, x)]
    )
    whole = commuted(op, "Mul", commuted(op, "Add", cubic, x), number(SLOPE))
    factor = commuted(op, "Add", quadratic, number(1.0))
    return pattern.OrValue(
        [whole, commuted(op, "Mul", factor, commuted(op, "Mul", x, number(SLOPE)))]
    )


def _is_gelu(approximate: str, context: MatchContext, x: Value) -> bool:
    numbers = NUMBERS[approximate]
    return (
        has_opset(context, 20)
        and ir.DataType.DOUBLE not in _types(context)
        and spells(context, numbers, x)
    )


def _types(context: MatchContext) -> set[ir.DataType | None]:
    """Return the types of operands; in a function only the constants show them."""
    values = {value for node in context.nodes for value in node.inputs if value is not None}
    return {(constant_of(value) or value).dtype for value in values}


def _gelu(approximate: str, op: Op, x: Value) -> Value:
    if approximate == "none":
        return op.Gelu(x)
    return op.Gelu(x, approximate=approximate)
