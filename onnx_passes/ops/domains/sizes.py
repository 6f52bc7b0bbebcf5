"""Shape arithmetic while some dimensions are dynamic: polynomials of sizes."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.semantics import Elements, Row, Scalar, Semantics, Unsupported, scalars

MAX_ELEMENTS = 256

Size = tuple[str, object]
"""A dynamic dimension, at least 0: its name, or the value and axis it belongs to.

Or what is computed of such, which may be negative: see ``sizes``.
"""

Element = int | Size | None
"""An element of a shape: its value, the dimension it is, or unknown."""

INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)

RANGES = {
    ir.DataType.INT64: (-(1 << 63), (1 << 63) - 1),
    ir.DataType.INT32: (-(1 << 31), (1 << 31) - 1),
    ir.DataType.BOOL: (0, 1),
}


@dataclass(frozen=True)
class KnownTensor:
    """What is known of an integer or boolean tensor of rank 0 or 1. Rank 0 has one element."""

    elements: tuple[Element, ...]
    rank: int
    dtype: ir.DataType

    @property
    def numbers(self) -> list[int] | None:
        """The elements, if every one is a number."""
        found = [e for e in self.elements if isinstance(e, int)]
        return found if len(found) == len(self.elements) else None

    def tensor(self) -> ir.TensorProtocol | None:
        """Return the tensor, if every element is a number."""
        numbers = self.numbers
        if numbers is None:
            return None
        array = np.array(numbers, dtype=self.dtype.numpy())
        return ir.Tensor(array.reshape(()) if self.rank == 0 else array)


def dimension(value: ir.Value, axis: int) -> Element:
    """Return one dimension of a value whose rank is known."""
    assert value.shape is not None, "the rank is known"
    dim = value.shape[axis]
    if isinstance(dim, int):
        return dim
    return ("name", dim.value) if dim.value is not None else ("axis", (value, axis))


TERMS = "terms"
MAX_TERMS = 16

Monomial = frozenset[tuple[Size, int]]
"""Dimensions with their exponents; the empty one is 1."""

Terms = dict[Monomial, int]


def terms_of(element: Element) -> Terms | None:
    """Return a size as a sum of products; None for an unknown one."""
    if element is None:
        return None
    if isinstance(element, int):
        return {frozenset(): element} if element else {}
    if element[0] == TERMS:
        assert isinstance(element[1], frozenset), "made by element_of"
        return dict(element[1])
    return {frozenset({(element, 1)}): 1}


def element_of(terms: Terms) -> Element:
    """Return a sum of products as an element; None where it has too many terms to follow."""
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    if not terms:
        return 0
    if len(terms) > MAX_TERMS:
        return None
    if terms.keys() == {frozenset()}:
        return terms[frozenset()]
    if len(terms) == 1:
        ((monomial, factor),) = terms.items()
        if factor == 1 and len(monomial) == 1:
            ((size, power),) = monomial
            if power == 1:
                return size
    return (TERMS, frozenset(terms.items()))


def add(a: Element, b: Element) -> Element:
    """Return ``a + b``."""
    left, right = terms_of(a), terms_of(b)
    if left is None or right is None:
        return None
    for monomial, factor in right.items():
        left[monomial] = left.get(monomial, 0) + factor
    return element_of(left)


def subtract(a: Element, b: Element) -> Element:
    """Return ``a - b``."""
    return add(a, multiply(b, -1))


def multiply(a: Element, b: Element) -> Element:
    """Return ``a * b``; a product with 0 is 0, even if the other factor is not known."""
    if a == 0 or b == 0:
        return 0
    left, right = terms_of(a), terms_of(b)
    if left is None or right is None:
        return None
    product: Terms = {}
    for one, factor in left.items():
        for other, times in right.items():
            powers = dict(one)
            for size, power in other:
                powers[size] = powers.get(size, 0) + power
            monomial = frozenset(powers.items())
            product[monomial] = product.get(monomial, 0) + factor * times
    return element_of(product)


def divide(a: Element, b: Element) -> Element:
    """Return ``a / b`` where nothing remains, or both are numbers that round alike.

    No division is by 0: a dynamic ``b`` is assumed to differ from it.
    """
    if b == 1:
        return a
    if not is_never_negative(a) or not is_never_negative(b) or b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    left, right = terms_of(a), terms_of(b)
    assert left is not None, "it is not negative"
    assert right, "it is neither negative nor 0"
    if len(right) == 1:
        ((by, times),) = right.items()
        quotients = [_ratio(monomial, by) for monomial in left]
        if None in quotients or any(factor % times for factor in left.values()):
            return None
        pairs = zip(quotients, left.values(), strict=True)
        return element_of({q: factor // times for q, factor in pairs if q is not None})
    by, times = next(iter(right.items()))
    for monomial, factor in left.items():
        ratio = _ratio(monomial, by)
        if ratio is not None and factor % times == 0:
            quotient = element_of({ratio: factor // times})
            if multiply(quotient, b) == a:
                return quotient
    return None


def _ratio(monomial: Monomial, by: Monomial) -> Monomial | None:
    """Return a product over another, if that is one."""
    powers = dict(monomial)
    for size, power in by:
        powers[size] = powers.get(size, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return frozenset((size, power) for size, power in powers.items() if power)


def is_never_negative(element: Element) -> bool:
    """Whether a size is known to be 0 or more; dimensions are."""
    terms = terms_of(element)
    return terms is not None and all(factor >= 0 for factor in terms.values())


def is_dimension(element: Element) -> bool:
    """Whether an element is a dynamic dimension itself, not computed of some."""
    return isinstance(element, tuple) and element[0] != TERMS


class SizeSemantics(Semantics):
    """Elements of shapes: numbers, polynomials over dimensions, or None for the unknown."""

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return int(value) if dtype.is_integer() or dtype is ir.DataType.BOOL else None

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        return None

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return scalar if isinstance(scalar, int) else None

    def sizes(self, data: Elements, node: ir.Node, index: int) -> Elements:
        value = node.inputs[index]
        if value is None or value.shape is None:
            raise Unsupported("the sizes of a value of unknown rank")
        found = [dimension(value, axis) for axis in range(len(value.shape))]
        return scalars(found, (len(found),))

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        match name, *args:
            case "add", a, b:
                return add(a, b)
            case "sub", a, b:
                return subtract(a, b)
            case "mul", a, b:
                return multiply(a, b)
            case "div", a, b:
                return divide(a, b)
            case "neg", a:
                return subtract(0, a)
            case "equal", a, b:
                return _equal(a, b)
            case ("max" | "min") as which, a, b:
                if isinstance(a, int) and isinstance(b, int):
                    return max(a, b) if which == "max" else min(a, b)
                return a if a == b else None
            case "select", condition, a, b:
                # A condition that is not known leaves what both sides agree on.
                if isinstance(condition, int):
                    return a if condition else b
                return a if a == b else None
        return None

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if target not in INTEGERS:
            raise Unsupported(f"sizes of type {target.name}")
        # A dimension of 2^31 or more would wrap around; no tensor that fits a machine has one.
        # What is computed of several may.
        kept = source is target or isinstance(scalar, int) or is_dimension(scalar)
        return scalar if kept else None

    def total(self, terms: Row, dtype: ir.DataType) -> Scalar:
        if not len(terms):
            raise Unsupported("a sum of nothing, of whose shape engines differ")
        return super().total(terms, dtype)

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        return None


def unknown(size: int) -> Elements:
    """Return a vector of so many unknown elements."""
    return scalars([None] * size, (size,))


def _equal(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if a is not None and a == b:
        return 1
    below = [isinstance(e, int) and e < 0 for e in (a, b)]
    others = [
        is_never_negative(e) for e, is_below in zip((a, b), below, strict=True) if not is_below
    ]
    return 0 if below.count(True) == 1 and all(others) else None


EMPTY = np.zeros((), np.object_)
"""Replaces an operand whose sizes alone are read."""
