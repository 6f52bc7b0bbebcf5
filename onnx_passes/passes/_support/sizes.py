"""Sums and products of sizes, some of which are dynamic dimensions.

What is computed of dimensions is kept as a polynomial over them, in one form, so that two ways
to compute one size are seen to be equal. Integers wrap around as in a ring, so that equal
polynomials are equal numbers of any one width.
"""

from __future__ import annotations

from onnx_passes.passes._support.known import Element, Size

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
    """Return ``a * b``; nothing times 0 is anything but 0."""
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
    """Return ``a / b`` where nothing is left over, or both are numbers that round alike."""
    if b == 1:
        return a
    if not isinstance(b, int) or b <= 0 or not is_never_negative(a):
        return None
    if isinstance(a, int):
        return a // b
    terms = terms_of(a)
    if terms is None or any(factor % b for factor in terms.values()):
        return None
    return element_of({monomial: factor // b for monomial, factor in terms.items()})


def is_never_negative(element: Element) -> bool:
    """Whether a size is known to be 0 or more; dimensions are."""
    terms = terms_of(element)
    return terms is not None and all(factor >= 0 for factor in terms.values())


def is_dimension(element: Element) -> bool:
    """Whether an element is a dynamic dimension itself, not computed of some."""
    return isinstance(element, tuple) and element[0] != TERMS
