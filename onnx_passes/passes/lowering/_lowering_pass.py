"""What the passes that compute one operator by simpler ones share.

Primitive operators are made as an opset spells them. Softmax and LogSoftmax have a base class
of their own, and so has BatchNormalization.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
import onnx.shape_inference
import onnx_ir as ir
from onnxscript.rewriter.pattern import MatchResult

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.versions import CannotConvertError
from onnx_passes.passes.base import MatchContext, Op, Value, Var
from onnx_passes.passes.common.graph_edits import nodes_within
from onnx_passes.passes.common.inlining import Names, inline_call
from onnx_passes.passes.common.shapes import Dim, dims_of, sizes_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.convert._versions import body_of, changes, conform, schema_of

FLOATS = frozenset(
    {ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE}
)
HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
"""Types in which sums lose too much: kernels add up in single precision."""


class Primitives:
    """Adds nodes to a replacement.

    :meth:`number` makes numbers of type ``dtype``.
    """

    def __init__(self, op: Op, opset: int, dtype: ir.DataType | None) -> None:
        """Make nodes with ``op``."""
        assert dtype is not None, "a pass lowers known types only"
        self.op = op
        self.opset = opset
        self.dtype = dtype

    def node(self, operator: str, *inputs: Value | None, **attributes: object) -> Value:
        """Add a node, and return its output."""
        return getattr(self.op, operator)(*inputs, **attributes)

    def number(self, value: float) -> Value:
        """Return a scalar of the type computed in."""
        return self.tensor(np.array(value, self.dtype.numpy()))

    def ints(self, values: Sequence[int]) -> Value:
        """Return a list of int64."""
        return self.tensor(np.array(values, np.int64))

    def tensor(self, array: Array) -> Value:
        """Return a constant."""
        return self.node("Constant", value=ir.tensor(array))

    def widened(self, dtype: ir.DataType | None = None) -> Primitives:
        """Return the same in a type in which sums are precise: single precision or more."""
        wide = ir.DataType.FLOAT if self.dtype in HALVES else self.dtype
        if ir.DataType.DOUBLE in (dtype, wide):
            wide = ir.DataType.DOUBLE
        return Primitives(self.op, self.opset, wide)

    def exact(self, *numbers: float) -> Primitives:
        """Return the same, widened if half precision would round one of the numbers."""
        half = self.dtype.numpy()
        kept = all(float(np.array(number, half)) == number for number in numbers)
        return self if self.dtype not in HALVES or kept else self.widened()

    def cast(self, value: Value, source: ir.DataType | None) -> Value:
        """Return a value of type ``source`` in the type computed in."""
        return value if source is self.dtype else self.node("Cast", value, to=int(self.dtype))

    def reduce(
        self, operator: str, value: Value, axes: Sequence[int], *, keepdims: int = 1
    ) -> Value:
        """Reduce over axes, which are an attribute in older opsets."""
        if self.opset < (13 if operator == "ReduceSum" else 18):
            return self.node(operator, value, axes=[*axes], keepdims=keepdims)
        return self.node(operator, value, self.ints(axes), keepdims=keepdims)

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Insert axes of size 1, numbered as in the result; as it is if there are none."""
        if not axes:
            return value
        if self.opset < 13:
            return self.node("Unsqueeze", value, axes=[*axes])
        return self.node("Unsqueeze", value, self.ints(axes))

    def pad(self, value: Value, pads: Sequence[int], number: float) -> Value:
        """Pad with amounts before each axis, then behind each; as it is if all are 0."""
        if not any(pads):
            return value
        if self.opset < 11:
            return self.node("Pad", value, pads=[*pads], value=number)
        return self.node("Pad", value, self.ints(pads), self.number(number))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Give another shape: 0 keeps a dimension, -1 is what is left."""
        return self.node("Reshape", value, self.ints(shape))

    def sigmoid(self, x: Value) -> Value:
        """``1 / (1 + exp(-x))``: where exp overflows, the quotient is 0, as it should be."""
        grown = self.node("Add", self.node("Exp", self.node("Neg", x)), self.number(1.0))
        return self.node("Div", self.number(1.0), grown)

    def softplus(self, x: Value) -> Value:
        """``log(1 + exp(x))`` without overflow, as ``max(x, 0) + log(1 + exp(-|x|))``.

        The sum of 1 and a small number keeps few of its digits. What was lost of it is put
        back: ``log(1 + e)`` is ``log(s) * e / (s - 1)`` for the rounded sum ``s``, and ``e``
            if that is 1. (Kahan; Higham, Accuracy and Stability of Numerical Algorithms,
            1.14.)
        """
        decayed = self.node("Exp", self.node("Neg", self.node("Abs", x)))
        one = self.number(1.0)
        total = self.node("Add", decayed, one)
        kept = self.node("Sub", total, one)
        scaled = self.node("Mul", self.node("Log", total), self.node("Div", decayed, kept))
        lost = self.node("Equal", kept, self.number(0.0))
        rest = self.node("Where", lost, decayed, scaled)
        return self.node("Add", self.node("Max", x, self.number(0.0)), rest)

    def normalized(
        self, x: Value, axes: Sequence[int], epsilon: float, *, centred: bool = True
    ) -> Value:
        """``(x - mean) / sqrt(variance + epsilon)`` over axes; without the mean if asked."""
        if centred:
            x = self.node("Sub", x, self.reduce("ReduceMean", x, axes))
        variance = self.reduce("ReduceMean", self.node("Mul", x, x), axes)
        shifted = self.node("Add", variance, self.number(epsilon))
        return self.node("Div", x, self.node("Sqrt", shifted))


@dataclass(frozen=True)
class Site:
    """A node that may be lowered."""

    node: ir.Node
    opset: int

    def input(self, index: int) -> Value | None:
        """Return an input, None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def given(self, index: int) -> Value:
        """Return an input that the operator demands."""
        value = self.input(index)
        assert value is not None, "the schema demands it"
        return value

    @property
    def dtype(self) -> ir.DataType | None:
        """Element type of the first input."""
        return self.given(0).dtype

    def dims(self, index: int = 0) -> list[Dim] | None:
        """Return the dimensions of an input, as far as they are known."""
        return dims_of(self.input(index))

    def sizes(self, index: int = 0) -> list[int] | None:
        """Return the dimensions of an input, if all are numbers."""
        return sizes_of(self.input(index))

    def rank(self, index: int = 0) -> int | None:
        """Return the rank of an input, if it is known."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is an integer."""
        found = self.node.attributes.get_int(name)
        return default if found is None else found

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a number, in single precision, as files hold it."""
        found = self.node.attributes.get_float(name)
        return float(np.float32(default if found is None else found))

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is text."""
        found = self.node.attributes.get_string(name)
        return default if found is None else found

    def integers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers, if it is there."""
        found = self.node.attributes.get_ints(name)
        return None if found is None else list(found)

    def axis(self, default: int) -> int | None:
        """Return the attribute axis, counted from the front, if the rank is known."""
        axis, rank = self.integer("axis", default), self.rank()
        return None if rank is None else axis + rank * (axis < 0)


class LoweringPass(passes.Transformation, passes.RewriteRulePass):
    """A rule that replaces one operator by primitives.

    A subclass gives :meth:`pattern`, whose output is called ``y``, and :meth:`lowered`; where
    it must leave nodes alone, :meth:`obstacle`. ``since`` is the first opset whose primitives
    are enough, and ``dtypes`` the types of the first input that can be lowered. Operators
    broadcast from opset 7 on.
    """

    needs = ("shape-inference",)
    since: ClassVar[int] = 7
    dtypes: ClassVar[frozenset[ir.DataType]] = FLOATS

    def check(self, context: MatchContext, y: Value, **_: Value) -> MatchResult:
        node = y.producer()
        assert node is not None, "the pattern has matched a node"
        found = MatchResult()
        opset = _opset_of(context)
        if opset is None or opset < self.since:
            return found.fail(f"it is not of an opset from {self.since} on", node)
        self._site = Site(node, opset)
        if any(out.uses() or out.is_graph_output() for out in node.outputs[1:]):
            return found.fail("its other outputs are read", node)
        if self._site.dtype not in self.dtypes:
            return found.fail("its type is not known, or none that primitives compute", node)
        reason = self.obstacle(self._site)
        return found if reason is None else found.fail(reason, node)

    def rewrite(self, op: Op, **_: Value) -> Value:
        # The driver asks `check` about the same node right before.
        return self.lowered(Primitives(op, self._site.opset, self._site.dtype), self._site)

    def obstacle(self, site: Site) -> str | None:
        """Return why a node stays, None if nothing speaks against it."""
        return None

    @abc.abstractmethod
    def lowered(self, to: Primitives, site: Site) -> Value:
        """Make the primitives, and return what replaces the node's first output."""


