"""Names of sums and products of dimensions: of joined lengths, of rows that are counted."""

from __future__ import annotations

import functools

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.domains.sizes import Element, Terms, add, dimension, terms_of
from onnx_passes.passes.annotated import INVENTED
from onnx_passes.passes.annotation._capped import Dims

SIGN, TIMES = "+", "*"


def spelt(element: Element) -> str | None:
    """Return a name for a sum or a product of dimensions, as ``past+sequence``, ``2*batch``.

    The same for each way to compute it. None for what is neither, for a sum in which a
    dimension is there twice, and for dimensions without a name.
    """
    terms = terms_of(element) or {}
    if len(terms) == 1:
        return _product(terms)
    names = []
    for monomial, factor in terms.items():
        if not monomial:
            return None
        ((size, power), *others) = monomial
        if factor != 1 or power != 1 or others or size[0] != "name":
            return None
        if str(size[1]).startswith(INVENTED) or SIGN in str(size[1]):
            return None
        names.append(str(size[1]))
    return SIGN.join(sorted(names)) if len(names) > 1 else None


def _product(terms: Terms) -> str | None:
    """Return a name for a product; parts that are not plain names stand in parentheses."""
    ((monomial, factor),) = terms.items()
    parts = []
    for size, power in monomial:
        name = str(size[1])
        if size[0] != "name" or name.startswith(INVENTED) or "(" in name or ")" in name:
            return None
        parts += [name if name.isidentifier() else f"({name})"] * power
    if factor < 1 or not parts:
        return None
    return TIMES.join([str(factor)] * (factor > 1) + sorted(parts))


def taken(model: ir.Model) -> set[str]:
    """Return the names that the user gave to dimensions, and that could be made here."""
    values = [*model.graph.inputs, *model.graph.outputs]
    for graph in graphs_within(model.graph):
        values += (v for node in graph if node.domain for v in node.outputs)
    dims = (dim for value in values for dim in value.shape or ())
    names = {d.value for d in dims if isinstance(d, ir.SymbolicDim) and d.value is not None}
    sums = {n for n in names if SIGN in n and SIGN.join(sorted(n.split(SIGN))) == n}
    return sums | {n for n in names if TIMES in n}


class Joined:
    """The sizes of what Concat makes, and of what Transpose makes of that.

    What is declared of an output of the model is not asked: it may be called ``total`` there.
    """

    def __init__(self) -> None:
        """Know of none yet."""
        self._of: dict[ir.Value, Dims] = {}

    def visit(self, node: ir.Node) -> Dims | None:
        """Return the dimensions of a node's output where these are sums."""
        dims: Dims | None = None
        if node.op_type == "Concat":
            dims = self._concat(node)
        elif node.op_type == "Transpose" and node.inputs[0] in self._of:
            dims = self._of[node.inputs[0]]
            order = node.attributes.get_ints("perm") or range(len(dims))[::-1]
            dims = [dims[axis] for axis in order]
        if dims is not None:
            self._of[node.outputs[0]] = dims
        return dims

    def _concat(self, node: ir.Node) -> Dims | None:
        parts = [value for value in node.inputs if value is not None]
        ranks = {None if value.shape is None else len(value.shape) for value in parts}
        axis = node.attributes.get_int("axis")
        rank = ranks.pop() if len(ranks) == 1 else None
        if not rank or axis is None:
            return None
        sizes = [dimension(value, axis % rank) for value in parts]
        name = spelt(functools.reduce(add, sizes))
        if name is None:
            return None
        dims: Dims = [d if isinstance(d, int) else d.value for d in parts[0].shape or ()]
        dims = [None if str(d).startswith(INVENTED) else d for d in dims]
        dims[axis % rank] = name
        return dims
