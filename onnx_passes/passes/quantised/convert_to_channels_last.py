"""Replace convolutions and pooling by QONNX's operators over channels-last data."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import CHANNELS_LAST, QONNX_ALIASES
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import CHANNELS_LAST_OPERATORS
from onnx_passes.passes.streamline._integer_ranges import plain_call
from onnx_passes.passes.streamline._rule_constants import rank_of
from onnx_passes.plain import PlainDict

Attributes = PlainDict


@passes.verify.equality
@passes.register()
class ConvertToChannelsLast(RulePass):
    """Replace convolutions and pooling by QONNX's operators over channels-last data.

    Before: ``Conv(x, w, b)``, ``MaxPool(x)``, ``BatchNormalization(x, s, b, m, v)``,
            ``QuantAvgPool2d(x)``
    After:  ``Transpose(channels_last.Conv(Transpose(x), Transpose(w), b))``,
            ``Transpose(channels_last.MaxPool(Transpose(x)))``,
            ``Transpose(channels_last.BatchNormalization(Transpose(x), s, b, m, v))``,
            ``Transpose(QuantAvgPool2d(Transpose(x)))`` with the layout NHWC, all with
            their attributes

    The Transposes between two of these go away with ``channels-last``, which moves them as
    far as they go.

    Sound because QONNX's operators are the standard ones between two Transposes, which undo
    those around them.

    Leaves alone: ``auto_pad``; ranks that are not known, and other ranks than 3 and 4; of
    MaxPool further dilations, ``ceil_mode``, ``storage_order``, padding that is not the same
    on both sides, and a second output, which QONNX's operator does not have; of
    BatchNormalization the training mode, and opsets before 9. QONNX has no channels-last
    AveragePool and ConvTranspose.
    """

    needs = ("shape-inference",)

    hints: ClassVar[Hints] = CHANNELS_LAST_OPERATORS

    def table(self) -> list[TermRule]:
        return _RULES


def _window(node: ir.Node, spatial: int, kernel: Sequence[int] | None) -> Attributes | None:
    """Return the attributes of a window, each one given; None if the padding is automatic."""
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or kernel is None:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    sizes = {"kernel_shape": list(kernel)}
    for name, count, default in (("strides", 1, 1), ("pads", 2, 0), ("dilations", 1, 1)):
        given = node.attributes.get_ints(name)
        sizes[name] = list(given) if given else [default] * spatial * count
    return sizes


def _conv(v: Values) -> Attributes | None:
    node, rank = node_of(v["y"]), rank_of(v["x"])
    shape = v["w"].shape
    if rank not in (3, 4) or shape is None or len(shape) != rank:
        return None
    kernel = [size for size in shape[2:] if isinstance(size, int)]
    found = _window(node, rank - 2, kernel if len(kernel) == rank - 2 else None)
    return None if found is None else {**found, "group": node.attributes.get_int("group", 1)}


def _pool(v: Values) -> Attributes | None:
    node, rank = node_of(v["y"]), rank_of(v["x"])
    if rank not in (3, 4) or len([out for out in node.outputs if out.name]) > 1:
        return None
    found = _window(node, rank - 2, node.attributes.get_ints("kernel_shape"))
    if found is None or any(node.attributes.get_int(n, 0) for n in _UNKNOWN):
        return None
    pads = found["pads"]
    if pads[: rank - 2] != pads[rank - 2 :] or any(size != 1 for size in found["dilations"]):
        return None
    return {name: found[name] for name in ("kernel_shape", "strides", "pads")}


def _normalization(v: Values) -> Attributes | None:
    node = node_of(v["y"])
    if rank_of(v["x"]) not in (3, 4) or len([out for out in node.outputs if out.name]) > 1:
        return None
    call = plain_call(node)
    if call is None or call.integer("training_mode", 0):
        return None
    defaults = {"epsilon": 1e-5, "momentum": 0.9}  # QONNX's operator needs both
    return {name: call.number(name, value) for name, value in defaults.items()}


def _mean(v: Values) -> Attributes | None:
    call = plain_call(node_of(v["y"]))
    if call is None or rank_of(v["x"]) != 4 or call.text("data_layout", "NCHW") != "NCHW":
        return None
    return {**call.attributes, "data_layout": "NHWC"}


_UNKNOWN = ("ceil_mode", "storage_order")


def _last(op: Op, value: Value, rank: int) -> Value:
    perm = [0, *range(2, rank), 1]
    made: Value = op.Transpose(value, perm=perm)
    if value.shape is not None:  # the operators' bodies depend on the rank
        made.type, made.shape = value.type, ir.Shape([value.shape[axis] for axis in perm])
    return made


def _first(op: Op, value: Value, rank: int) -> Value:
    return op.Transpose(value, perm=[0, rank - 1, *range(1, rank - 1)])


def _maker(
    kind: str, moved: int = 1, domain: str = CHANNELS_LAST
) -> Callable[[Op, Values, Attributes], Value]:
    """Return what builds an operator, of whose operands the first ones are transposed."""

    def make(op: Op, v: Values, attributes: Attributes) -> Value:
        rank = rank_of(v["x"])
        assert rank is not None, "asked for before"
        given = [v[name] for name in "xwbcde" if name in v]
        operands = [*(_last(op, value, rank) for value in given[:moved]), *given[moved:]]
        # QONNX reads the version of the standard operators from that of this domain.
        version = {"_version": v.opset} if domain == CHANNELS_LAST and v.opset else {}
        made = getattr(op, kind)(*operands, **attributes, _domain=domain, **version)
        return _first(op, made, rank)

    return make


_RULES = [
    TermRule(call("Conv", "x", "w", result="y"), _conv, _maker("Conv", 2), name="Conv"),
    TermRule(
        call("Conv", "x", "w", "b", result="y"),
        _conv,
        _maker("Conv", 2),
        name="Conv-with-bias",
    ),
    TermRule(call("MaxPool", "x", result="y"), _pool, _maker("MaxPool"), name="MaxPool"),
    TermRule(
        call("BatchNormalization", *"xbcde", result="y"),
        _normalization,
        _maker("BatchNormalization"),
        since=9,
        name="BatchNormalization",
    ),
    *(
        TermRule(
            call("QuantAvgPool2d", "x", result="y", domain=domain),
            _mean,
            _maker("QuantAvgPool2d", domain=domain),
            name="QuantAvgPool2d",
        )
        for domain in QONNX_ALIASES
    ),
]