def _opset_of(context: MatchContext) -> int | None:
    """Return the opset that a match is of, if there is no doubt."""
    container, model = context.graph_or_function, context.model
    if container is model.graph:
        version: int | None = container.opset_imports.get("")
        return version
    # The body of a control-flow operator does not say which function it belongs to.
    imports = [model.opset_imports, *(f.opset_imports for f in model.functions.values())]
    versions = {found[""] for found in imports if "" in found}
    return versions.pop() if len(versions) == 1 else None


class SoftmaxPass(LoweringPass):
    """A rule for an operator over exponentials that add up along axes."""

    def obstacle(self, site: Site) -> str | None:
        if site.opset < 13 and site.axis(1) in (None, site.rank()):
            return "which axes it is over is not known"
        return None

    def shifted(self, wide: Primitives, site: Site) -> tuple[Value, Value, Value]:
        """Return the input less its maximum, the exponentials of that, and their sum."""
        axes = self._axes(site)
        x = wide.cast(site.given(0), site.dtype)
        low = wide.node("Sub", x, wide.reduce("ReduceMax", x, axes))
        exponentials = wide.node("Exp", low)
        return low, exponentials, wide.reduce("ReduceSum", exponentials, axes)

    def _axes(self, site: Site) -> list[int]:
        if site.opset >= 13:
            # From the front, where the rank is known: ONNX Runtime reduces no axis of an empty
            # tensor that is counted from the end.
            axis = site.axis(-1)
            return [site.integer("axis", -1) if axis is None else axis]
        # Before, the input was taken for a matrix whose columns begin at the axis.
        axis, rank = site.axis(1), site.rank()
        assert axis is not None, "an obstacle otherwise"
        assert rank is not None, "an obstacle otherwise"
        return list(range(axis, rank))


