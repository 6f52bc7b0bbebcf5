"""Replace Add by Sum, which ONNX Runtime does not join with a normalization."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import node_of, opset_at
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, data

RANK = 3
READERS = ("LayerNormalization", "RMSNormalization")


@passes.verify.tolerance
@passes.register("suit-onnxruntime")
class SumBeforeNormalization(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace Add by Sum, which ONNX Runtime does not join with a normalization.

    Before: ``LayerNormalization(Add(x, y), scale, bias)``
    After:  ``LayerNormalization(Sum(x, y), scale, bias)``

    So it is with RMSNormalization. ONNX Runtime replaces the former by its
    SkipLayerNormalization. Its kernel for processors takes six to seven times as long as the
    two operators (1.31, 64 to 768 channels). It has no such fusion for Sum.

    Sound because the Sum of two tensors is defined as their sum, with the broadcasting of Add.
    The contract is a tolerance: the joint operator rounds in another way.

    Leaves alone: other types than float, for which ONNX Runtime has other kernels; a constant
    summand; tensors of another rank than 3, or of unknown rank, and a normalization over other
    axes than the last, which ONNX Runtime does not join; a normalization with further results;
    opsets before 8, whose Sum does not broadcast.
    """

    needs = ("shape-inference",)
    always_pays = False
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "x": data("b s d", "b s d", "1 s d"),
                "y": data("b s d"),
                "normal.1": data("d"),
                "normal.2": data("d"),
            },
            {
                **{f"{reader}.axis": (-1, 2) for reader in READERS},
                **{f"{reader}.stash_type": (None,) for reader in READERS},
            },
            (ir.DataType.FLOAT,),
            23,
        )
    }

    def rules(self) -> Iterator[Rule]:
        for reader in READERS:
            yield Rule(partial(_sum, reader), _apart, _is_joined)


def _sum(reader: str, op: Op, x: Var, y: Var) -> tuple[Var, Var]:
    total = op.Add(x, y, _outputs=["total"])
    return total, getattr(op, reader)(total, _allow_other_inputs=True, _outputs=["normal"])


def _is_joined(context: MatchContext, x: Value, y: Value, normal: Value, **_: object) -> bool:
    if opset_at(context) < 8 or x.dtype is not ir.DataType.FLOAT:
        return False
    reader = node_of(normal)
    if len(reader.outputs) > 1 or reader.attributes.get_int("axis", -1) not in (-1, RANK - 1):
        return False
    if len(dims_of(x) or []) != RANK or len(dims_of(y) or []) != RANK:
        return False
    return constant_of(x) is None and constant_of(y) is None


def _apart(op: Op, x: Value, y: Value, normal: Value, **_: object) -> tuple[Value, Value]:
    reader = node_of(normal)
    total = op.Sum(x, y)
    again = getattr(op, reader.op_type)(total, *reader.inputs[1:], **reader.attributes)
    return total, again
