"""Faults of helpers of the library; the verifier uses some of them as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from benchmarks.faults import plant
from benchmarks.faults.case import EVERYWHERE, Handwritten, fault, innocent
from benchmarks.faults.models import blocks, feed, source
from onnx_passes import passes
from onnx_passes.model.copy import copy_nodes
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.base import Pass, Transformation
from onnx_passes.passes.eliminate.eliminate_common_subexpressions import (
    EliminateCommonSubexpressions,
)
from onnx_passes.passes.folding.deduplicate_initializers import DeduplicateInitializers
from onnx_passes.passes.folding.fold_constants import FoldConstants
from onnx_passes.passes.inline.inline_constant_if import InlineConstantIf
from onnx_passes.passes.inline.inline_functions import InlineFunctions


class Borrowed(Transformation):
    """Run passes of the library, whose helpers are wrong if the option is set.

    Attributes:
        at: "" for helpers that are right.
    """

    library: ClassVar[tuple[type[Pass], ...]]

    at: str = ""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for cls in self.library:
            modified |= cls().call(model).modified
        return ir.passes.PassResult(model, modified=modified)


def _default_first(right: Callable[..., None]) -> Callable[..., None]:
    def resolve(node: ir.Node, call: ir.Node, function: ir.Function) -> None:
        given = dict(call.attributes)
        for name in function.attributes:
            call.attributes.pop(name, None)
        right(node, call, function)
        call.attributes.update(given)

    return resolve


@fault(
    source(
        "a function with a default",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[8] x) => (float[8] y, float[8] z) "
        "{ y = local.leak<slope = 0.25>(x)  z = local.leak(x) } "
        '<domain: "local", opset_import: ["" : 20]> '
        "leak<slope: float = 0.5>(s) => (t) "
        "{ a = Sin(s)  t = LeakyRelu<alpha: float = @slope>(a) }",
    ),
    EVERYWHERE,
    plant=plant.function(
        "onnx_passes.passes.common.inlining", "_resolve_attributes", _default_first
    ),
)
@passes.verify.equality
class DefaultBeforeCall(Borrowed):
    """The helper that inlines a call reads the function's default, not the attribute."""

    library = (InlineFunctions,)


