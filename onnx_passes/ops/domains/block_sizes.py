"""Axes cut into blocks of symbolic sizes.

An axis is a word: a sequence of atoms, each an unknown positive size. ``Concat`` joins
words; an operator that needs two axes of one size makes their words equal, by cutting atoms
into smaller ones (Levi's lemma on words). If neither word shows which of two atoms is the
longer, every order is tried, so that what holds in all of them holds for all sizes.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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

    Attributes:
        imposed: Whether the graph after the rewrite asked for sizes to be equal that the
            graph before leaves free.
        after: Whether the graph after the rewrite is being evaluated.
    """

    imposed: bool = False
    after: bool = False
    _parts: dict[Atom, Word] = field(default_factory=dict)
    _template: dict[Atom, int | None] = field(default_factory=lambda: {ONE: 1})
    _named: dict[Hashable, Word] = field(default_factory=dict)

    def named(self, key: Hashable, template: int) -> Word:
        """Return the word of an axis that ``key`` names, of one fresh atom at first.

        Args:
            key: What names the axis.
            template: Its size in the graphs at hand.
        """
        if key not in self._named:
            self._named[key] = (ONE,) if template == 1 else (self.fresh(template),)
        return self.resolve(self._named[key])

    def remembered(self, key: Hashable) -> Word | None:
        """Return a word kept under ``key``."""
        return self.resolve(self._named[key]) if key in self._named else None

    def remember(self, key: Hashable, word: Word) -> None:
        """Keep a word under ``key``.

        Args:
            key: What names the word.
            word: The word.
        """
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

        Args:
            atom: The atom.
            parts: The word that replaces it.

        Raises:
            Refined: Always, because earlier results are out of date.
            Contradiction: The word contains the atom and more.
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

        Args:
            left: A word.
            right: The other word.

        Raises:
            Refined: An atom had to be cut.
            Contradiction: They cannot be equal.
            Ambiguous: Either of two atoms may be the longer.
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
        """Return copies of the sizes with each possible order of two atoms.

        The order of the graphs at hand comes first.

        Args:
            left: An atom.
            right: The other atom.
        """
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

        Args:
            word: The word of an axis.
            place: The place, from 0.

        Raises:
            Refined: The place lies inside an atom, which was cut there.
            Unsupported: The sizes at hand are not those of the graphs.
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
