"""Operators that sum products of blocks: MatMul, Gemm, and reductions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_passes.ops.call import normalize_axis
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.rules import block_terms as terms
from onnx_passes.verify.rules.block_pointwise import block_operator, reciprocal
from onnx_passes.verify.rules.block_sizes import ONE, Word
from onnx_passes.verify.rules.block_terms import Form, Index
from onnx_passes.verify.rules.block_values import (
    Blocks,
    Node,
    axis_index,
    broadcast_place,
    dropped,
    grid,
    map_blocks,
    moved,
)

# Free indices beyond every real axis carry contracted ones through a product.
_SHARED = 1000


@block_operator("MatMul")
def _(node: Node) -> Blocks:
    return matmul(node, node.required(0), node.required(1))


def matmul(node: Node, x: Blocks, y: Blocks) -> Blocks:
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


@block_operator("Gemm")
def _(node: Node) -> Blocks:
    a, b, c = node.required(0), node.required(1), node.given(2)
    if node.attribute("transA", 0):
        a = moved(a, [1, 0])
    if node.attribute("transB", 0):
        b = moved(b, [1, 0])
    alpha, beta = (float(np.float32(node.attribute(n, 1.0))) for n in ("alpha", "beta"))
    y = matmul(node, a, b)
    if not node.ring:
        label = f"Gemm[{alpha!r},{beta!r}]"
        operands = (y,) if c is None else (y, c)
        if len(operands) == 1 and alpha == 1:
            return y
        return map_blocks(node, a.dtype, lambda *f: terms.function(label, *f), *operands)
    y = map_blocks(node, a.dtype, lambda f: terms.scale(f, Fraction(alpha)), y)
    if c is None:
        return y
    return map_blocks(
        node, a.dtype, lambda f, g: terms.add(f, terms.scale(g, Fraction(beta))), y, c
    )


@block_operator("ReduceSum", "ReduceMean")
def _(node: Node) -> Blocks:
    x = node.required(0)
    axes = node.ints(1, "axes")
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return x
    folded = sorted({normalize_axis(a, x.rank) for a in axes or range(x.rank)})
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
    if node.node.op_type == "ReduceMean":
        count = terms.ONE_FORM
        for axis in folded:
            sizes = [
                terms.number(1) if a == ONE else terms.factor(("size", a))
                for a in x.words[axis]
            ]
            count = terms.multiply(count, terms.add(*sizes))
        forms = {p: terms.multiply(f, reciprocal(count)) for p, f in forms.items()}
    result = Blocks(words, forms, x.dtype)
    if node.attribute("keepdims", 1):
        return result
    return dropped(result, [i for i in range(x.rank) if i not in folded])
