"""Sums of blocks, and of their products."""

from __future__ import annotations

from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.block_sizes import ONE, Word
from onnx_passes.ops.domains.block_terms import Form, Index
from onnx_passes.ops.domains.block_values import (
    Blocks,
    Node,
    axis_index,
    broadcast_place,
    grid,
    moved,
)
from onnx_passes.ops.semantics import Unsupported

# Free indices beyond every real axis carry contracted ones through a product.
_SHARED = 1000


def product_of_blocks(node: Node, x: Blocks, y: Blocks) -> Blocks:
    """Multiply matrices, with batch dimensions that broadcast.

    Args:
        node: The node, for its sizes.
        x: The left operand.
        y: The right operand.

    Raises:
        Unsupported: An operand has rank below 2.
    """
    if x.rank < 2 or y.rank < 2:
        raise Unsupported("MatMul of a vector")
    node.sizes.unify(x.words[-1], y.words[-2])
    rank = max(x.rank, y.rank)
    left, right = (moved(v, [*[None] * (rank - v.rank), *range(v.rank)]) for v in (x, y))
    batch = [
        _common(node, a, b) for a, b in zip(left.words[:-2], right.words[:-2], strict=True)
    ]
    words, inner = (*batch, left.words[-2], right.words[-1]), left.words[-1]
    forms = {}
    for place in grid(words):
        *outer, i, j = place
        pairs = [
            (
                left.forms[broadcast_place((*outer, i, k), left, rank)],
                right.forms[broadcast_place((*outer, k, j), right, rank)],
            )
            for k in range(len(inner))
        ]
        forms[place] = contracted(node, inner, pairs, ("o", 0), ("o", 1))
    return Blocks(words, forms, x.dtype)


def _common(node: Node, left: Word, right: Word) -> Word:
    """Return the word that two batch axes broadcast to."""
    if (ONE,) in (left, right):
        return right if left == (ONE,) else left
    return node.sizes.unify(left, right)


def contracted(
    node: Node,
    inner: Word,
    pairs: list[tuple[Form, Form]],
    left_index: Index,
    right_index: Index,
) -> Form:
    """Sum products over an axis, block by block.

    Args:
        node: The node, for its sizes.
        inner: The word of the axis.
        pairs: The forms of both operands for each block of the axis.
        left_index: Index of the axis in the left operand.
        right_index: Index of the axis in the right operand.
    """
    total = terms.ZERO
    ordered: list[Form] = []
    for atom, (left, right) in zip(inner, pairs, strict=True):
        if node.ring:
            total = terms.add(total, summed(left, right, left_index, right_index, atom))
        else:
            # The kernel's order of summation follows the axis, so that blocks keep theirs.
            (a,) = terms.binder("dot", left_index, atom, left)
            (b,) = terms.binder("dot", right_index, atom, right)
            # Each product commutes bit for bit; the sum does not.
            ordered += sorted([a, b])
    return total if node.ring else terms.function("dot", *ordered)


def summed(left: Form, right: Form, i: Index, j: Index, atom: int) -> Form:
    """Multiply two forms and sum over an index that is ``i`` in one and ``j`` in the other.

    Args:
        left: A form.
        right: The other form.
        i: The index in ``left``.
        j: The index in ``right``.
        atom: The block that the index runs over.
    """
    if atom == ONE:
        return terms.multiply(left, right)
    # A free index that no operand uses carries the bound one through the product.
    shared: Index = ("o", _SHARED)
    product = terms.multiply(
        terms.substitute(left, {i: shared}), terms.substitute(right, {j: shared})
    )
    return contract(product, shared, atom)


def contract(form: Form, index: Index, atom: int) -> Form:
    """Sum a form over an index that runs over a block.

    Args:
        form: The form.
        index: The index.
        atom: The block that it runs over.
    """
    if atom == ONE:
        return form
    pieces = []
    for monomial, coefficient in form:
        single: Form = ((monomial, coefficient),)
        if terms.has_index(monomial, index):
            pieces.append(terms.substitute(single, {index: ("b", 0, atom)}))
        else:
            pieces.append(terms.multiply(single, terms.factor(("size", atom))))
    return terms.add(*pieces)


def reduced(node: Node, x: Blocks, folded: list[int], *, mean: bool) -> Blocks:
    """Add up blocks along axes, whose size becomes 1.

    Args:
        node: The node, for the kind of numbers.
        x: What is added up.
        folded: The axes, in order.
        mean: Whether the sums are divided by how many terms they have.

    Raises:
        Unsupported: Rounding matters.
    """
    if not node.ring:
        raise Unsupported("a reduction whose rounding matters")
    words = tuple((ONE,) if i in folded else w for i, w in enumerate(x.words))
    forms = {}
    for place in grid(words):
        total = terms.ZERO
        for inner in grid([x.words[i] for i in folded]):
            at = list(place)
            for axis, p in zip(folded, inner, strict=True):
                at[axis] = p
            form = x.forms[tuple(at)]
            for axis, p in zip(folded, inner, strict=True):
                form = contract(form, axis_index(x.rank, axis), x.words[axis][p])
            total = terms.add(total, form)
        forms[place] = total
    if mean:
        count = terms.ONE_FORM
        for axis in folded:
            sizes = [
                terms.number(1) if a == ONE else terms.factor(("size", a))
                for a in x.words[axis]
            ]
            count = terms.multiply(count, terms.add(*sizes))
        forms = {p: terms.multiply(f, terms.reciprocal(count)) for p, f in forms.items()}
    return Blocks(words, forms, x.dtype)
