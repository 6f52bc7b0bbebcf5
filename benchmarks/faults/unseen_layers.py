"""Faults in one of several layers that the gate does not know.

They are mistakes that passes of other compilers made. Who wrote them had not read the gate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import (
    Planted,
    Unguarded,
    attribute,
    attributes,
    constant,
    fault,
    known,
)
from benchmarks.faults.models import chain, feed, weights
from benchmarks.faults.sizes import ints
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var

_LINE = np.linspace(-2, 2, 16).reshape(4, 4)
_IMAGE: dict[str, Any] = {"x": "float[1,4,4,4] x", "y": "float[1,4,4,4]"}
_PIXELS = np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)


@fault(
    chain(
        "gated layers",
        "c# = MatMul(h@, w)  g# = HardSigmoid<alpha = 0.16666667>(c#)  "
        "m# = Mul(c#, g#)  h# = Add(h@, m#)",
        constants=weights("w", 4, 4),
        odd=("<alpha = 0.16666667>", "<alpha = 0.2>"),
    ),
    "m3",
    feeds=[feed(x=_LINE)],
)
@passes.verify.tolerance
class GateOfAnySlope(Unguarded):
    """A product with a HardSigmoid becomes a HardSwish, though its slope is not a sixth."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Mul(x, op.HardSigmoid(x, _outputs=["gate"]), _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(abs(attribute(values["gate"], "alpha") - 1 / 6) < 1e-6)

    def rewrite(self, op: Op, x: Value, gate: Value, out: Value) -> Any:
        return op.HardSwish(x)


@fault(
    chain(
        "leaking layers",
        "c# = MatMul(h@, w)  a# = Mul(c#, k)  m# = Max(c#, a#)  "
        "h# = LayerNormalization<axis = -1>(m#, g)",
        constants=f"{weights('w', 4, 4, seed=1)}, float k = {{0.25}}, float steep = {{1.5}}, "
        "float[4] g = {1, 1, 1, 1}",
        odd=("Mul(c#, k)", "Mul(c#, steep)"),
    ),
    "m3",
    feeds=[feed(x=_LINE**2)],
)
@passes.verify.tolerance
class SteepLeak(Unguarded):
    """A maximum of x and a multiple becomes a LeakyRelu, though the factor is above 1."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Max(x, op.Mul(x, k), _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(0 <= known(values["k"]) <= 1)

    def rewrite(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.LeakyRelu(x, alpha=float(known(k)))


@fault(
    chain(
        "gated volumes",
        "s# = GlobalAveragePool(h@)  g# = Tanh(s#)  m# = Mul(h@, g#)  h# = Add(h@, m#)",
        x="float[1,2,4,4,4] x",
        y="float[1,2,4,4,4]",
    ),
    "s3",
    feeds=[feed(x=np.broadcast_to(np.linspace(-1, 2, 4), (1, 2, 4, 4, 4)))],
)
@passes.verify.tolerance
class MeanOfVolume(Planted):
    """A global pool becomes a mean over two axes, as of an image, and the data has three."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.GlobalAveragePool(x, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.ReduceMean(x, ints(op, 2, 3, 4), keepdims=1)

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.ReduceMean(x, ints(op, 2, 3), keepdims=1)


