"""Operators that are sums of products of whole axes: MatMul, Gemm, Einsum."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor
from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.blocks import Blocks, Node, map_blocks, moved, product_of_blocks
from onnx_passes.ops.input_hints import Choices, Known, Operand, Shape, first
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Elements, Misfit, Scalar, Unsupported, is_float


def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Multiply as numpy does, rank 1 operands and batch dimensions included."""
    if not x.shape or not y.shape:
        raise Misfit("MatMul of a scalar")
    left = x.data[None, :] if len(x.shape) == 1 else x.data
    right = y.data[:, None] if len(y.shape) == 1 else y.data
    if left.shape[-1] != right.shape[-2]:
        raise Misfit(f"MatMul of {list(x.shape)} and {list(y.shape)}")
    try:
        np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError as error:
        raise Misfit(f"MatMul: {error}") from None
    rows, columns = left[..., :, None, :], np.swapaxes(right, -1, -2)[..., None, :, :]
    data = call.semantics.along(call.primitives(x.dtype).dot, rows, columns)
    if len(x.shape) == 1:
        data = data[..., 0, :]
    return Tensor(data[..., 0] if len(y.shape) == 1 else data, x.dtype)


def matmul_cost(operands: Operands) -> int:
    """Return the operations of a product of matrices."""
    return 2 * operands.made() * operands.sizes(0)[-1]


class MatMul(Operator):
    """The product of matrices, with batch dimensions that broadcast."""

    algebra, exact = Algebra(linear=(0, 1)), (1,)

    def evaluate(self, call: Call) -> Tensor:
        return matmul(call, call.required(0), call.required(1))

    def cost(self, operands: Operands) -> int | None:
        return matmul_cost(operands)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        inner = operands.sizes(0)[-1]
        return [(1, inner), (inner, 1)]

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        other = known[1 - index] if len(known) > 1 else None
        if c.square is not None and c.rank in (None, 2):
            return c.data((c.square, c.square))
        if other is None:
            return c.data(c.shape() if c.rank else c.pick(((2, 3), (3, 3), (2, 3, 4), (3,))))
        if not other:
            return c.data((3,))  # no product takes a scalar: the engine refuses this one
        inner = other[-1] if index or len(other) == 1 else other[-2]
        draw, rank = c.rng.random(), c.rank
        if rank == 1 or (rank is None and draw < 0.15):
            return c.data((inner,))
        batch: Shape = ()
        if (rank or 0) > 2 or (rank is None and len(other) > 2 and draw > 0.5):
            count = len(other) - 2 if rank is None else rank - 2
            batch = ((2,) * count + tuple(other[:-2]))[-count:]
        # A guard that takes one axis for another may hold on squares.
        outer = c.pick((5, 5, inner))
        return c.data((*batch, outer, inner) if index == 0 else (*batch, inner, outer))

    sums = True

    def blocks(self, node: Node) -> Blocks:
        return product_of_blocks(node, node.required(0), node.required(1))


_MATMUL = MatMul()


