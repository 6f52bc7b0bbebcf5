"""Convolution on blocks: a sum over channels and offsets of what the kernel lies upon."""

from __future__ import annotations

from onnx_passes.verify.rules import block_terms as terms
from onnx_passes.verify.rules.arithmetic import Unsupported
from onnx_passes.verify.rules.block_pointwise import block_operator
from onnx_passes.verify.rules.block_products import contract, summed
from onnx_passes.verify.rules.block_sizes import Word
from onnx_passes.verify.rules.block_terms import Form, Index
from onnx_passes.verify.rules.block_values import (
    Blocks,
    Node,
    Place,
    axis_index,
    grid,
    map_blocks,
    moved,
)

_CHANNEL: Index = ("o", 2000)
_OFFSET = 3000


@block_operator("Conv")
def _(node: Node) -> Blocks:
    x, weight, bias = node.required(0), node.required(1), node.given(2)
    if int(node.attribute("group", 1)) != 1:
        raise Unsupported("Conv in groups")
    node.sizes.unify(x.words[1], weight.words[1])
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
        channels = range(len(x.words[1]))
        pairs = [
            (
                _read(x.forms[(n, c, *tail)], x.rank, node.label()),
                _slid(weight.forms[(f, c, *tail)], x.rank),
            )
            for c in channels
        ]
        if node.ring:
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
