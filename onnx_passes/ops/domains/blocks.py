"""Tensors cut into blocks of any size, with their sums, products and convolutions."""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.block_terms import (
    ONE,
    Form,
    Index,
    Sizes,
    Word,
    factor,
    function,
    number,
    substitute,
)
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.plain import Plain

Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A tensor as a grid of normal forms.

    ``words`` say how each axis is cut. ``known`` holds the elements of a constant whose
    numbers matter.
    """

    words: tuple[Word, ...]
    forms: Mapping[Place, Form]
    dtype: ir.DataType
    known: Array | None = None

    @property
    def rank(self) -> int:
        return len(self.words)


def grid(words: Sequence[Word]) -> Iterator[Place]:
    """Yield every place of a grid of blocks."""
    return itertools.product(*(range(len(w)) for w in words))


def axis_index(rank: int, axis: int) -> tuple[str, int]:
    """Return the index of an axis; axes are counted from the last, as broadcasting does."""
    return ("o", rank - 1 - axis)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node about to be evaluated on blocks.

    An omitted input is ``None``. If ``ring`` is set, addition and multiplication may be
    reordered and distributed; else they are functions, as rounding demands. ``key`` stays the
    same from one evaluation to the next. Methods raise ``Unsupported`` if an input is missing
    or not a constant.
    """

    node: ir.Node
    inputs: Sequence[Blocks | None]
    sizes: Sizes
    ring: bool
    key: tuple[Hashable, ...]
    opset: int

    def required(self, index: int) -> Blocks:
        """Return an input that must be there."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise Unsupported(f"{self.node.op_type} without its input {index}")
        return value

    def given(self, index: int) -> Blocks | None:
        """Return an input, or None where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, index: int, name: str) -> list[int] | None:
        """Return integers that are an input in newer opsets and an attribute in older ones."""
        value = self.given(index)
        if value is None:
            attr = self.attribute(name, None)
            return None if attr is None else [int(v) for v in attr]
        if value.known is None:
            raise Unsupported(
                f"{self.node.op_type} with an input {index} that is not constant"
            )
        return [int(v) for v in value.known.reshape(-1)]

    def attribute(self, name: str, default: object) -> Plain:
        attr = self.node.attributes.get(name)
        if attr is not None and attr.is_ref():
            raise Unsupported(f"{self.node.op_type} with a reference for attribute {name}")
        return default if attr is None else attr.value

    def label(self) -> str:
        """Return the operator with its attributes, as the name of a function."""
        settings = sorted(f"{a.name}={a.value}" for a in self.node.attributes.values())
        return f"{self.node.op_type}[{','.join(settings)}]"


def symbol(name: str, shape: Sequence[int], dtype: ir.DataType, sizes: Sizes) -> Blocks:
    """Return an input as unknown blocks. ``shape`` is that of the graphs at hand."""
    words = tuple(sizes.named(("axis", name, i), d) for i, d in enumerate(shape))
    forms = {}
    for place in grid(words):
        axes = [i for i, w in enumerate(words) if w[place[i]] != ONE]
        indices = tuple(axis_index(len(words), i) for i in axes)
        forms[place] = factor(("sym", name, place, indices))
    return Blocks(words, forms, dtype)


def literal(array: Array, dtype: ir.DataType, ring: bool) -> Blocks:
    """Return a constant of one element; ``Unsupported`` if a ring does not have it."""
    words = ((ONE,),) * array.ndim
    value = array.reshape(-1)[0]
    if ring and np.isfinite(value):
        form = number(Fraction(int(value) if dtype.is_integer() else float(value)))
    else:
        form = function(f"literal[{value!r}]")
    return Blocks(words, {(0,) * array.ndim: form}, dtype, array)


def map_blocks(
    node: Node, dtype: ir.DataType, combine: Callable[..., Form], *operands: Blocks
) -> Blocks:
    """Apply a function of forms, element by element, to operands that broadcast together.

    ``combine`` gets a form of each operand. Raises ``Refined`` if axes had to be cut alike
    first.
    """
    rank = max(o.rank for o in operands)
    words = []
    for axis in range(rank):
        there = [o.words[axis - rank + o.rank] for o in operands if axis >= rank - o.rank]
        wide = [w for w in there if w != (ONE,)]
        for other in wide[1:]:
            node.sizes.unify(wide[0], other)
        words.append(wide[0] if wide else (ONE,))
    forms = {}
    for place in grid(words):
        parts = [o.forms[broadcast_place(place, o, rank)] for o in operands]
        forms[place] = combine(*parts)
    return Blocks(tuple(words), forms, dtype)


