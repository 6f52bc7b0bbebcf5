"""Write our own quantisers and thresholds as operators of QONNX."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CHANNELS_LAST, CUSTOM, QONNX
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled
from onnx_passes.passes.quantised._chains import keeps_shape
from onnx_passes.passes.quantised._quantised_hints import quantiser
from onnx_passes.passes.quantised._quantisers import table_of
from onnx_passes.passes.streamline._integer_ranges import IntegerRange
from onnx_passes.passes.streamline._rule_constants import constant, floats, narrow, rank_of
from onnx_passes.plain import PlainDict

_LAYOUTS: dict[tuple[int, ...], str] = {
    (2, 1): "NC",
    (3, 1): "NCW",
    (4, 1): "NCHW",
    (3, 2): "NWC",
    (4, 3): "NHWC",
}
"""Layouts of QONNX by rank and axis of the channels."""

_BETWEEN = 2
"""Most nodes between thresholds and what shows their layout: sums with a bias, differences."""


_TABLES = (Spec("3", mixed=(-1.0, 0.5, 2.0)), Spec("c 1 3", mixed=(-1.0, 0.5, 2.0)))


@passes.verify.equality
@passes.register()
class ExportQonnx(RulePass):
    """Convert our own quantisers and thresholds to operators of QONNX.

    Before: ``onnx_passes.ops.Quant(x, scale, zero, bits)``;
            ``Add(onnx_passes.ops.MultiThreshold(x, t, w), a)``, with the sum or without
    After:  ``qonnx.custom_op.general.Quant(x, scale, zero, bits)``;
            ``qonnx.custom_op.general.MultiThreshold(x, t')`` with ``w`` as its ``out_scale``,
            ``a`` as its ``out_bias``, and the datatype of what it makes

    So FINN and qonnx read what was streamlined. The way back is ``import-qonnx``.

    Sound because the operators compute the same by definition: the number of thresholds that
    are reached, times one weight, plus one number.

    Leaves alone: thresholds that are computed, that make ``x`` bigger, or that differ along
    another axis than the second or the last; weights that differ, which
    ``decompose-thresholds`` makes one of beforehand; weights and sums that are not integers;
    more than four axes, and fewer than two.
    """

    needs = ("shape-inference",)
    exclusive = True
    hints: ClassVar[Hints] = {
        "Quant": quantiser("s", "z", "b"),
        "MultiThreshold": Hint(
            {"x": data("a c d"), "t": _TABLES, "w": filled("", 1.0, 2.0)},
            {},
            (ir.DataType.FLOAT,),
            13,
        ),
        "bias": Hint(
            {
                "x": data("a c d", "a c"),
                "t": (Spec("c 3", mixed=(-1.0, 0.5, 2.0)),),
                "a": filled("", 1.0, -2.0),
            },
            {
                "MultiThreshold.out_scale": (1.0, 2.0),
                "MultiThreshold.out_bias": (0.0,),
                "MultiThreshold.out_dtype": ("UINT4",),
                "MultiThreshold.data_layout": ("NC", "NCW"),
            },
            (ir.DataType.FLOAT,),
            13,
        ),
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _flags(v: Values) -> PlainDict | None:
    attributes = node_of(v["y"]).attributes
    if any(attribute.is_ref() for attribute in attributes.values()):
        return None
    flags = {name: attributes.get_int(name, 1) for name in ("signed", "narrow")}
    return {**flags, "rounding_mode": attributes.get_string("rounding_mode", "ROUND")}


def _quant(op: Op, v: Values, flags: PlainDict) -> Value:
    return op.Quant(*(v[name] for name in "xszb"), **flags, _domain=QONNX)


def _rows(v: Values) -> tuple[Array, PlainDict] | None:
    """Return thresholds ``[channels, steps]`` or ``[1, steps]``, and the attributes."""
    found, rank = table_of(v["t"], v["w"]), rank_of(v["x"])
    if found is None or rank is None or v["x"].dtype != ir.DataType.FLOAT:
        return None
    if not keeps_shape(node_of(v["y"]), v["x"]):
        return None
    weight, table = float(found[1].flat[0]), narrow(found[0], kept=1)
    axes = [rank - table.ndim + 1 + i for i, n in enumerate(table.shape[:-1]) if n != 1]
    last = rank - 1 if rank > 2 and _is_channels_last(v) else 1
    layout = _LAYOUTS.get((rank, *(axes or [last])))
    if (found[1] != weight).any() or weight <= 0 or len(axes) > 1 or layout is None:
        return None
    attributes = {"out_scale": weight, "out_bias": 0.0, "data_layout": layout}
    noted = _with_datatype(table.shape[-1], attributes)
    return None if noted is None else (table.reshape(-1, table.shape[-1]), noted)


def _is_channels_last(v: Values) -> bool:
    """Whether what is around a value of more than two axes is channels-last data."""
    rank, source = rank_of(v["x"]) or 0, v["x"].producer()
    readers = list(v["y"].consumers())
    for _ in range(_BETWEEN):
        sums = [node for node in readers if node.op_type in ("Add", "Sub")]
        readers += [user for node in sums for user in node.outputs[0].consumers()]
    makers = [] if source is None else [source]
    if any(map(_tells_channels_last, (*makers, *readers, *v["x"].consumers()))):
        return True
    turns = [(node, [0, *range(2, rank), 1]) for node in makers]
    turns += [(node, [0, rank - 1, *range(1, rank - 1)]) for node in readers]
    return any(
        node.op_type == "Transpose" and list(node.attributes.get_ints("perm") or ()) == perm
        for node, perm in turns
    )


def _tells_channels_last(node: ir.Node) -> bool:
    """Whether a node reads channels-last data by its domain or its layout."""
    layout = node.attributes.get("data_layout")
    noted = layout is not None and layout.value in ("NHWC", "NWC")
    return node.domain == CHANNELS_LAST or noted


def _with_datatype(steps: int, attributes: PlainDict) -> PlainDict | None:
    """Return attributes with the datatype of the integers that they make."""
    scale, bias = attributes["out_scale"], attributes["out_bias"]
    if not (scale.is_integer() and bias.is_integer()):
        return None
    ends = IntegerRange(bias, bias + steps * scale, 2 if steps == 1 and scale == 2 else 1)
    return {**attributes, "out_dtype": ends.name} if ends.exact else None


def _thresholds(op: Op, v: Values, found: tuple[Array, PlainDict]) -> Value:
    table, attributes = found
    return op.MultiThreshold(v["x"], constant(op, table), **attributes, _domain=QONNX)


def _find_bias(v: Values) -> PlainDict | None:
    """Return the attributes of thresholds that take in a sum."""
    number, known = floats(v["a"]), node_of(v["m"]).attributes
    table = floats(v["t"])
    if number is None or number.size != 1 or number.ndim > (rank_of(v["x"]) or 0):
        return None
    if (
        table is None
        or table.ndim != 2
        or any(attribute.is_ref() for attribute in known.values())
    ):
        return None
    attributes = {attribute.name: attribute.value for attribute in known.values()}
    if attributes.get("out_bias") != 0 or "out_scale" not in attributes:
        return None
    return _with_datatype(
        table.shape[-1], {**attributes, "out_bias": float(number.reshape(()))}
    )


def _with_bias(op: Op, v: Values, attributes: PlainDict) -> Value:
    return op.MultiThreshold(v["x"], v["t"], **attributes, _domain=QONNX)


_EXPORTED = call("MultiThreshold", "x", "t", result="m", domain=QONNX)
_TABLE = call("MultiThreshold", *"xtw", result="y", domain=CUSTOM)
_RULES = [
    TermRule(call("Quant", *"xszb", result="y", domain=CUSTOM), _flags, _quant, name="Quant"),
    TermRule(_TABLE, _rows, _thresholds, name="MultiThreshold"),
    TermRule(call("Add", _EXPORTED, "a"), _find_bias, _with_bias, name="bias"),
]
