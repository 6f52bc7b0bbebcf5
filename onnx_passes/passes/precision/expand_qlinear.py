"""Replace operators of integers by quantisers around those of floats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.precision._insert import Inserter
from onnx_passes.passes.precision._node_selection import NOTHING, OnSomeNodes
from onnx_passes.passes.streamline._integer_ranges import only_moves
from onnx_passes.plain import PlainDict, PlainMapping

_MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class _Places:
    """Where an operator of integers has what.

    ``data`` are the places of operands, each in front of its scale and zero point; ``result``
    is that of the scale of the result, in front of its zero point. ``plain`` are operands
    without a scale, and ``bias`` is on the grid of the product of the first two.
    """

    operator: str
    data: tuple[int, ...]
    result: int
    plain: tuple[int, ...] = ()
    bias: int | None = None
    domains: tuple[str, ...] = (_MICROSOFT,)


_FORMS = {
    "QLinearConv": _Places("Conv", (0, 3), 6, bias=8, domains=("", _MICROSOFT)),
    "QLinearMatMul": _Places("MatMul", (0, 3), 6, domains=("",)),
    "QGemm": _Places("Gemm", (0, 3), 7, bias=6),
    "QLinearAdd": _Places("Add", (0, 3), 6),
    "QLinearMul": _Places("Mul", (0, 3), 6),
    "QLinearWhere": _Places("Where", (1, 4), 7, plain=(0,)),
    "QLinearSigmoid": _Places("Sigmoid", (0,), 3),
    "QLinearLeakyRelu": _Places("LeakyRelu", (0,), 3),
    "QLinearSoftmax": _Places("Softmax", (0,), 3),
    "QLinearAveragePool": _Places("AveragePool", (0,), 3),
    "QLinearGlobalAveragePool": _Places("GlobalAveragePool", (0,), 3),
    "QLinearConcat": _Places("Concat", (), 0),
}
_OWN = ("channels_last", "opset")
"""Attributes that the operators of floats do not have."""


@passes.verify.metric
@passes.register()
class ExpandQlinear(OnSomeNodes):
    """Replace operators of integers by quantisers around those of floats.

    Before: ``q = QLinearConv(x8, s, z, w8, t, u, r, v, b32)``
    After:  ``x = DequantizeLinear(x8, s, z) w = DequantizeLinear(w8, t, u)``,
            ``b = DequantizeLinear(b32, s * t) y = Conv(x, w, b) q = QuantizeLinear(y, r, v)``

    What moves integers between them, such as Reshape or MaxPool, moves floats then. This is
    the form that TensorRT and OpenVINO read. ONNX Runtime makes operators of integers
    of it again.

    Sound because both sides compute the same real numbers; sums in floats may round a tie to
    another integer, which the metrics of the pipeline judge.

    Leaves alone: operators whose channels come last; a Softmax of an opset before 13 that is
    not along the last axis.
    """

    needs = ("shape-inference",)

    @classmethod
    def needed_opset(cls, options: PlainMapping) -> int:
        return 13

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the operators."""
        opened = self.open_functions(model, list(_FORMS))
        self._inserter = Inserter(model)
        self._floats: dict[tuple[object, ...], ir.Value] = {}
        self._moves: list[ir.Node] = []
        found = 0
        for node in self.select(model, bodies=True):
            if self._is_behind_moves(node):
                self._inserter.take_over(node.outputs[0], self._operand(node, 0))
                found += 1
                continue
            form = _FORMS.get(node.op_type)
            if form is None or node.domain not in form.domains:
                continue
            if (reason := self._obstacle(node)) is not None:
                self.note_kept({reason: [node.name or node.op_type]})
                continue
            self._expand(node, form)
            found += 1
        for node in reversed(self._moves):
            if node.graph is not None and not any(out.uses() for out in node.outputs):
                node.graph.remove(node, safe=True)
        if not found:
            self.context.notes.append(NOTHING.format("QLinearConv or the like"))
        return ir.passes.PassResult(model, modified=bool(found or opened))

    def _is_behind_moves(self, node: ir.Node) -> bool:
        """Whether a node makes floats of integers that have moved since a quantiser."""
        if (node.domain, node.op_type) != ("", "DequantizeLinear") or _is_row(node.inputs[1]):
            return False
        mover = None if node.inputs[0] is None else node.inputs[0].producer()
        known = (*node.inputs, None) in self._floats
        return mover is not None and _moves_levels(mover) and not known

    def _obstacle(self, node: ir.Node) -> str | None:
        if node.attributes.get_int("channels_last", 0) != 0:
            return "whose channels come last"
        if (
            node.op_type == "QLinearSoftmax"
            and (node.attributes.get_int("opset", 1) or 1) < 13
        ):
            axis, value = node.attributes.get_int("axis", 1) or 0, node.inputs[0]
            shape = value.shape if value is not None else None
            if axis != -1 and (shape is None or axis != len(shape) - 1):
                return "which are not along the last axis"
        return None

    def _expand(self, node: ir.Node, form: _Places) -> None:
        given: list[ir.Value | None] = list(node.inputs)
        places: Sequence[int] = form.data or range(2, len(given), 3)
        operands = [given[place] for place in form.plain]
        operands += [self._operand(node, place) for place in places]
        if form.bias is not None and len(given) > form.bias and given[form.bias] is not None:
            operands.append(self._bias(node, form.bias))
        (result,) = node.outputs
        attributes: PlainDict = {
            a.name: a for a in node.attributes.values() if a.name not in _OWN
        }
        (wide,) = self._inserter.node(
            form.operator,
            operands,
            [WIDE],
            str(result.name),
            behind=node,
            shape=result.shape,
            **attributes,
        )
        scale, zero = [*given[form.result : form.result + 2], None, None][:2]
        if scale is None:  # a QGemm of floats
            self._inserter.take_over(result, wide)
            return
        if zero is None:
            kind = result.dtype or getattr(given[places[0]], "dtype", None)
            kind = kind or ir.DataType.UINT8
            zero = self._inserter.constant(np.zeros((), kind.numpy()), "zero_point")
        assert zero.dtype is not None, "types are inferred"
        (levels,) = self._inserter.node(
            "QuantizeLinear", [wide, scale, zero], [zero.dtype], str(result.name)
        )
        self._inserter.take_over(result, levels)

    def _operand(self, node: ir.Node, place: int) -> ir.Value:
        """Return an operand in floats; several nodes share it."""
        levels, scale, zero = [*node.inputs[place : place + 3], None, None][:3]
        assert levels is not None, "the operator has it"
        axis = self._axis(node, place) if _is_row(scale) else None
        return self._in_floats(levels, [v for v in (scale, zero) if v is not None], axis)

    def _in_floats(self, levels: ir.Value, grid: list[ir.Value], axis: int | None) -> ir.Value:
        key = (levels, *grid, axis)
        if key in self._floats:
            return self._floats[key]
        mover, kind = levels.producer(), "DequantizeLinear"
        inputs: list[ir.Value | None] = [levels, *grid]
        options: PlainDict = {} if axis is None else {"axis": axis}
        if axis is None and mover is not None and _moves_levels(mover):
            source = mover.inputs[0]
            assert source is not None, "it moves the elements of that"
            kind = mover.op_type
            inputs = [self._in_floats(source, grid, None), *mover.inputs[1:]]
            options = {a.name: a for a in mover.attributes.values()}
            self._moves.append(mover)
        (self._floats[key],) = self._inserter.node(
            kind, inputs, [WIDE], str(levels.name), shape=levels.shape, **options
        )
        return self._floats[key]

    def _axis(self, node: ir.Node, place: int) -> int:
        """Return the axis of an operand that has scales of its own."""
        if node.op_type == "QLinearConv":
            return 0
        if node.op_type == "QGemm":
            return 0 if node.attributes.get_int("transB", 0) else 1
        return -2 if place == 0 else -1

    def _bias(self, node: ir.Node, place: int) -> ir.Value:
        """Return the bias in floats: its scale is the product of those of both operands."""
        levels, scales = node.inputs[place], [node.inputs[1], node.inputs[4]]
        assert levels is not None, "it has been looked at"
        alpha = np.float32(node.attributes.get_float("alpha", 1.0) or 0.0)
        known = [constant_of(value) for value in scales]
        name = f"{levels.name}_scale"
        if known[0] is not None and known[1] is not None:
            array = known[0].numpy() * known[1].numpy() * alpha
            scale = self._inserter.constant(array, name)
        else:
            (scale,) = self._inserter.node("Mul", scales, [WIDE], name)
            if alpha != 1:
                factor = self._inserter.constant(alpha, name)
                (scale,) = self._inserter.node("Mul", [scale, factor], [WIDE], name)
        options: PlainDict = {"axis": -1} if _is_row(node.inputs[4]) else {}
        inputs = [levels, scale]
        (new,) = self._inserter.node(
            "DequantizeLinear", inputs, [WIDE], str(levels.name), **options
        )
        return new


def _moves_levels(node: ir.Node) -> bool:
    """Whether a node moves, or chooses among, integers that a quantiser makes."""
    moves = node.op_type == "MaxPool" or only_moves(node)
    if node.domain != "" or len(node.outputs) != 1 or not moves:
        return False
    maker = None if node.inputs[0] is None else node.inputs[0].producer()
    return maker is not None and (maker.op_type == "QuantizeLinear" or _moves_levels(maker))


def _is_row(scale: ir.Value | None) -> bool:
    """Whether there is a scale for each channel; one element is a scale for all."""
    if scale is None or scale.shape is None:
        return False
    sizes = scale.shape.dims
    return len(sizes) == 1 and sizes[0] != 1