class BatchNormalizationPass(LoweringPass):
    """Replace a BatchNormalization in inference mode, of known rank."""

    since = 9

    def pattern(self, op: Op, x: Var, s: Var, b: Var, m: Var, v: Var) -> Var:
        return op.BatchNormalization(x, s, b, m, v, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        if site.integer("training_mode", 0) or len(site.node.outputs) > 1:
            return "it is in training mode"
        if (site.rank() or 0) < 2:
            return "its rank is not known, or below 2"
        if (types := self.obstacle_of_types(site)) is not None:
            return types
        if any(site.rank(k) != 1 for k in range(1, 5)):
            return "its parameters are not known to be rows"
        return None

    def obstacle_of_types(self, site: Site) -> str | None:
        """Say why the types of the parameters do not do; None where they do."""
        if any(site.given(k).dtype not in self.dtypes for k in range(1, 5)):
            return "the types of its parameters are not known"
        return None


class FunctionPass(passes.Transformation):
    """A pass that puts in the definitions of operators, in subgraphs too.

    Not in functions: a definition depends on types, and theirs on the call.
    """

    needs = ("topological-sort", "shape-inference")

    def wanted(self, node: ir.Node) -> bool:
        """Whether an operator is to be lowered."""
        raise NotImplementedError

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Put in the definitions, and those of what they bring."""
        modified = False
        opset = model.opset_imports.get("", 0)
        names = Names(*graphs_within(model.graph))
        pending = [n for graph in graphs_within(model.graph) for n in graph]
        while pending:
            node = pending.pop()
            if node.domain or node.op_identifier() in model.functions or not self.wanted(node):
                continue
            put_in = self._define(node, opset, names)
            modified = modified or bool(put_in)
            pending += put_in
        return ir.passes.PassResult(model, modified=modified)

    def _define(self, node: ir.Node, opset: int, names: Names) -> list[ir.Node]:
        """Replace a node by a definition, if there is one that fits."""
        graph = node.graph
        assert graph is not None, "the node has just been found in it"
        if not _has_types_for(node) or not _has_values_for(node):
            return []
        attributes = dict(node.attributes)
        found = body_of(node, opset)
        fits = found is not None and _fits(found[0], node, found[1], opset)
        if found is None or not fits or not _is_typed(found[0], node):
            for name in node.attributes.keys() - attributes.keys():
                del node.attributes[name]  # the defaults that `body_of` has filled in
            return []
        if node.op_type == "LayerNormalization":
            _take_shapes_as_they_are(found[0])
        nodes = inline_call(graph, node, found[0], names)
        return [inner for outer in nodes for inner in nodes_within(outer)]


_OVERFLOWING = frozenset(
    ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
)
"""Reductions of integers that saturate in kernels, and wrap in their definitions."""


def _has_types_for(node: ir.Node) -> bool:
    """Whether a definition is valid for the type of its operator's first input.

    ONNX defines Shrink by Neg, which has no unsigned integers, and ReduceLogSum by Log, which
    has none. It defines ReduceL2 by the root of a float, which has half of the digits of a
    double. ONNX Runtime computes Shrink of doubles in floats, so that its definition is
    another function.
    """
    if node.op_type not in (*_OVERFLOWING, "Shrink"):
        return True
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    if dtype is None or dtype.is_floating_point():
        in_floats = node.op_type in ("ReduceL2", "Shrink") and dtype is ir.DataType.DOUBLE
        return dtype is not None and not in_floats
    return node.op_type == "Shrink" and dtype.is_signed()


def _take_shapes_as_they_are(body: ir.Function) -> None:
    """Let a 0 in the shape of an empty tensor be a size, and no copy of a matrix's."""
    for node in body:
        if node.op_type == "Reshape":
            node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)


