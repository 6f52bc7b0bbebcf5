"""Rewrite rules verified on their own, before any model meets them.

``prove_pair`` compares two graphs and ``prove_rule`` a rule's graphs before and after, in
every arithmetic that applies. z3 is needed: ``pip install '.[prove]'``.
"""

from onnx_passes.certifying.arithmetic_verdicts import Effort
from onnx_passes.certifying.proof import (
    Arithmetic,
    ArithmeticVerdict,
    Counterexample,
    Coverage,
    FloatMode,
    Outcome,
    Proof,
)
from onnx_passes.certifying.prove import prove_pair, prove_rule

__all__ = [
    "Arithmetic",
    "ArithmeticVerdict",
    "Counterexample",
    "Coverage",
    "Effort",
    "FloatMode",
    "Outcome",
    "Proof",
    "prove_pair",
    "prove_rule",
]
