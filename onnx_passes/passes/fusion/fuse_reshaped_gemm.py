"""Replace a Gemm between two Reshapes by a MatMul of the whole tensor."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import FLOATS, node_of, opset_at, read_once
from onnx_passes.passes.common.shapes import Dim, dims_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, ints

SHAPERS = ("Reshape", "Flatten")


@passes.verify.tolerance
@passes.register("fuse")
class FuseReshapedGemm(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace a Gemm between two Reshapes by a MatMul of the whole tensor.

    Before: ``Reshape(Gemm(Reshape(x, [-1, 48]), w, b), [batch, rows, 64])``
    After:  ``Add(MatMul(x, w), b)``

    Exporters flatten a tensor for an operator that takes matrices only, and compute the
    dimensions to restore. Without a summand no Add is needed.

    Sound because a MatMul with a matrix treats all leading dimensions as rows. The contract is
    a tolerance: Gemm may begin its sums with the summand.

    Leaves alone: results whose leading dimensions are not known to be those of the tensor; a
    Gemm whose result something else reads, with other factors than 1 or a transposed input; a
    transposed weight, unless nothing else reads it; a summand that is not a row; empty
    tensors; opsets before 7. Functions, where shapes are unknown.
    """

    needs = ("shape-inference",)
    always_pays = False
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "x": data("a b d"),
                "rows.1": ints("a*b d", "-1 d"),
                "t.2": data("e", "1 e", "1"),
                "y.1": ints("a b e", "-1 b e", "a b -1"),
            },
            {
                "Flatten.axis": (2, -1),
                "Gemm.transA": (None,),
                "Gemm.alpha": (None, 1.0),
                "Gemm.beta": (None, 1.0),
                "Reshape.allowzero": (None,),
            },
            (ir.DataType.FLOAT, ir.DataType.DOUBLE),
            cases=(
                Hint({"w": data("d e")}, {"Gemm.transB": (None, 0)}),
                Hint({"w": (Spec("e d", mixed=(-1.0, 0.5, 2.0)),)}, {"Gemm.transB": (1,)}),
            ),
        )
    }

    def rules(self) -> Iterator[Rule]:
        for name in SHAPERS:
            yield Rule(partial(_between, name), _whole, _is_linear)


def _between(shaper: str, op: Op, x: Var, w: Var) -> Var:
    rows = getattr(op, shaper)(x, _allow_other_inputs=True, _outputs=["rows"])
    t = op.Gemm(rows, w, _allow_other_inputs=True, _outputs=["t"])
    return op.Reshape(t, _allow_other_inputs=True, _outputs=["y"])


def _is_linear(
    context: MatchContext, x: Value, w: Value, rows: Value, t: Value, y: Value, **_: object
) -> bool:
    gemm, source, wanted = node_of(t), dims_of(x), dims_of(y)
    flat, weight = dims_of(rows), dims_of(w)
    if not (source and wanted and flat and weight) or not read_once(t):
        return False
    given = gemm.attributes
    turned = given.get_int("transB", 0) != 0
    if x.dtype not in FLOATS or given.get_int("transA") or opset_at(context) < 7:
        return False
    if given.get_float("alpha", 1.0) != 1 or given.get_float("beta", 1.0) != 1:
        return False
    if turned and not (constant_of(w) is not None and read_once(w)):
        return False
    inner, outer = weight[::-1] if turned else weight
    if (
        not isinstance(outer, int)
        or not isinstance(inner, int)
        or 0 in (*source, inner, outer)
    ):
        return False
    if y.is_graph_output() and not all(isinstance(dim, int) for dim in wanted):
        return False  # names of the user's outputs say nothing of the inside
    same = flat[-1] == source[-1] == inner and wanted == [*source[:-1], outer]
    return same and None not in wanted and len(source) > 2 and _is_row(gemm, outer)


def _turned(gemm: ir.Node) -> bool:
    """Whether a Gemm transposes its weight."""
    return gemm.attributes.get_int("transB") not in (None, 0)


def _is_row(gemm: ir.Node, size: int) -> bool:
    """Whether the summand of a Gemm is the same for all rows."""
    summand = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    if summand is None:
        return True
    dims: list[Dim] | None = dims_of(summand)
    return dims is not None and dims[-1:] in ([], [1], [size]) and {*dims[:-1]} <= {1}


def _whole(op: Op, x: Value, w: Value, t: Value, **_: object) -> Value:
    gemm = node_of(t)
    if _turned(gemm):
        w = op.Transpose(w, perm=[1, 0])
    product: Value = op.MatMul(x, w)
    summand = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    if summand is None:
        return product
    return op.Add(product, summand)