def _has_values_for(node: ir.Node) -> bool:
    """Whether a definition is that of its operator for the node's attributes and constants.

    That of AffineGrid with aligned corners divides by sizes less one. That of Celu changes
    positive elements where alpha is negative. That of MeanVarianceNormalization makes 0 of one
    element alone, where ONNX Runtime makes NaN.
    """
    if node.op_type == "MeanVarianceNormalization":
        axes, dims = node.attributes.get_ints("axes", (0, 2, 3)), dims_of(node.inputs[0]) or []
        found = [dims[axis] for axis in axes if -len(dims) <= axis < len(dims)]
        return any(isinstance(size, int) and size > 1 for size in found)
    if node.op_type == "Celu":
        return node.attributes.get_float("alpha", 1.0) > 0
    if node.op_type != "AffineGrid" or not node.attributes.get_int("align_corners", 0):
        return True
    sizes = constant_of(node.inputs[1])
    return sizes is not None and 1 not in sizes.numpy()[2:]


def _is_typed(body: ir.Function, node: ir.Node) -> bool:
    """Whether a definition is of consistent types for the node's inputs.

    That of MeanVarianceNormalization before opset 21 adds a float32 to whatever it is given.
    """
    types = []
    for value in node.inputs:
        if value is None or value.type is None:
            return True  # it cannot be asked
        types.append(ir.serde.serialize_value(value).type)
    attributes = [ir.serde.serialize_attribute(a) for a in node.attributes.values()]
    function = ir.serde.serialize_function(body)
    try:
        onnx.shape_inference.infer_function_output_types(function, types, attributes)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def _fits(body: ir.Function, node: ir.Node, since: int, opset: int) -> bool:
    """Whether a definition of an older opset means the same in this one."""
    if len(node.inputs) > len(body.inputs) or len(node.outputs) > len(body.outputs):
        return False
    given = dict(zip(body.inputs, node.inputs, strict=False))
    if any(value in body.inputs and given.get(value) is None for value in body.outputs):
        return False
    for inner in (n for outer in body for n in nodes_within(outer)):
        after = schema_of(inner, opset)
        borders = range(since + 1, opset + 1)
        if after is None or any(changes(inner.op_type, border) for border in borders):
            return False
        try:
            conform(inner, schema_of(inner, since), after)
        except CannotConvertError:
            return False
    return True
