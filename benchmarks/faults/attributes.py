"""Attributes that get lost where a node is written anew.

The pass writes out a default that a node leaves open, as normalising passes and converters do;
at one node it forgets what was there.
"""

from __future__ import annotations

from typing import Any

from benchmarks.faults.case import FAULTS, Fault, Planted, attributes
from benchmarks.faults.models import blocks
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value

_IMAGE: dict[str, Any] = {"x": "float[2,4,9,9] x", "y": "float"}
_SUM = "y# = ReduceSum<keepdims = 0>(t#)"


class _Rewritten(Planted):
    operator: str
    explicit: str
    default: Any
    lost: str
    outputs: tuple[str, ...] = ("out",)

    def pattern(self, op: Op) -> Any:
        make = getattr(op, self.operator)
        return make(_allow_other_inputs=True, _outputs=list(self.outputs))

    def check(self, context: Any, out: Value, **others: Value) -> bool:
        given = attributes(out)
        return self.lost in given and self.explicit not in given

    def right(self, op: Op, out: Value, **others: Value) -> Any:
        return self.anew(op, out)

    def wrong(self, op: Op, out: Value, **others: Value) -> Any:
        return self.anew(op, out, self.lost)

    def anew(self, op: Op, out: Value, *without: str) -> Any:
        """Write the node anew, with the default and without some attributes."""
        node = out.producer()
        assert node is not None
        given = {**attributes(out, *without), self.explicit: self.default}
        outputs = len(self.outputs)
        return getattr(op, self.operator)(*node.inputs, **given, _outputs=outputs)


def _plant(
    operator: str,
    lost: str,
    explicit: str,
    default: Any,
    body: str,
    outputs: tuple[str, ...] = ("out",),
    **model: Any,
) -> None:
    """Make and enter a pass that loses an attribute of an operator."""
    words = "".join(word.capitalize() for word in lost.split("_"))
    cls: Any = type(
        f"{operator}{words}Lost",
        (_Rewritten,),
        {
            "__doc__": f"{operator} loses its attribute ``{lost}``.",
            "__module__": __name__,
        },
    )
    cls.operator, cls.explicit, cls.default, cls.lost = operator, explicit, default, lost
    cls.outputs = outputs
    FAULTS.append(
        Fault(passes.verify.equality(cls), blocks(f"{operator} blocks", body, **model))
    )


_plant(
    "CumSum",
    "exclusive",
    "reverse",
    0,
    "y# = CumSum<exclusive = 1>(x, axis)",
    constants="int64 axis = {1}",
)
_plant(
    "CumSum",
    "reverse",
    "exclusive",
    0,
    "y# = CumSum<reverse = 1>(x, axis)",
    constants="int64 axis = {1}",
)
_plant("Gemm", "transB", "transA", 0, "y# = Gemm<transB = 1>(x, x)")
_plant("Gemm", "alpha", "beta", 1.0, "y# = Gemm<alpha = 0.5>(x, x)")
_plant(
    "TopK",
    "largest",
    "sorted",
    1,
    "t#, i# = TopK<largest = 0>(x, k)  y# = Neg(t#)",
    constants="int64[1] k = {2}",
    y="float[4,2]",
    outputs=("out", "indices"),
)
_plant(
    "MaxPool",
    "ceil_mode",
    "storage_order",
    0,
    f"t# = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x)  {_SUM}",
    **_IMAGE,
)
_plant(
    "AveragePool",
    "count_include_pad",
    "ceil_mode",
    0,
    "t# = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x)  "
    f"{_SUM}",
    **_IMAGE,
)
_plant(
    "Conv",
    "dilations",
    "group",
    1,
    f"d# = Conv<pads = [2, 2, 2, 2], dilations = [2, 2]>(x, w)  t# = Abs(d#)  {_SUM}",
    x="float[2,4,9,9] x, float[4,4,3,3] w",
    y="float",
)
_plant(
    "Conv",
    "auto_pad",
    "group",
    1,
    f'd# = Conv<auto_pad = "SAME_LOWER">(x, w)  t# = Abs(d#)  {_SUM}',
    x="float[2,4,9,9] x, float[4,4,2,2] w",
    y="float",
)
_plant(
    "Conv",
    "pads",
    "group",
    1,
    f"d# = Conv<pads = [1, 1, 1, 1]>(x, w)  t# = Abs(d#)  {_SUM}",
    x="float[2,4,9,9] x, float[4,4,3,3] w",
    y="float",
)
_plant(
    "LayerNormalization",
    "epsilon",
    "stash_type",
    1,
    "y# = LayerNormalization<axis = -1, epsilon = 0.01>(x, g)",
    x="float[4,4] x, float[4] g",
)
_plant(
    "LpNormalization",
    "p",
    "axis",
    -1,
    "y# = LpNormalization<p = 1>(x)",
)
_plant(
    "ScatterElements",
    "reduction",
    "axis",
    0,
    'y# = ScatterElements<reduction = "add">(x, i, x)',
    constants="int64[4,4] i = {0,1,2,3, 0,1,2,3, 1,2,3,0, 3,3,3,3}",
)
_plant(
    "Resize",
    "coordinate_transformation_mode",
    "antialias",
    0,
    't# = Resize<coordinate_transformation_mode = "align_corners", mode = "linear">(x, , s)  '
    "y# = ReduceSum<keepdims = 0>(t#)",
    constants="float[4] s = {1, 1, 2, 2}",
    **_IMAGE,
)
_plant(
    "ArgMax",
    "select_last_index",
    "keepdims",
    1,
    "t# = Mod(x, four)  y# = ArgMax<axis = 1, select_last_index = 1>(t#)",
    x="uint8[4,40] x",
    y="int64[4,1]",
    constants="uint8 four = {4}",
)
