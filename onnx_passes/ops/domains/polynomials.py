"""Sums and products of sizes; some may be dynamic dimensions.

What is computed of dimensions is kept as a polynomial over them, in one form, so that two ways
to compute one size are seen to be equal. Integers wrap around as in a ring, so that equal
polynomials are equal numbers of any one width.
"""

from __future__ import annotations

from onnx_passes.ops.domains.known import Element, Size

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
    """Return ``a + b``.

    Args:
        a: A size, a polynomial, or None if it is not known.
        b: Likewise.
    """
    left, right = terms_of(a), terms_of(b)
    if left is None or right is None:
        return None
    for monomial, factor in right.items():
        left[monomial] = left.get(monomial, 0) + factor
    return element_of(left)


def subtract(a: Element, b: Element) -> Element:
    """Return ``a - b``.

    Args:
        a: A size, a polynomial, or None if it is not known.
        b: Likewise.
    """
    return add(a, multiply(b, -1))


def multiply(a: Element, b: Element) -> Element:
    """Return ``a * b``; nothing times 0 is anything but 0.

    Args:
        a: A size, a polynomial, or None if it is not known.
        b: Likewise.
    """
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
    """Return ``a / b`` where nothing is left over, or both are numbers that round alike.

    By 0 nothing can be divided: a dynamic ``b`` is taken for another number.

    Args:
        a: A size, a polynomial, or None if it is not known.
        b: Likewise.
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