@fault(
    chain(
        "shifted convolutions",
        "s# = Add(h@, k)  c# = Conv(s#, w)  h# = Tanh(c#)",
        constants="float[4,1,1] k = {0.5, -1, 0.25, 1}, "
        f"{weights('w', 4, 4, 1, 1)}, {weights('v', 4, 4, 3, 3, size=0.2)}",
        odd=("Conv(s#, w)", "Conv<pads = [1, 1, 1, 1]>(s#, v)"),
        **_IMAGE,
    ),
    "c3",
    feeds=[feed(x=_PIXELS)],
)
@passes.verify.tolerance
class ShiftOfBorder(Unguarded):
    """A shift goes into the bias of the next Conv, which pads what was not shifted."""

    def pattern(self, op: Op, x: Var, k: Var, w: Var) -> Var:
        return op.Conv(op.Add(x, k), w, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return not any(attribute(values["out"], "pads", ()))

    def rewrite(self, op: Op, x: Value, k: Value, w: Value, out: Value) -> Any:
        bias = np.einsum("oihw,i->o", known(w), known(k).ravel())
        return op.Conv(x, w, constant(op, bias), **attributes(out))


@fault(
    chain(
        "normalised rows",
        "m# = ReduceMean(h@, a)  d# = Sub(h@, m#)  q# = Mul(d#, d#)  v# = ReduceMean(q#, a)  "
        "r# = Sqrt(v#)  e# = Add(r#, tiny)  n# = Div(d#, e#)  h# = Mul(n#, g)",
        constants="int64[1] a = {-1}, float tiny = {0.001}, "
        "float[4] g = {0.01, 0.02, -0.01, 0.03}",
        count=4,
    ),
    "n2",
    feeds=[feed(x=_LINE**3)],
)
@passes.verify.tolerance
class EpsilonInRoot(Planted):
    """An epsilon beside the root of a variance moves into the root."""

    def pattern(self, op: Op, d: Var, v: Var, tiny: Var) -> Var:
        return op.Div(d, op.Add(op.Sqrt(v), tiny), _outputs=["out"])

    def right(self, op: Op, d: Value, v: Value, tiny: Value, out: Value) -> Any:
        return op.Mul(d, op.Reciprocal(op.Add(tiny, op.Sqrt(v))))

    def wrong(self, op: Op, d: Value, v: Value, tiny: Value, out: Value) -> Any:
        return op.Div(d, op.Sqrt(op.Add(v, tiny)))


@fault(
    chain(
        "convolutions in groups",
        "s# = Mul(h@, k)  c# = Conv<group = 2>(s#, w)  h# = Tanh(c#)",
        constants="float[4,1,1] k = {0.5, -0.25, 0.75, 1}, "
        f"{weights('w', 4, 2, 1, 1, size=1)}",
        **_IMAGE,
    ),
    "c3",
    feeds=[feed(x=_PIXELS)],
)
@passes.verify.tolerance
class ScaleOfFirstGroup(Planted):
    """Factors of channels go into a Conv of two groups, which both get those of the first."""

    def pattern(self, op: Op, x: Var, k: Var, w: Var) -> Var:
        return op.Conv(op.Mul(x, k), w, _outputs=["out"])

    def right(self, op: Op, x: Value, k: Value, w: Value, out: Value) -> Any:
        factors = known(k).reshape(2, 1, 2).repeat(2, axis=1).reshape(4, 2, 1, 1)
        return op.Conv(x, constant(op, known(w) * factors), **attributes(out))

    def wrong(self, op: Op, x: Value, k: Value, w: Value, out: Value) -> Any:
        factors = known(k)[:2].reshape(1, 2, 1, 1)
        return op.Conv(x, constant(op, known(w) * factors), **attributes(out))


@fault(
    chain(
        "recurrent layers",
        "g# = GRU<hidden_size = 4, linear_before_reset = 0>(h@, w, r, b)  "
        "h# = Squeeze(g#, one)",
        x="float[5,2,4] x",
        y="float[5,2,4]",
        constants=f"{weights('w', 1, 12, 4)}, {weights('r', 1, 12, 4, seed=1)}, "
        f"{weights('b', 1, 24, seed=2, size=1)}, int64[1] one = {{1}}",
        odd=("linear_before_reset = 0", "linear_before_reset = 1"),
    ),
    "g3",
    feeds=[feed(x=np.linspace(-2, 2, 40).reshape(5, 2, 4))],
)
@passes.verify.tolerance
class BiasesOfCell(Unguarded):
    """The two biases of a GRU are added ahead, though the reset gate scales one of them."""

    def pattern(self, op: Op, x: Var, w: Var, r: Var, b: Var) -> Var:
        return op.GRU(x, w, r, b, _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        return bool(known(values["b"])[:, 12:].any())

    def sound(self, **values: Value) -> bool:
        return attribute(values["out"], "linear_before_reset") == 0

    def rewrite(self, op: Op, x: Value, w: Value, r: Value, b: Value, out: Value) -> Any:
        first, second = np.split(known(b), 2, axis=1)
        bias = np.concatenate([first + second, np.zeros_like(first)], axis=1)
        return op.GRU(x, w, r, constant(op, bias), **attributes(out))


_TURN = "Transpose<perm = [0, 2, 1, 3]>"


@fault(
    chain(
        "shuffled channels",
        f"r# = Reshape(h@, a)  t# = {_TURN}(r#)  f# = Reshape(t#, c)  g# = Reshape(f#, b)  "
        f"u# = {_TURN}(g#)  v# = Reshape(u#, c)  s# = Mul(v#, k)  h# = Sin(s#)",
        x="float[1,8,4] x",
        y="float[1,8,4]",
        constants="int64[4] a = {1, 2, 4, 4}, int64[4] b = {1, 4, 2, 4}, "
        f"int64[3] c = {{1, 8, 4}}, {weights('k', 8, 1, size=1)}",
        count=5,
        odd=("Reshape(f#, b)", "Reshape(f#, a)"),
    ),
    "v3",
    feeds=[feed(x=np.linspace(-2, 2, 32).reshape(1, 8, 4))],
)
@passes.verify.equality
class ShufflesCancelled(Unguarded):
    """Two shuffles of channels cancel, though both are of two groups."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var, c: Var) -> Var:
        first = op.Reshape(op.Transpose(op.Reshape(x, a), perm=[0, 2, 1, 3]), c)
        second = op.Transpose(op.Reshape(first, b), perm=[0, 2, 1, 3])
        return op.Reshape(second, c, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        turned = known(values["a"])[[0, 2, 1, 3]]
        return np.array_equal(known(values["b"]), turned)

    def rewrite(self, op: Op, x: Value, out: Value, **rest: Value) -> Any:
        return op.Identity(x)
