"""Hints for the certificate of absorb-into-comparisons: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled


def _over(operand: str) -> dict[str, tuple[Spec, ...]]:
    """Return chains of one operator over data, for one operand of the comparison."""
    return {
        operand: (
            *(Spec(node=kind, of=("u",)) for kind in ("Neg", "Relu", "HardSigmoid", "Elu")),
            *(Spec(node=kind, of=("u", "k")) for kind in ("Mul", "Add", "Sub", "Div", "Min")),
            Spec(node="Mul", of=("u", "u")),
        ),
        "u": data("a b", "a b c", "b"),
        "k": filled("", 2.0, -0.5, 0.75),
    }


HINTS = {
    "absorb-into-comparisons": Hint(
        {},
        {},
        (ir.DataType.FLOAT,),
        13,
        cases=(
            Hint({**_over("x"), "c": filled("", 0.5, 0.25)}),
            Hint({**_over("c"), "x": filled("", 0.5, 0.25)}),
        ),
    )
}
