"""Remove what only shapes a tensor that is reshaped next."""

from collections.abc import Iterator
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.shapes import ints_of

SHAPERS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@passes.verify.equality
@passes.register("eliminate")
class EliminateDoubleReshape(Transformation, RewriteRuleSetPass):
    """Remove what only shapes a tensor that is reshaped next.

    Before: ``Reshape(Unsqueeze(x, [0]), [2, -1])``
    After:  ``Reshape(x, [2, -1])``

    Sound because Reshape, Flatten, Squeeze and Unsqueeze keep the order of the elements, so
    that the last one alone decides.

    Leaves alone: a target that is computed, or that copies a dimension (0) of the tensor
    between; attributes that refer to those of a function.
    """

    def rules(self) -> Iterator[Rule]:
        for name in SHAPERS:
            yield Rule(partial(_twice, name), _once, _describes_all)


def _twice(operator: str, op: Op, x: Var, target: Var) -> Var:
    between = getattr(op, operator)(x, _allow_other_inputs=True)
    return op.Reshape(between, target, _outputs=["y"])


def _describes_all(context: object, x: Value, target: Value, y: Value) -> bool:
    sizes = ints_of(target)
    return sizes is not None and (0 not in sizes or bool(_allowzero(y)))


def _once(op: Op, x: Value, target: Value, y: Value) -> Value:
    allowzero = _allowzero(y)
    return op.Reshape(x, target, **({"allowzero": allowzero} if allowzero else {}))


def _allowzero(y: ir.Value) -> int:
    node = y.producer()
    assert node is not None, "the pattern has matched a node"
    return node.attributes.get_int("allowzero", 0) or 0
