"""Write QuantizeLinear, Clip and DequantizeLinear as one quantiser of QONNX."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import QONNX
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised._grids import Array, Levels, is_integer_type, range_of


@passes.verify.tolerance
@passes.register()
class ConvertFromQcdq(Transformation, RewriteRuleSetPass):
    """Write QuantizeLinear, Clip and DequantizeLinear as one quantiser of QONNX.

    Before: ``DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero)``, also with a
            ``Clip`` between; ``DequantizeLinear(integers, scale, zero)`` of constants
    After:  ``Quant(x, scale, zero, bits)``; of constants ``Quant(floats, scale, zero, bits)``

    Integers have 8, 4 or 2 bits, or fewer by the Clip. Scales may differ along an axis.

    Sound because both round the quotient to the nearest integer, ties to the even one, and
    saturate. Where the zero point is not 0, QONNX adds it before it rounds: a number within a
    rounding of a tie may come out one level off. Of NaN, QuantizeLinear makes some integer:
    the pass speaks of finite numbers.

    Leaves alone: zero points that are odd, whose ties go the other way, that differ, or that
    the bounds do not hold; parameters that are computed or that differ between both; scales
    that are not positive, of other types than float32, or of blocks; integers that something
    else reads; bounds that no number of bits has; other integer types.
    """

    exclusive: ClassVar[bool] = True
    finite_only = True
    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        def plain(op: Op, x: Var, s: Var, z: Var, t: Var, w: Var) -> Var:
            quantised = op.QuantizeLinear(x, s, z, _outputs=["q"])
            return op.DequantizeLinear(quantised, t, w, _outputs=["y"])

        def clipped(op: Op, x: Var, s: Var, z: Var, a: Var, b: Var, t: Var, w: Var) -> Var:
            quantised = op.QuantizeLinear(x, s, z, _outputs=["q"])
            return op.DequantizeLinear(op.Clip(quantised, a, b), t, w, _outputs=["y"])

        def weights(op: Op, x: Var, t: Var, w: Var) -> Var:
            return op.DequantizeLinear(x, t, w, _outputs=["y"])

        return [plain, clipped, weights]

    def check(self) -> list[Any]:
        return [_is_pair, _is_pair, _is_constant]

    def rewrite(self) -> list[Any]:
        return [_quantiser, _quantiser, _of_constant]


def _is_pair(context: Any, x: Value, q: Value, y: Value, **parts: Value) -> bool:
    if not (_same(parts["s"], parts["t"]) and _same(parts["z"], parts["w"])):
        return False
    if _axis(q) != _axis(y) or constant_of(x) is not None:
        return False
    return _parameters(y, x, **parts) is not None


def _is_constant(context: Any, x: Value, y: Value, t: Value, w: Value) -> bool:
    tensor = constant_of(x)
    if tensor is None or tensor.dtype not in (None, getattr(constant_of(w), "dtype", None)):
        return False
    return _parameters(y, x, t=t, w=w) is not None


_Parameters = tuple[Array, int, tuple[int, bool, bool]]


def _parameters(y: Value, x: Value, **parts: Value) -> _Parameters | None:
    """Return the scale as it is broadcast, the zero point, and bits, sign and narrowness."""
    scale, zero = constant_of(parts["t"]), constant_of(parts["w"])
    if scale is None or zero is None or scale.dtype != ir.DataType.FLOAT:
        return None
    if not is_integer_type(zero.dtype) or node_of(y).attributes.get_int("block_size", False):
        return None
    scales, zeros = scale.numpy(), zero.numpy().astype(np.int64)
    if not (scales.size and (np.isfinite(scales) & (scales > 0)).all() and zeros.size):
        return None
    number = int(zeros.flat[0])
    levels = _bounds(zero.dtype, parts)
    form = None if levels is None else levels.form()
    if levels is None or form is None or (zeros != number).any() or number % 2:
        return None
    if not levels.low <= number <= levels.high:
        return None
    spread = _spread(scales, x, _axis(y))
    return None if spread is None else (spread, number, form)


def _bounds(dtype: ir.DataType, parts: dict[str, Value]) -> Levels | None:
    whole = range_of(dtype)
    if "a" not in parts:
        return whole
    ends = [constant_of(parts[name]) for name in ("a", "b")]
    numbers = [int(e.numpy().reshape(())) for e in ends if e is not None and e.size == 1]
    if len(numbers) != 2:
        return None
    return Levels(max(numbers[0], whole.low), min(numbers[1], whole.high))


def _spread(scales: Array, x: Value, axis: int) -> Array | None:
    """Return a scale for each channel in the shape that broadcasts along them."""
    if scales.size == 1:
        return scales.reshape(())
    tensor = constant_of(x)
    shape = tensor.shape if tensor is not None else x.shape
    if scales.ndim != 1 or shape is None or not -len(shape) <= axis < len(shape):
        return None
    sizes = [1] * len(shape)
    sizes[axis] = scales.size
    return scales.reshape(sizes)


def _quantiser(op: Op, x: Value, y: Value, q: Value, **parts: Value) -> Value:
    found = _parameters(y, x, **parts)
    assert found is not None, "check has seen to it"
    return _quant(op, x, *found)


def _of_constant(op: Op, x: Value, y: Value, t: Value, w: Value) -> Value:
    found, tensor = _parameters(y, x, t=t, w=w), constant_of(x)
    assert found is not None, "check has seen to it"
    assert tensor is not None, "check has seen to it"
    scale, zero, _ = found
    floats = (tensor.numpy().astype(np.float32) - np.float32(zero)) * scale
    return _quant(op, op.Constant(value=ir.tensor(floats.astype(np.float32))), *found)


def _quant(op: Op, x: Value, scale: Array, zero: int, form: tuple[int, bool, bool]) -> Value:
    bits, signed, narrow = form
    numbers = (np.asarray(scale, np.float32), np.float32(zero), np.float32(bits))
    operands = [op.Constant(value=ir.tensor(number)) for number in numbers]
    made: Value = op.Quant(
        x,
        *operands,
        signed=int(signed),
        narrow=int(narrow),
        rounding_mode="ROUND",
        _domain=QONNX,
    )
    return made


def _axis(value: Value) -> int:
    return int(node_of(value).attributes.get_int("axis", 1) or 0)


def _same(first: Value, second: Value) -> bool:
    if first is second:
        return True
    one, other = constant_of(first), constant_of(second)
    if one is None or other is None or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(one.numpy(), other.numpy()))
