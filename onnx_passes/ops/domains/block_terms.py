"""Symbolic sizes of blocks, and normal forms of what blocks hold.

A normal form is a sum of products of indexed tensors, as in Einstein notation.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from onnx_passes.ops.semantics import Unsupported

Atom: TypeAlias = int
Word: TypeAlias = tuple[Atom, ...]

ONE: Atom = 0
"""The atom of an axis of size 1, which broadcasts."""


class Refined(Exception):  # noqa: N818 (control flow: evaluate again on finer blocks)
    """An atom was cut; everything evaluated before is out of date."""


class Contradiction(Exception):  # noqa: N818 (control flow: these sizes do not exist)
    """No positive sizes satisfy what the graphs ask."""


class Ambiguous(Exception):  # noqa: N818 (control flow: try every order)
    """Two atoms begin at the same place, and either may be the longer."""

    def __init__(self, left: Atom, right: Atom) -> None:
        super().__init__(left, right)
        self.left, self.right = left, right


@dataclass
class Sizes:
    """The atoms known so far, and what they were cut into.

    ``imposed`` says that the graph after the rewrite asked for sizes to be equal that the
    graph before leaves free. ``after`` says that this graph is being evaluated.
    """

    imposed: bool = False
    after: bool = False
    _parts: dict[Atom, Word] = field(default_factory=dict)
    _template: dict[Atom, int | None] = field(default_factory=lambda: {ONE: 1})
    _named: dict[Hashable, Word] = field(default_factory=dict)

    def named(self, key: Hashable, template: int) -> Word:
        """Return the word of an axis that ``key`` names, of one fresh atom at first."""
        if key not in self._named:
            self._named[key] = (ONE,) if template == 1 else (self.fresh(template),)
        return self.resolve(self._named[key])

    def remembered(self, key: Hashable) -> Word | None:
        """Return a word kept under ``key``."""
        return self.resolve(self._named[key]) if key in self._named else None

    def remember(self, key: Hashable, word: Word) -> None:
        """Keep a word under ``key``."""
        self._named[key] = word

    def fresh(self, template: int | None) -> Atom:
        """Return a new atom; ``template`` is its size in the graphs at hand, if any."""
        atom = len(self._template)
        self._template[atom] = template
        return atom

    def template(self, word: Word) -> int | None:
        """Return the size of a word in the graphs at hand."""
        sizes = [self._template[a] for a in word]
        return None if None in sizes else sum(s for s in sizes if s is not None)

    def resolve(self, word: Word) -> Word:
        """Return a word with every atom cut as far as it has been."""
        result: list[Atom] = []
        for atom in word:
            parts = self._parts.get(atom)
            result.extend((atom,) if parts is None else self.resolve(parts))
        return tuple(result)

    def cut(self, atom: Atom, parts: Word) -> None:
        """Replace an atom by a word, everywhere.

        Always raises: ``Contradiction`` if the word contains the atom and more, else
        ``Refined``, because earlier results are out of date.
        """
        if atom in parts:
            raise Contradiction
        if ONE in (atom, *(parts if len(parts) == 1 else ())):
            raise Unsupported("an axis of size 1 that meets one of another size")
        self._parts[atom] = parts
        self.imposed |= self.after
        raise Refined

    def unify(self, left: Word, right: Word) -> Word:
        """Make two words equal.

        Raises ``Refined`` if an atom had to be cut, ``Contradiction`` if they cannot be equal,
        and ``Ambiguous`` if either of two atoms may be the longer.
        """
        if left == right:
            return left
        while left and right and left[0] == right[0]:
            left, right = left[1:], right[1:]
        while left and right and left[-1] == right[-1]:
            left, right = left[:-1], right[:-1]
        if not left or not right:
            raise Contradiction
        if len(left) == 1:
            self.cut(left[0], right)
        if len(right) == 1:
            self.cut(right[0], left)
        raise Ambiguous(left[0], right[0])

    def orders(self, left: Atom, right: Atom) -> list[Sizes]:
        """Return copies with each order of two atoms, that of the graphs at hand first."""
        options = []
        sizes = self._template[left], self._template[right]
        known = None if None in sizes else (sizes[0] or 0) - (sizes[1] or 0)
        for order in sorted((0, 1, -1), key=lambda o: known is None or _sign(known) != o):
            option = copy.deepcopy(self)
            fits = known is not None and _sign(known) == order
            rest = option.fresh(abs(known) if fits and known is not None else None)
            parts: Word
            if order == 0:
                longer, parts = left, (right,)
            else:
                longer, shorter = (left, right) if order > 0 else (right, left)
                parts = (shorter, rest)
            try:
                option.cut(longer, parts)
            except Refined:
                options.append(option)
        return options

    def cut_at(self, word: Word, place: int) -> int:
        """Return how many atoms lie before a place given in the sizes of the graphs at hand.

        Raises ``Refined`` if the place lies inside an atom, which was cut there. Raises
        ``Unsupported`` if the sizes at hand are not those of the graphs.
        """
        passed = 0
        for count, atom in enumerate(word):
            if passed == place:
                return count
            size = self._template[atom]
            if size is None:
                break
            if passed < place < passed + size:
                first, second = place - passed, passed + size - place
                parts = tuple(ONE if s == 1 else self.fresh(s) for s in (first, second))
                self.cut(atom, parts)
            passed += size
        if passed == place:
            return len(word)
        raise Unsupported("a cut at a place that sizes other than these do not have")


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def joined(words: Sequence[Word]) -> Word:
    """Return the words one after the other."""
    return tuple(atom for word in words for atom in word)


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
    """Multiply by a number."""
    return tuple((m, c * by) for m, c in form) if by else ZERO


def multiply(left: Form, right: Form) -> Form:
    """Multiply, element by element; raise ``Unsupported`` if there are too many terms."""
    if len(left) * len(right) > MAX_TERMS:
        raise Unsupported("a product with too many terms")
    terms = []
    for (m, c), (n, d) in itertools.product(left, right):
        used = len(_bound(m))
        apart = _rename(n, {i: ("b", i[1] + used, i[2]) for i in _bound(n)})
        terms.append((_canonical((*m, *apart)), c * d))
    return _collect(terms)


def substitute(form: Form, renaming: Mapping[Index, Index]) -> Form:
    """Rename indices from old to new; bound ones that are brought in get their own names."""
    terms = []
    for monomial, coefficient in form:
        # New bound indices must not be mixed up with those that are there.
        shift = {i: ("b", i[1] + 100, i[2]) for i in _bound(monomial)}
        renamed = _rename(_rename(monomial, shift), renaming)
        terms.append((_canonical(renamed), coefficient))
    return _collect(terms)


def has_index(monomial: Monomial, index: Index) -> bool:
    """Whether a monomial depends on an index."""
    return any(i == index for i in _indices(monomial))


def function(label: str, *arguments: Form, commutes: bool = False) -> Form:
    """Apply a function that nothing is known about, element by element."""
    height = 1 + max((_height(a) for a in arguments), default=0)
    closed = [_close(a, height) for a in arguments]
    return factor(("fun", label, tuple(sorted(closed) if commutes else closed)))


def binder(label: str, index: Index, atom: int, *arguments: Form) -> tuple[Form, ...]:
    """Bind an index of arguments that a function sees whole (a row, not an element)."""
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
