"""Convolution on blocks: a sum over channels and offsets of what the kernel lies upon."""

from __future__ import annotations

from fractions import Fraction

from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.block_products import contract, summed
from onnx_passes.ops.domains.block_sizes import Word
from onnx_passes.ops.domains.block_terms import Form, Index
from onnx_passes.ops.domains.block_values import (
    Blocks,
    Node,
    Place,
    axis_index,
    grid,
    map_blocks,
    moved,
)
from onnx_passes.ops.semantics import Unsupported

_CHANNEL: Index = ("o", 2000)
_OFFSET = 3000


def convolution(node: Node, x: Blocks, weight: Blocks, bias: Blocks | None) -> Blocks:
    """Sum products of a kernel with the places of an image that it slides over.

    Args:
        node: The node, for its attributes and sizes.
        x: The image.
        weight: The kernel.
        bias: What is added to each channel; None for nothing.

    Raises:
        Unsupported: Channels of groups, or axes in space, are cut.
    """
    grouped = int(node.attribute("group", 1)) != 1
    if not grouped:
        node.sizes.unify(x.words[1], weight.words[1])
    elif any(len(w) != 1 for w in (x.words[1], *weight.words[:2])):
        raise Unsupported("Conv in groups over channels that are cut")
    if any(len(v.words[i]) != 1 for v in (x, weight) for i in range(2, x.rank)):
        raise Unsupported("Conv over a spatial axis that is cut")
    places = _places(node, x, weight)
    words = (x.words[0], weight.words[0], *places)
    tail = (0,) * len(places)
    forms: dict[Place, Form] = {}
    extra = None if bias is None else moved(bias, [None, 0, *[None] * len(places)])
    if extra is not None:
        node.sizes.unify(extra.words[1], words[1])
    for n, f in grid(words[:2]):
        channels = range(0 if grouped else len(x.words[1]))
        pairs = [
            (
                _read(x.forms[(n, c, *tail)], x.rank, node.label()),
                _slid(weight.forms[(f, c, *tail)], x.rank),
            )
            for c in channels
        ]
        if grouped:
            image, kernel = x.forms[(n, 0, *tail)], weight.forms[(0, 0, *tail)]
            added = [] if extra is None or node.ring else [extra.forms[(0, f, *tail)]]
            forms[(n, f, *tail)] = _grouped(node, x, weight, image, kernel, added)
        elif node.ring:
            forms[(n, f, *tail)] = _sum(node, x.words[1], weight, pairs)
        else:
            added = [] if extra is None else [extra.forms[(0, f, *tail)]]
            forms[(n, f, *tail)] = _opaque(node, x.words[1], weight, pairs, added)
    result = Blocks(words, forms, x.dtype)
    if extra is None or not node.ring:
        return result
    return map_blocks(node, x.dtype, terms.add, result, extra)


def _places(node: Node, x: Blocks, weight: Blocks) -> list[Word]:
    """Name the output's spatial axes after what determines their sizes."""
    shape = node.node.outputs[0].shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        raise Unsupported("Conv with a result of unknown shape")
    return [
        node.sizes.named(
            ("conv", node.label(), i, x.words[i], weight.words[i]), int(str(shape[i]))
        )
        for i in range(2, x.rank)
    ]


def _sum(node: Node, inner: Word, weight: Blocks, pairs: list[tuple[Form, Form]]) -> Form:
    rank = weight.rank
    total = terms.ZERO
    # What lies in the padding is 0, whatever the image's formula would give there.
    mask: Form = terms.ONE_FORM
    for i in range(2, rank):
        inside = ("sym", "inside", (), (_window(i, rank, node.label()),))
        mask = terms.multiply(mask, terms.factor(inside))
    for atom, (image, kernel) in zip(inner, pairs, strict=True):
        product = summed(image, terms.multiply(kernel, mask), _CHANNEL, _CHANNEL, atom)
        for i in range(2, rank):
            product = contract(product, ("o", _OFFSET + i), weight.words[i][0])
        total = terms.add(total, product)
    return total


def _opaque(
    node: Node,
    inner: Word,
    weight: Blocks,
    pairs: list[tuple[Form, Form]],
    added: list[Form],
) -> Form:
    """Take a place of the result as a function of the image and the kernel, in order."""
    ordered: list[Form] = []
    for atom, (image, kernel) in zip(inner, pairs, strict=True):
        ordered += terms.binder("dot", _CHANNEL, atom, image, kernel)
    for i in range(2, weight.rank):
        index = ("o", _OFFSET + i)
        ordered = [*terms.binder(f"at{i}", index, weight.words[i][0], *ordered)]
    return terms.function(f"{node.label()}{len(added)}", *ordered, *added)


def _grouped(
    node: Node, x: Blocks, weight: Blocks, image: Form, kernel: Form, added: list[Form]
) -> Form:
    """Take a convolution in groups as a function of both operands, linear in each.

    Its channels are divided among the groups in a way that blocks do not show.
    """

    def single(left: Form, right: Form) -> Form:
        (left,) = terms.binder("group", axis_index(x.rank, 1), x.words[1][0], left)
        (right,) = terms.binder("group", axis_index(x.rank, 1), weight.words[1][0], right)
        (right,) = terms.binder("feature", axis_index(x.rank, 0), weight.words[0][0], right)
        for i in range(2, x.rank):
            (left,) = terms.binder(f"at{i}", axis_index(x.rank, i), x.words[i][0], left)
            (right,) = terms.binder(f"at{i}", axis_index(x.rank, i), weight.words[i][0], right)
        # Which element of the result this is depends on its feature and place.
        here = [
            terms.factor(("sym", "here", (), (axis_index(x.rank, i),)))
            for i in range(1, x.rank)
        ]
        return terms.function(f"{node.label()}{len(added)}", left, right, *added, *here)

    if not node.ring:
        return single(image, kernel)
    products = [
        terms.scale(single(((m, Fraction(1)),), ((n, Fraction(1)),)), c * d)
        for m, c in image
        for n, d in kernel
    ]
    return terms.add(*products)


def _window(axis: int, rank: int, settings: str) -> Index:
    return ("w", axis_index(rank, axis), ("o", _OFFSET + axis), settings, axis)


def _read(form: Form, rank: int, settings: str) -> Form:
    """Index an image by place and offset instead of position."""
    renaming: dict[Index, Index] = {axis_index(rank, 1): _CHANNEL}
    for i in range(2, rank):
        renaming[axis_index(rank, i)] = _window(i, rank, settings)
    return terms.substitute(form, renaming)


def _slid(form: Form, rank: int) -> Form:
    """Index a kernel by feature, which is the result's channel, and offset."""
    renaming: dict[Index, Index] = {
        axis_index(rank, 0): axis_index(rank, 1),
        axis_index(rank, 1): _CHANNEL,
    }
    for i in range(2, rank):
        renaming[axis_index(rank, i)] = ("o", _OFFSET + i)
    return terms.substitute(form, renaming)
