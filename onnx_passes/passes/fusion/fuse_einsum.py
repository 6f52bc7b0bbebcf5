"""Replace an Einsum that is one product of matrices, or a transposition."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import is_constant
from onnx_passes.passes.hints import Hint, Hints, data

Order = tuple[int, int]

_PERMUTED = {"ij->ji": "a b", "ijk->jki": "a b c", "abc->cab": "a b c", "ab->ab": "a b"}
_PRODUCTS = {
    "ij,jk->ik": ("a b", "b c"),
    "bij,bjk->bik": ("n a b", "n b c"),
    "bij,jk->bik": ("n a b", "b c"),
    "jk,ij->ik": ("b c", "a b"),
}


@passes.verify.tolerance
@passes.register("fuse")
class FuseEinsum(Transformation, RewriteRuleSetPass):
    """Replace an Einsum that is one product of matrices, or a transposition.

    Before: ``Einsum<equation = "bij,bjk->bik">(a, b)``, ``Einsum<equation = "ij->ji">(a)``
    After:  ``MatMul(a, b)``, ``Transpose<perm = [1, 0]>(a)``

    Engines have faster kernels for products than for the formula. A constant matrix that is
    given the other way round is transposed, which `fold-constants` does.

    Sound because this is what the equation says. The contract is a tolerance: an engine may
    sum in another order.

    Leaves alone: equations with an ellipsis, repeated labels, or sums over several labels;
    operands that would have to be transposed when the model runs; integers; summed dimensions
    that are not known to be equal, as Einsum broadcasts those of size 1.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "transposition": Hint(
            {},
            cases=tuple(
                Hint({"x": data(dims)}, {"Einsum.equation": (equation,)})
                for equation, dims in _PERMUTED.items()
            ),
        ),
        "product": Hint(
            {},
            cases=tuple(
                Hint({"x": data(left), "w": data(right)}, {"Einsum.equation": (equation,)})
                for equation, (left, right) in _PRODUCTS.items()
            ),
        ),
    }

    def rules(self) -> Iterator[Rule]:
        yield Rule(_moved, _transposed, _moves, "transposition")
        yield Rule(_product, _multiplied, _multiplies, "product")


def _moved(op: Op, x: Var) -> Var:
    return op.Einsum(x, _outputs=["y"])


def _product(op: Op, x: Var, w: Var) -> Var:
    return op.Einsum(x, w, _outputs=["y"])


def _moves(context: object, x: Value, y: Value) -> bool:
    labels = _labels(y)
    if labels is None or dims_of(x) is None:
        return False
    (read,), result = labels
    return len(read) == len(result) and set(read) == set(result)


def _transposed(op: Op, x: Value, y: Value) -> Value:
    labels = _labels(y)
    assert labels is not None, "the check has read them"
    (read,), result = labels
    return op.Transpose(x, perm=[read.index(label) for label in result])


def _multiplies(context: object, x: Value, w: Value, y: Value) -> bool:
    return _order(x, w, y) is not None


def _multiplied(op: Op, x: Value, w: Value, y: Value) -> Value:
    order, labels = _order(x, w, y), _labels(y)
    assert order is not None, "the check has found it"
    assert labels is not None, "the check has read them"
    operands = [(x, w)[place] for place in order]
    left, right = (labels[0][place] for place in order)
    if right[-1] in left:
        last = len(right) - 1
        perm = [*range(last - 1), last, last - 1]
        operands[1] = op.Transpose(operands[1], perm=perm)
    return op.MatMul(*operands)


def _order(x: Value, w: Value, y: Value) -> Order | None:
    """Return which operand is the left one of a product of matrices, and which the right."""
    labels = _labels(y)
    if labels is None or x.dtype is None or not x.dtype.is_floating_point():
        return None
    read, result = labels
    values, orders = (x, w), ((0, 1), (1, 0))
    for left, right in orders:
        operands = [values[left], values[right]]
        if _is_product(read[left], read[right], result, operands):
            return left, right
    return None


def _is_product(left: str, right: str, result: str, values: Sequence[Value]) -> bool:
    """Whether a result is the product of two operands, by their labels and dimensions."""
    summed = set(left) & set(right) - set(result)
    if len(summed) != 1 or min(len(left), len(right)) < 2:
        return False
    (label,) = summed
    turned = right[-1] == label
    matrix = right[:-2] + right[-1] + right[-2] if turned else right
    if left[-1] != label or matrix[-2] != label or (turned and not is_constant(values[1])):
        return False
    # The labels ahead of the matrices are the same, or those of the left operand alone.
    if matrix[:-2] not in ("", left[:-2]) or result != left[:-1] + matrix[-1]:
        return False
    sizes = [dims_of(value) for value in values]
    if sizes[0] is None or sizes[1] is None or matrix[-1] in left:
        return False
    a, b = sizes[0][-1], sizes[1][right.index(label)]
    return a is not None and a == b


def _labels(y: Value) -> tuple[list[str], str] | None:
    """Return the labels of the operands and of the result; None where some repeat."""
    equation = node_of(y).attributes.get_string("equation", "").replace(" ", "")
    before, arrow, result = equation.partition("->")
    read = before.split(",")
    if not arrow:
        found = before.replace(",", "")
        result = "".join(sorted(label for label in set(found) if found.count(label) == 1))
    parts = [*read, result]
    plain = all(part.isalpha() and len(set(part)) == len(part) for part in parts)
    return (read, result) if plain and len(read) == len(node_of(y).inputs) else None
