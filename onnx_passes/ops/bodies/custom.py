"""The other operators of this package's own domain."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.ops.bodies.attach import body
from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.ops.bodies.rounding_modes import round_by
from onnx_passes.ops.bodies.writer import Writer


@body("Round", CUSTOM)
def rounding(to: Writer) -> str:
    """Round to integers by a mode of QONNX."""
    return round_by(to.call.text("rounding_mode", "ROUND"), to, to.inputs[0])


@body("LayoutConverter", CUSTOM)
def layout_converter(to: Writer) -> str:
    """Transpose data whose axes are what ``assumes`` says."""
    return to.Transpose(to.inputs[0], perm=to.call.integers("perm", ()))


@body("Swish", CUSTOM)
@body("Silu", CUSTOM)
def swish(to: Writer) -> str:
    """``x * Sigmoid(alpha * x)``."""
    (x,) = to.inputs
    alpha = to.call.number("alpha", 1.0)
    return to.Mul(x, to.Sigmoid(x if alpha == 1.0 else to.Mul(to.number(alpha, x), x)))


@body("ArgSort", CUSTOM)
def arg_sort(to: Writer) -> str:
    """Indices that sort along ``axis``, the smallest first."""
    (x,) = to.inputs
    axis = to.call.integer("axis", -1)
    count = to.Gather(to.Shape(x), to.shape(axis))
    to.TopK(x, count, axis=axis, largest=0)
    to.nodes[-1].output[:] = ["sorted", "order"]
    return "order"


@body("Any", CUSTOM)
def any_nonzero(to: Writer) -> str:
    """Whether any element is not zero, as a scalar."""
    whole = to.Cast(to.Cast(to.inputs[0], to=TensorProto.INT64), to=TensorProto.BOOL)
    count = to.ReduceSum(to.Cast(whole, to=TensorProto.INT64), keepdims=0)
    return to.Greater(count, to.integer(0))


@body("Log2", CUSTOM)
def log2(to: Writer) -> str:
    """The logarithm to the base 2."""
    (x,) = to.inputs
    return to.Div(to.Log(x), to.Log(to.number(2, x)))


@body("Ulp", CUSTOM)
def ulp(to: Writer) -> str:
    """The distance between neighbouring float32 values at a value; 0 for infinities.

    The exponent is read from the logarithm in double precision. Where the logarithm of a value
    below a power of two rounds up to it, the distance is that of the power.
    """
    (x,) = to.inputs
    size = to.Cast(to.Abs(x), to=TensorProto.DOUBLE)
    ln2 = to.tensor(np.float64(np.log(2.0)))
    least = to.tensor(np.float64(2.0**-126))
    logarithm = to.Floor(to.Div(to.Log(to.Max(size, least)), ln2))
    two = to.tensor(np.float64(2.0))
    bits = to.tensor(np.float64(23.0))
    distance = to.Cast(to.Pow(two, to.Sub(logarithm, bits)), to=TensorProto.FLOAT)
    return to.Where(to.IsInf(x), to.number(0), distance)


@body("LambertW", CUSTOM)
def lambert_w(to: Writer) -> str:
    """The inverse of ``w * exp(w)``, on the branch 0 or -1; NaN where there is none."""
    (x,) = to.inputs
    return _lambert_w(to, x, to.call.integer("k", 0))


def _lambert_w(to: Writer, x: str, branch: int) -> str:
    one, two, e = to.number(1, x), to.number(2, x), to.number(float(np.e), x)
    zero, near = to.number(0, x), to.number(-0.25, x)
    # Around -1 / e the inverse goes like a square root.
    root = to.Sqrt(to.Mul(two, to.Add(to.Mul(e, x), one)))
    close = to.Sub(root, one) if branch == 0 else to.Neg(to.Add(root, one))
    if branch == 0:
        size = to.Log(to.Add(one, to.Max(x, near)))
        far = to.Sub(size, to.Div(to.Mul(size, size), to.Mul(two, to.Add(two, size))))
    else:
        size = to.Log(to.Neg(to.Min(x, to.number(-1e-38, x))))
        far = to.Sub(size, to.Log(to.Neg(size)))
    w = to.Where(to.Less(x, near), close, far)
    if branch == 0:
        tiny = to.Less(to.Abs(x), to.number(1e-3, x))
        w = to.Where(tiny, to.Mul(x, to.Sub(one, x)), w)
    for _ in range(max(to.call.integer("iterations", 8), 8)):
        # Newton's step on w - log(x / w), which does not overflow.
        step = to.Add(one, to.Log(to.Div(x, w)))
        w = to.Mul(to.Div(w, to.Add(one, w)), step)
    limit = to.number(to.call.number("tolerance", 1e-8), x)
    end = to.Abs(to.Add(x, to.number(float(1 / np.e), x)))
    w = to.Where(to.Or(to.Less(end, limit), to.Equal(end, limit)), to.number(-1, x), w)
    return to.Where(to.Equal(x, zero), zero, w) if branch == 0 else w


@body("InverseSwish", CUSTOM)
@body("InverseSilu", CUSTOM)
def inverse_swish(to: Writer) -> str:
    """What Swish makes the value of: right of its minimum if ``k`` is 0, left if it is -1."""
    (y,) = to.inputs
    alpha = to.number(to.call.number("alpha", 1.0), y)
    scaled = to.Mul(alpha, y)
    # x * sigmoid(a x) = y  <=>  (a x - a y) exp(a x - a y) = a y exp(-a y)
    w = _lambert_w(to, to.Mul(scaled, to.Exp(to.Neg(scaled))), to.call.integer("k", 0))
    return to.Add(y, to.Div(w, alpha))