class Gemm(Operator):
    """A product of two matrices and a sum, with factors, in one kernel."""

    changes = versions.GEMM

    algebra, exact = Algebra(affine=(0, 1, 2)), (1, 2)

    def cost(self, operands: Operands) -> int | None:
        given = operands.node.attributes
        inner = operands.sizes(0)[0 if given.get_int("transA", 0) else 1]
        scales = sum(given.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
        return operands.made() * (2 * inner + scales + operands.given(2))

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        left, right = operands.sizes(0), operands.sizes(1)
        flip = operands.node.attributes.get_int("transA", 0)
        return [(left[0], 1) if flip else (1, left[1]), right, (1,)]

    def evaluate(self, call: Call) -> Tensor:
        a, b, c = call.required(0), call.required(1), call.given(2)
        a, b = (
            Tensor(t.data.T, t.dtype) if call.flag(name) else t
            for t, name in ((a, "transA"), (b, "transB"))
        )
        alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
        c = None if beta == 0 else c
        p = call.primitives(a.dtype)
        if call.semantics.expands or not is_float(a.dtype):
            y = _scaled(call, matmul(call, a, b), alpha)
            return y if c is None else call.map(p.add, a.dtype, y, _scaled(call, c, beta))
        # One kernel does all of it, in an order of its own.
        if a.shape[-1] != b.shape[-2]:
            raise Misfit(f"Gemm of {list(a.shape)} and {list(b.shape)}")
        label = f"Gemm[{alpha!r},{beta!r},{int(c is not None)}]"

        def element(row: Elements, column: Elements, *bias: Elements) -> Scalar:
            extra = [b[0] for b in bias]
            if not extra and alpha == 1:
                return p.dot(row, column)
            return p.function(label, *(s for pair in zip(row, column) for s in pair), *extra)  # noqa: B905

        out = (a.shape[0], b.shape[1])
        bias = [] if c is None else [np.broadcast_to(c.data, out)[..., None]]
        sides = a.data[:, None, :], b.data.T[None, :, :]
        return Tensor(call.semantics.along(element, *sides, *bias), a.dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index < 2:
            operand = _MATMUL.suggest(c, index, known[:2])
            return c.data(operand.shape[-2:] if len(operand.shape) > 1 else (3, 4))
        columns = known[1][-1] if len(known) > 1 and known[1] else 4
        rows = first(known, (2, 3))[0] if first(known, (2, 3)) else 1
        return c.data(c.pick(((columns,), (1, columns), (), (rows, columns), (rows, 1))))

    sums = True

    def blocks(self, node: Node) -> Blocks:
        a, b, c = node.required(0), node.required(1), node.given(2)
        if node.attribute("transA", 0):
            a = moved(a, [1, 0])
        if node.attribute("transB", 0):
            b = moved(b, [1, 0])
        alpha, beta = (float(np.float32(node.attribute(n, 1.0))) for n in ("alpha", "beta"))
        y = product_of_blocks(node, a, b)
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


def _scaled(call: Call, x: Tensor, factor: float) -> Tensor:
    a = call.primitives(x.dtype)
    return x if factor == 1 else call.map(lambda v: a.mul(factor, v), x.dtype, x)


class Einsum(Operator):
    """Sums of products over named axes, of one operand or two."""

    algebra = Algebra(linear=(0, 1))

    def cost(self, operands: Operands) -> int | None:
        equation = operands.node.attributes.get_string("equation", "").replace(" ", "")
        terms, sizes = equation.split("->")[0].split(","), dict[str, int]()
        for index, term in enumerate(terms):
            shape = operands.sizes(index)
            if "." in term or len(term) != len(shape):
                return None
            sizes |= {c: max(d, sizes.get(c, 0)) for c, d in zip(term, shape, strict=True)}
        return len(terms) * math.prod(sizes.values())

    def evaluate(self, call: Call) -> Tensor:
        equation = call.text("equation", "").replace(" ", "")
        tensors = [call.required(i) for i in range(len(call.inputs))]
        if "." in equation or "->" not in equation or len(tensors) > 2:
            raise Unsupported(f"Einsum {equation!r}")
        left, output = equation.split("->")
        terms = left.split(",")
        named = [pair for t, x in zip(terms, tensors, strict=True) for pair in zip(t, x.shape)]  # noqa: B905
        sizes = dict(named)
        if any(sizes[name] != size for name, size in named):
            raise Misfit(f"Einsum {equation!r} of sizes that differ")
        letters = [*output, *(c for c in sizes if c not in output)]
        grid = dict(zip(letters, np.ogrid[tuple(slice(sizes[c]) for c in letters)]))  # noqa: B905
        outer = [sizes[c] for c in output]
        inner = math.prod(sizes[c] for c in letters[len(output) :])
        rows = [
            np.broadcast_to(x.data[tuple(grid[c] for c in t)], [sizes[c] for c in letters])
            for t, x in zip(terms, tensors, strict=True)
        ]
        a, flat = call.primitives(tensors[0].dtype), [r.reshape(*outer, inner) for r in rows]
        function = a.total if len(rows) == 1 else a.dot
        return Tensor(call.semantics.along(function, *flat), tensors[0].dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        left = str(c.fixed.get("equation", "")).replace(" ", "").partition("->")[0]
        terms = left.split(",")
        if index >= len(terms) or not terms[index].isalpha():
            return c.data((2, 3, 4) if index == 0 else (2, 4, 5))
        sizes = {letter: 2 + k % 3 for k, letter in enumerate(dict.fromkeys("".join(terms)))}
        for term, shape in zip(terms, known):  # noqa: B905 (those that are known)
            if shape is not None and len(shape) == len(term):
                sizes |= dict(zip(term, shape, strict=True))
        return c.data(tuple(sizes[letter] for letter in terms[index]))