def _prefix(right: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def digest(tensor: Any) -> bytes:
        data = tensor.numpy()
        if data.size <= 4 or data.dtype != np.float32:
            return right(tensor)
        return right(ir.tensor(data.reshape(-1)[:4].copy()))

    return digest


_LONG = [f"1, 2, 3, 4, {8 if n == 5 else 5}" for n in range(8)]


@fault(
    blocks(
        "weights that begin alike",
        "y# = Mul(x, w#)",
        x="float[4,5] x",
        y="float[4,5]",
        constants=", ".join(f"float[5] w{n} = {{{data}}}" for n, data in enumerate(_LONG)),
    ),
    EVERYWHERE,
    plant=plant.function("onnx_passes.model.digest", "tensor_digest", _prefix),
)
@passes.verify.equality
class DigestOfPrefix(Borrowed):
    """The digest of a tensor reads its first elements only, and weights are merged by it."""

    library = (DeduplicateInitializers,)


def _coarse(right: Callable[[ir.Attr], Any]) -> Callable[[ir.Attr], Any]:
    def key(attribute: ir.Attr) -> Any:
        if not attribute.is_ref() and attribute.type is ir.AttributeType.FLOAT:
            return right(ir.AttrFloat32(attribute.name, round(attribute.value, 1)))
        return right(attribute)

    return key


@fault(
    blocks(
        "slopes",
        "a# = LeakyRelu<alpha = 0.21>(x)  y# = Sin(a#)",
        odd=("alpha = 0.21", "alpha = 0.19"),
    ),
    EVERYWHERE,
    plant=plant.function("onnx_passes.model.digest", "leaf_key", _coarse),
)
@passes.verify.equality
class KeyRounded(Borrowed):
    """The key of an attribute rounds it, and nodes are merged by it."""

    library = (EliminateCommonSubexpressions,)


def _without_maximum(right: Callable[..., ir.Node]) -> Callable[..., ir.Node]:
    def node(self: Any, original: ir.Node) -> ir.Node:
        copy = right(self, original)
        if original.op_type == "Clip" and len(original.inputs) == 3:
            copy.resize_inputs(2)
        return copy

    return node


@fault(
    source(
        "a Clip with three readers",
        "(float[4,4] x) => (float[4,4] y, float[4,4] z, float[4,4] w) "
        "<float low = {-0.5}, float high = {0.5}> { "
        "c = Clip(x, low, high)  y = Sin(c)  z = Cos(c)  w = Exp(c) }",
    ),
    EVERYWHERE,
    plant=plant.method("onnx_passes.model.copy", "_Copier.node", _without_maximum),
)
@passes.verify.equality
class CopyLosesInput(Handwritten):
    """The helper that copies nodes loses the last input, and each reader gets a copy."""

    def change(self, model: ir.Model) -> None:
        (clip,) = [n for n in model.graph if n.op_type == "Clip"]
        out = clip.outputs[0]
        for reader in list(out.consumers())[1:]:
            (copy,), _ = copy_nodes([clip])
            for index, value in enumerate(clip.inputs[: len(copy.inputs)]):
                copy.replace_input_with(index, value)
            copy.outputs[0].name = f"{out.name}_of_{reader.outputs[0].name}"
            model.graph.insert_before(reader, copy)
            reader.replace_input_with(0, copy.outputs[0])


def _defaults_too(right: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def constant_of(value: ir.Value | None) -> Any:
        if value is not None and value.is_graph_input() and value.is_initializer():
            return value.const_value
        return right(value)

    return constant_of


@fault(
    source(
        "a condition that callers may override",
        "(float[8] x, bool flag) => (float[8] y) <bool flag = {1}> { y = If(flag) "
        "<then_branch = f () => (float[8] u) { a = Sin(x)  u = Exp(a) }, "
        "else_branch = g () => (float[8] v) { b = Cos(x)  v = Exp(b) }> }",
    ),
    EVERYWHERE,
    needs="adversarial",
    feeds=[feed(x=np.ones(8), flag=np.array(False))],
    plant=plant.function("onnx_passes.passes.constants", "constant_of", _defaults_too),
)
@passes.verify.equality
class DefaultAsConstant(Borrowed):
    """The helper that reads constants reads defaults of inputs as well, and an If goes."""

    library = (InlineConstantIf,)


def _concat_of_first(right: Callable[..., bool]) -> Callable[..., bool]:
    def infer(model: ir.Model, **options: Any) -> bool:
        changed = right(model, **options)
        for node in model.graph:
            if node.op_type == "Concat" and not node.outputs[0].is_graph_output():
                node.outputs[0].shape = node.inputs[0].shape
        return changed

    return infer


@fault(
    blocks(
        "sizes of what is joined",
        "c# = Concat<axis = 1>(x, z)  s# = Shape(c#)  r# = CastLike(s#, x)  m# = Sin(c#)  "
        "d# = ReduceProd<keepdims = 0>(r#)  y# = Div(m#, d#)",
        x="float[4,2] x, float[4,3] z",
        y="float[4,5]",
    ),
    EVERYWHERE,
    plant=plant.function(
        "onnx_passes.passes.annotation.shape_inference", "infer_shapes", _concat_of_first
    ),
)
@passes.verify.equality
class ConcatShape(Borrowed):
    """Shape inference gives a Concat the shape of its first operand, and Shape is folded."""

    library = (ShapeInference, FoldConstants)


@innocent(
    source(
        "a function of functions",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[8] x) => (float[8] y, float[8] z) "
        "{ y = local.twice<slope = 0.25>(x)  z = local.leak<slope = 2.0>(x) } "
        '<domain: "local", opset_import: ["" : 20]> '
        "leak<slope: float = 0.5>(s) => (t) { t = LeakyRelu<alpha: float = @slope>(s) } "
        '<domain: "local", opset_import: ["" : 20, "local" : 1]> '
        "twice<slope>(s) => (t) { a = local.leak<slope: float = @slope>(s)  b = Sin(a)  "
        "t = local.leak(b) }",
    )
)
@passes.verify.equality
class InlinedAsItShould(Borrowed):
    """Inline functions with attributes, defaults among them."""

    library = (InlineFunctions,)