def broadcast_place(place: Place, operand: Blocks, rank: int) -> Place:
    """Return the place of an operand's block that broadcasts to a place of the result."""
    own = place[rank - operand.rank :]
    return tuple(0 if w == (ONE,) else p for p, w in zip(own, operand.words, strict=True))


def moved(value: Blocks, order: Sequence[int | None]) -> Blocks:
    """Return axes in a new order; None puts a new axis of size 1."""
    rank, new_rank = value.rank, len(order)
    words = tuple((ONE,) if axis is None else value.words[axis] for axis in order)
    renaming = {
        axis_index(rank, axis): axis_index(new_rank, i)
        for i, axis in enumerate(order)
        if axis is not None
    }
    forms = {}
    for place in grid(words):
        old = [0] * rank
        for i, axis in enumerate(order):
            if axis is not None:
                old[axis] = place[i]
        forms[place] = substitute(value.forms[tuple(old)], renaming)
    return Blocks(words, forms, value.dtype)


def dropped(x: Blocks, kept: list[int]) -> Blocks:
    """Remove axes of size 1 that are not ``kept``; nothing depends on their index."""
    whole = moved(x, [*(i for i in range(x.rank) if i not in kept), *kept])
    skip = x.rank - len(kept)
    forms = {place[skip:]: form for place, form in whole.forms.items()}
    return Blocks(whole.words[skip:], forms, x.dtype)


def known_constant(node: Node, array: Array, dtype: ir.DataType) -> Blocks:
    """Return a constant: a number, a symbol for its content, or plain integers."""
    if array.size == 1:
        return literal(array, dtype, node.ring)
    if dtype.is_integer() and array.ndim <= 1:
        # Shapes, axes and bounds: read as numbers by the operators that take them.
        return Blocks(((ONE,),) * array.ndim, {}, dtype, array)
    raise Unsupported("a constant of more than one element")


def taken(x: Blocks, axis: int, start: int, end: int) -> Blocks:
    """Return the blocks from number ``start`` up to ``end`` along an axis."""
    words = list(x.words)
    words[axis] = x.words[axis][start:end]
    forms = {
        (*place[:axis], place[axis] - start, *place[axis + 1 :]): form
        for place, form in x.forms.items()
        if start <= place[axis] < end
    }
    return Blocks(tuple(words), forms, x.dtype)


# Free indices beyond every real axis carry contracted ones through a product.
_SHARED = 1000


def product_of_blocks(node: Node, x: Blocks, y: Blocks) -> Blocks:
    """Multiply matrices, with batch dimensions that broadcast."""
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
    """Sum products over an axis, block by block; ``pairs`` has both forms of each block."""
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
    """Multiply two forms and sum over an index that is ``i`` in one and ``j`` in the other."""
    if atom == ONE:
        return terms.multiply(left, right)
    # A free index that no operand uses carries the bound one through the product.
    shared: Index = ("o", _SHARED)
    product = terms.multiply(
        terms.substitute(left, {i: shared}), terms.substitute(right, {j: shared})
    )
    return contract(product, shared, atom)


def contract(form: Form, index: Index, atom: int) -> Form:
    """Sum a form over an index that runs over a block."""
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
    """Add up blocks along axes, to size 1; raise ``Unsupported`` if rounding matters."""
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


_CHANNEL: Index = ("o", 2000)
_OFFSET = 3000


def convolution(node: Node, x: Blocks, weight: Blocks, bias: Blocks | None) -> Blocks:
    """Sum products of a kernel with the places of an image that it slides over.

    Raises ``Unsupported`` if channels of groups, or axes in space, are cut.
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
    node: Node, inner: Word, weight: Blocks, pairs: list[tuple[Form, Form]], added: list[Form]
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
