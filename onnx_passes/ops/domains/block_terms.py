"""Normal forms of blocks: sums of products of indexed tensors, as in Einstein notation.

``MatMul(A, B)`` is the sum over k of ``A[i,k] B[k,j]``: a monomial with two factors, two
free indices and a bound one. Elementwise products, transposes, contractions and convolutions
are all of this form. It is unique up to the order of factors and the names of bound indices,
which are made canonical. Equal forms are equal over every commutative ring, whatever the
sizes.

Everything is a nested tuple, so that it can be hashed and ordered:

- index: ``("o", p)``, the output axis ``p`` counted from the last; ``("b", i, atom)``, bound,
  running over a block; ``("c", height, i, atom)``, bound inside a function's argument;
  ``("w", place, offset, ...)``, the place a convolution reads.
- factor: ``("sym", name, block, indices)``; ``("fun", label, forms)``; ``("size", atom)``.
- form: ordered pairs of a monomial (an ordered tuple of factors) and its coefficient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from onnx_passes.ops.semantics import Unsupported

Index: TypeAlias = tuple[Any, ...]
Factor: TypeAlias = tuple[Any, ...]
Monomial: TypeAlias = tuple[Factor, ...]
Form: TypeAlias = tuple[tuple[Monomial, Fraction], ...]

ZERO: Form = ()
ONE_FORM: Form = (((), Fraction(1)),)
MAX_TERMS = 400
_MAX_ORDERS = 5040


def number(value: Fraction | int) -> Form:
    """Return a constant."""
    return (((), Fraction(value)),) if value else ZERO


def factor(single: Factor) -> Form:
    """Return one factor as a form."""
    return (((single,), Fraction(1)),)


def add(*forms: Form) -> Form:
    """Add."""
    return _collect(term for form in forms for term in form)


def scale(form: Form, by: Fraction) -> Form:
    """Multiply by a number.

    Args:
        form: The form.
        by: The number.
    """
    return tuple((m, c * by) for m, c in form) if by else ZERO


def multiply(left: Form, right: Form) -> Form:
    """Multiply, element by element.

    Args:
        left: A form.
        right: The other form.

    Raises:
        Unsupported: The product has too many terms.
    """
    if len(left) * len(right) > MAX_TERMS:
        raise Unsupported("a product with too many terms")
    terms = []
    for (m, c), (n, d) in itertools.product(left, right):
        used = len(_bound(m))
        apart = _rename(n, {i: ("b", i[1] + used, i[2]) for i in _bound(n)})
        terms.append((_canonical((*m, *apart)), c * d))
    return _collect(terms)


def substitute(form: Form, renaming: Mapping[Index, Index]) -> Form:
    """Rename indices; bound ones that are brought in get names of their own.

    Args:
        form: The form.
        renaming: New indices by old ones.
    """
    terms = []
    for monomial, coefficient in form:
        # New bound indices must not be mixed up with those that are there.
        shift = {i: ("b", i[1] + 100, i[2]) for i in _bound(monomial)}
        renamed = _rename(_rename(monomial, shift), renaming)
        terms.append((_canonical(renamed), coefficient))
    return _collect(terms)


def has_index(monomial: Monomial, index: Index) -> bool:
    """Whether a monomial depends on an index.

    Args:
        monomial: The monomial.
        index: The index.
    """
    return any(i == index for i in _indices(monomial))


def function(label: str, *arguments: Form, commutes: bool = False) -> Form:
    """Apply a function that nothing is known about, element by element.

    Args:
        label: Name of the function.
        *arguments: Its arguments.
        commutes: Whether the order of the arguments does not matter.
    """
    height = 1 + max((_height(a) for a in arguments), default=0)
    closed = [_close(a, height) for a in arguments]
    return factor(("fun", label, tuple(sorted(closed) if commutes else closed)))


def binder(label: str, index: Index, atom: int, *arguments: Form) -> tuple[Form, ...]:
    """Bind an index of arguments that a function sees whole (a row, not an element).

    Args:
        label: Name of the function.
        index: The index that is bound.
        atom: The block that it runs over.
        *arguments: The arguments.
    """
    height = 1 + max((_height(a) for a in arguments), default=0)
    local = ("c", height, label, atom)
    return tuple(substitute(a, {index: local}) for a in arguments)


def _close(form: Form, height: int) -> Form:
    return _collect(
        (_rename(m, {i: ("c", height, str(i[1]), i[2]) for i in _bound(m)}), c)
        for m, c in form
    )


def _collect(terms: Iterable[tuple[Monomial, Fraction]]) -> Form:
    sums: dict[Monomial, Fraction] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, Fraction(0)) + coefficient
    return tuple(sorted((m, c) for m, c in sums.items() if c))


def _walk(node: object, visit: Callable[[Index], None]) -> None:
    if not isinstance(node, tuple):
        return
    if (
        node
        and node[0] in ("o", "b", "c")
        and len(node) > 1
        and not isinstance(node[1], tuple)
    ):
        visit(node)
        return
    for child in node:
        _walk(child, visit)


def _indices(node: object) -> list[Index]:
    found: list[Index] = []
    _walk(node, found.append)
    return found


def _bound(node: object) -> list[Index]:
    return list(dict.fromkeys(i for i in _indices(node) if i[0] == "b"))


def _height(node: object) -> int:
    return max((i[1] for i in _indices(node) if i[0] == "c"), default=0)


def _rename(monomial: Monomial, renaming: Mapping[Index, Index]) -> Monomial:
    return tuple(_rename_factor(f, renaming) for f in monomial)


def _rename_factor(single: Factor, renaming: Mapping[Index, Index]) -> Factor:
    kind = single[0]
    if kind == "sym":
        indices = tuple(_rename_index(i, renaming) for i in single[3])
        return (kind, single[1], single[2], indices)
    if kind == "fun":
        # New names may change the order of terms, so that forms are collected anew.
        forms = [_collect((_rename_sorted(m, renaming), c) for m, c in f) for f in single[2]]
        commutes = single[1].startswith("~")
        return (kind, single[1], tuple(sorted(forms) if commutes else forms))
    return single


def _rename_sorted(monomial: Monomial, renaming: Mapping[Index, Index]) -> Monomial:
    return tuple(sorted(_rename(monomial, renaming)))


def _rename_index(index: Index, renaming: Mapping[Index, Index]) -> Index:
    if index[0] == "w":
        place, offset = (_rename_index(i, renaming) for i in index[1:3])
        return ("w", place, offset, *index[3:])
    return renaming.get(index, index)


def _canonical(monomial: Monomial) -> Monomial:
    """Name the bound indices and order the factors in one way.

    Indices are distinguished by how they occur; among those that occur alike every order is
    tried, and the least result taken.
    """
    bound = _bound(monomial)
    if not bound:
        return tuple(sorted(monomial))
    groups: dict[Any, list[Index]] = {}
    for index in bound:
        groups.setdefault(_signature(monomial, index, bound), []).append(index)
    ordered = [groups[key] for key in sorted(groups)]
    count = 1
    for group in ordered:
        for k in range(2, len(group) + 1):
            count *= k
    if count > _MAX_ORDERS:
        raise Unsupported("a term with too many interchangeable indices")
    choices = itertools.product(*(itertools.permutations(g) for g in ordered))
    candidates = (
        _rename_sorted(
            monomial, {i: ("b", n, i[2]) for n, i in enumerate(itertools.chain(*choice))}
        )
        for choice in choices
    )
    return min(candidates)


def _signature(monomial: Monomial, index: Index, bound: Sequence[Index]) -> Hashable:
    blank = {other: ("b", -1, other[2]) for other in bound}
    return (index[2], _rename_sorted(monomial, {**blank, index: ("b", -2, index[2])}))


def reciprocal(form: Form) -> Form:
    """Divide one by a form: a number where it is one, else a function of it."""
    if len(form) == 1 and form[0][0] == ():
        return number(1 / form[0][1])
    return function("reciprocal", form)
