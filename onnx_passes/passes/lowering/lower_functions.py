"""Lower operators to the functions by which ONNX defines them."""

from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import OptionError
from onnx_passes.passes.lowering._lowering_pass import FunctionPass
from onnx_passes.passes.options import did_you_mean

ONLY_IF_NAMED = frozenset({"Bernoulli", "LayerNormalization", "Range", "SequenceMap"})
"""Operators whose definition draws other random numbers, loses digits, or is a Loop."""


@passes.verify.tolerance
@passes.register("lower")
class LowerFunctions(FunctionPass):
    """Lower operators to the functions by which ONNX defines them.

    Before: ``ThresholdedRelu<alpha = 2.0>(x)``
    After:  ``Where(Less(Cast(2.0), x), x, Cast(0.0))``

    For the operators that have no pass of their own. What a definition brings in is lowered
    too, if it is among the operators asked for.

    Sound because the definition is part of ONNX, made for the node's attributes and types. The
    contract is a tolerance: engines round their kernels in another way, and some definitions
    overflow earlier.

    Leaves alone: operators without a definition by ONNX for the model's opset, or with one
    that uses an operator that has since changed; nodes whose types a definition has to know,
    and which are not known; Shrink of unsigned integers, whose definition is of another type;
    ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp and ReduceSumSquare of integers, which
    saturate where their definitions wrap; ReduceL2 of doubles, which is defined by the root of
    a float; Shrink of doubles, which ONNX Runtime computes in floats; Celu with an alpha that
    is not positive; AffineGrid with aligned corners and a size that is or may be 1, by which
    less one its definition divides; LayerNormalization with a scale or bias that is broadcast;
    MeanVarianceNormalization of what is or may be one element alone: ONNX Runtime makes NaN;
    bodies of functions; and unless they are named, Bernoulli, Range and SequenceMap, because
    their definitions are as complex; and LayerNormalization, whose definition subtracts the
    square of the mean from the mean of the squares: where the mean is large, few digits are
    left (``lower-layer-normalization`` subtracts it first).

    Attributes:
        operators: The operators to lower; without any, all that ONNX defines so.
    """

    operators: tuple[str, ...] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create the pass with its options."""
        super().__init__(*args, **options)
        known = _function_operators()
        for name in self.operators:
            if name not in known:
                raise OptionError(
                    f"{self.name}: ONNX defines no operator {name!r} by a function",
                    help=did_you_mean(
                        name, known, f"it does so for {', '.join(sorted(known))}"
                    ),
                )
        self._wanted = frozenset(self.operators) or known - ONLY_IF_NAMED

    def wanted(self, node: ir.Node) -> bool:
        return node.op_type in self._wanted


@cache
def _function_operators() -> frozenset[str]:
    # The type stubs of onnx leave out what a schema says of functions.
    schemas: Any = onnx.defs.get_all_schemas_with_history()
    return frozenset(
        schema.name
        for schema in schemas
        if not schema.domain and (schema.has_function or schema.has_context_dependent_function)
    )
