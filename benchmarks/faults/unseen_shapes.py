"""Faults in axes, windows and orders that the gate does not know.

They are mistakes that passes of other compilers made. Who wrote them had not read the gate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import Planted, Unguarded, attribute, constant, fault, known
from benchmarks.faults.models import blocks, feed, weights
from benchmarks.faults.sizes import ints
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


def _line(*shape: int) -> np.ndarray[Any, Any]:
    return np.linspace(-2, 2, int(np.prod(shape))).reshape(shape)


@fault(
    blocks(
        "the last columns",
        "r# = Slice(x, last, far, axis, back)  f# = Slice(r#, zero, two, axis)  y# = Neg(f#)",
        x="float[4,8] x",
        y="float[4,2]",
        constants="int64[1] last = {-1}, int64[1] far = {-1000000}, int64[1] axis = {1}, "
        "int64[1] back = {-1}, int64[1] zero = {0}, int64[1] two = {2}",
    ),
    "f5",
    feeds=[feed(x=_line(4, 8))],
)
@passes.verify.equality
class FrontOfReversed(Planted):
    """A Slice moves before one with a negative step, and still takes the front."""

    def pattern(
        self, op: Op, x: Var, last: Var, far: Var, axis: Var, back: Var, zero: Var, two: Var
    ) -> Var:
        turned = op.Slice(x, last, far, axis, back)
        return op.Slice(turned, zero, two, axis, _outputs=["out"])

    def right(self, op: Op, x: Value, axis: Value, zero: Value, two: Value, **_: Value) -> Any:
        start, end = (constant(op, -1 - known(bound)) for bound in (zero, two))
        return op.Slice(x, start, end, axis, ints(op, -1))

    def wrong(self, op: Op, x: Value, axis: Value, zero: Value, two: Value, **_: Value) -> Any:
        front = op.Slice(x, zero, two, axis)
        return op.Slice(front, ints(op, -1), ints(op, -1000), axis, ints(op, -1))


@fault(
    blocks(
        "sums of turned cubes",
        "t# = Transpose<perm = [2, 0, 1]>(x)  y# = ReduceSum<keepdims = 0>(t#, a)",
        x="float[4,4,4] x",
        constants="int64[1] a = {1}",
    ),
    "y5",
    feeds=[feed(x=_line(4, 4, 4) ** 3)],
)
@passes.verify.tolerance
class RestNotTurned(Planted):
    """A sum moves before a Transpose, and the axes that it leaves are not turned any more."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        turned = op.Transpose(x, perm=[2, 0, 1])
        return op.ReduceSum(turned, axes, _outputs=["out"])

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.Transpose(op.ReduceSum(x, ints(op, 0), keepdims=0), perm=[1, 0])

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.ReduceSum(x, ints(op, 0), keepdims=0)


@fault(
    blocks(
        "enlarged images",
        'r# = Resize<mode = "linear">(x, , k)  y# = Neg(r#)',
        x="float[1,1,8,8] x",
        y="float[1,1,10,10]",
        constants="float[4] k = {1, 1, 1.25, 1.25}, float[4] odd = {1, 1, 1.3, 1.3}",
        odd=("(x, , k)", "(x, , odd)"),
    ),
    "r5",
    feeds=[feed(x=_line(1, 1, 8, 8))],
)
@passes.verify.tolerance
class ScaleFromSize(Unguarded):
    """The scale of a Resize becomes a size, which is rounded down and gives another scale."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Resize(x, None, k, _outputs=["out"])

    def sizes(self, k: Value) -> np.ndarray[Any, Any]:
        """Return the sizes of the result before they are rounded."""
        return np.array([1, 1, 8, 8]) * known(k).astype(np.float64)

    def sound(self, **values: Value) -> bool:
        sizes = self.sizes(values["k"])
        return bool((sizes == np.floor(sizes)).all())

    def rewrite(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        sizes = np.floor(self.sizes(k)).astype(np.int64)
        return op.Resize(x, None, None, constant(op, sizes), mode="linear")


@fault(
    blocks(
        "turned rows",
        "t# = Transpose<perm = [0, 2, 1, 3]>(x)  y# = Sin(t#)",
        x="float[4,1,1,4] x",
        y="float[4,1,1,4]",
        odd=("[0, 2, 1, 3]", "[3, 1, 2, 0]"),
    ),
    "t5",
    feeds=[feed(x=_line(4, 1, 1, 4))],
)
@passes.verify.equality
class ShapeKeptByTranspose(Unguarded):
    """A Transpose is dropped because it keeps the shape, though it turns a square."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Transpose(x, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        perm = list(attribute(values["out"], "perm"))
        return perm.index(0) < perm.index(3)

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "new axes",
        "u# = Unsqueeze(x, two)  v# = Unsqueeze(u#, zero)  y# = Mul(v#, c)",
        y="float[1,4,4,4]",
        constants=f"int64[1] zero = {{0}}, int64[1] two = {{2}}, {weights('c', 1, 4, 4, 4)}",
    ),
    "v5",
    feeds=[feed(x=_line(4, 4))],
)
@passes.verify.equality
class AxesCollected(Planted):
    """Two Unsqueezes are merged, although the second moves the first axis by one."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        return op.Unsqueeze(op.Unsqueeze(x, a), b, _outputs=["out"])

    def right(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        (first,), (second,) = known(a), known(b)
        return op.Unsqueeze(x, ints(op, second, first + (second <= first)))

    def wrong(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Unsqueeze(x, ints(op, *known(b), *known(a)))


@fault(
    blocks(
        "largest with a border",
        "p# = Pad(x, w, zero)  m# = MaxPool<kernel_shape = [3, 3]>(p#)  y# = Neg(m#)",
        x="float[1,2,4,4] x",
        y="float[1,2,4,4]",
        constants="int64[8] w = {0, 0, 1, 1, 0, 0, 1, 1}, float zero = {0}",
    ),
    "m5",
    feeds=[feed(x=_line(1, 2, 4, 4) - 3)],
)
@passes.verify.equality
class BorderOfMaximum(Planted):
    """A Pad with zeros becomes the padding of a MaxPool, which is below every number."""

    def pattern(self, op: Op, x: Var, width: Var, zero: Var) -> Var:
        return op.MaxPool(op.Pad(x, width, zero), _outputs=["out"])

    def right(self, op: Op, x: Value, width: Value, zero: Value, out: Value) -> Any:
        return op.MaxPool(op.Pad(x, width), kernel_shape=[3, 3])

    def wrong(self, op: Op, x: Value, width: Value, zero: Value, out: Value) -> Any:
        return op.MaxPool(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


@fault(
    blocks(
        "products by letters",
        'e# = Einsum<equation = "cb,ba">(x, z)  y# = Sin(e#)',
        x="float[4,4] x, float[4,4] z",
    ),
    "e5",
    feeds=[feed(x=_line(4, 4), z=_line(4, 4) ** 2)],
)
@passes.verify.tolerance
class LettersNotSorted(Planted):
    """An Einsum without an arrow becomes a MatMul, though its result is sorted by letters."""

    def pattern(self, op: Op, x: Var, z: Var) -> Var:
        return op.Einsum(x, z, equation="cb,ba", _outputs=["out"])

    def right(self, op: Op, x: Value, z: Value, out: Value) -> Any:
        return op.Transpose(op.MatMul(x, z), perm=[1, 0])

    def wrong(self, op: Op, x: Value, z: Value, out: Value) -> Any:
        return op.MatMul(x, z)


@fault(
    blocks(
        "sequences",
        "s# = SequenceConstruct(x, z)  i# = SequenceInsert(s#, w, p)  "
        "a# = SequenceAt(i#, k)  y# = Neg(a#)",
        x="float[4,4] x, float[4,4] z, float[4,4] w",
        constants="int64 p = {0}, int64 k = {2}",
    ),
    "a5",
    feeds=[feed(x=_line(4, 4), z=_line(4, 4) + 1, w=_line(4, 4) - 1)],
)
@passes.verify.equality
class InsertedAtEnd(Planted):
    """An element of a sequence is found as if SequenceInsert had no position."""

    def pattern(self, op: Op, x: Var, z: Var, w: Var, p: Var, k: Var) -> Var:
        longer = op.SequenceInsert(op.SequenceConstruct(x, z), w, p)
        return op.SequenceAt(longer, k, _outputs=["out"])

    def right(self, op: Op, x: Value, z: Value, w: Value, p: Value, k: Value, **_: Any) -> Any:
        elements = [x, z]
        elements.insert(int(known(p)), w)
        return op.Identity(elements[int(known(k))])

    def wrong(self, op: Op, x: Value, z: Value, w: Value, p: Value, k: Value, **_: Any) -> Any:
        return op.Identity([x, z, w][int(known(k))])


@fault(
    blocks(
        "classes of tokens",
        "o# = OneHot<axis = -1>(i, depth, pair)  y# = Mul(o#, x)",
        x="float[5,4] x, int64[5] i",
        y="float[5,4]",
        constants="int64 depth = {4}, float[2] pair = {0, 1}",
    ),
    "o5",
    feeds=[feed(x=_line(5, 4) + 3, i=np.array([-1, 0, 3, -4, 2]))],
)
@passes.verify.equality
class NegativeClass(Planted):
    """A OneHot is written by comparisons, which no negative index fulfils."""

    def pattern(self, op: Op, i: Var, depth: Var, pair: Var) -> Var:
        return op.OneHot(i, depth, pair, _outputs=["out"])

    def compared(self, op: Op, i: Any) -> Any:
        """Write 1 where the number of a column is the index, else 0."""
        found = op.Equal(op.Unsqueeze(i, ints(op, 1)), ints(op, 0, 1, 2, 3))
        return op.Where(found, *(constant(op, n, np.float32) for n in (1, 0)))

    def right(self, op: Op, i: Value, depth: Value, pair: Value, out: Value) -> Any:
        negative = op.Less(i, constant(op, 0, np.int64))
        return self.compared(op, op.Where(negative, op.Add(i, depth), i))

    def wrong(self, op: Op, i: Value, depth: Value, pair: Value, out: Value) -> Any:
        return self.compared(op, i)
