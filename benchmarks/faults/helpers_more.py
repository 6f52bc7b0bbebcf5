"""More faults of helpers of the library; the verifier uses some of them as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults import plant
from benchmarks.faults.case import EVERYWHERE, fault, innocent
from benchmarks.faults.helpers import Borrowed
from benchmarks.faults.models import blocks, source
from onnx_passes import passes
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from onnx_passes.passes.eliminate.eliminate_common_subexpressions import (
    EliminateCommonSubexpressions,
)
from onnx_passes.passes.folding.lift_constants import LiftConstants
from onnx_passes.passes.inline.inline_functions import InlineFunctions


def _arguments_turned(right: Callable[..., Any]) -> Callable[..., Any]:
    def inline_call(graph: Any, call: ir.Node, function: ir.Function, names: Any) -> Any:
        if len(call.inputs) == 2:
            first, second = call.inputs
            call.replace_input_with(0, second)
            call.replace_input_with(1, first)
        return right(graph, call, function, names)

    return inline_call


@fault(
    source(
        "a function in a Loop",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[8] x, float[8] w) => (float[8] y) <bool yes = {1}, int64 n = {3}> "
        "{ y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t) { on = Identity(go)  q = local.gap(s, w)  t = Sin(q) }> } "
        '<domain: "local", opset_import: ["" : 20]> '
        "gap (a, b) => (c) { d = Tanh(b)  c = Sub(a, d) }",
    ),
    EVERYWHERE,
    plant=plant.function(
        "onnx_passes.passes.common.inlining", "inline_call", _arguments_turned
    ),
)
@passes.verify.equality
class ArgumentsOfCalls(Borrowed):
    """The helper that inlines a call exchanges two arguments."""

    library = (InlineFunctions,)


def _uncounted(right: Callable[..., str]) -> Callable[..., str]:
    def free(wish: str, names: Counter[str]) -> str:
        # The name is made unique once and not counted, so that the next call gets it again.
        return wish if names[wish] == 0 else f"{wish}_1"

    return free


@fault(
    source(
        "three calls of a function",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[8] x) => (float[8] y) <float k = {0.5}> "
        "{ a = Mul(x, k)  u = local.f(a)  v = local.f(u)  w = local.f(v)  y = Sin(w) } "
        '<domain: "local", opset_import: ["" : 20]> '
        "f (s) => (t) { a = Tanh(s)  b = Mul(a, s)  t = Cos(b) }",
    ),
    EVERYWHERE,
    plant=plant.function("onnx_passes.passes.common.inlining", "free", _uncounted),
)
@passes.verify.equality
class NamesGivenTwice(Borrowed):
    """The helper that makes names unique gives one of them to two values."""

    library = (InlineFunctions,)


def _without_shape(right: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def digest(tensor: Any) -> bytes:
        data = tensor.numpy()
        return right(ir.tensor(data.reshape(-1).copy())) if data.ndim else right(tensor)

    return digest


@fault(
    blocks(
        "rows and columns",
        "k# = Constant<value = float[1,4] {1, 2, 3, 4}>()  s# = Sin(x)  y# = Mul(s#, k#)",
        odd=("float[1,4]", "float[4,1]"),
    ),
    EVERYWHERE,
    plant=plant.function("onnx_passes.model.digest", "tensor_digest", _without_shape),
)
@passes.verify.equality
class DigestWithoutShape(Borrowed):
    """The digest of a tensor leaves its shape out, and a row is merged with a column."""

    library = (EliminateCommonSubexpressions,)


def _rounded(right: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def constant_tensor(node: ir.Node) -> Any:
        tensor = right(node)
        if tensor is None or "value_floats" not in node.attributes:
            return tensor
        return ir.tensor(tensor.numpy().astype(np.float16).astype(np.float32))

    return constant_tensor


@fault(
    blocks(
        "constants in attributes",
        "k# = Constant<value = float[4] {0.1, 0.2, 0.3, 0.4}>()  s# = Sin(x)  "
        "y# = Mul(s#, k#)",
        odd=("value = float[4] {0.1, 0.2, 0.3, 0.4}", "value_floats = [0.1, 0.2, 0.3, 0.4]"),
    ),
    EVERYWHERE,
    plant=plant.function("onnx_passes.passes.constants", "constant_tensor", _rounded),
)
@passes.verify.equality
class ConstantRead(Borrowed):
    """The helper that reads Constant nodes reads lists of floats in half precision."""

    library = (LiftConstants,)


def _always(right: Callable[..., bool]) -> Callable[..., bool]:
    def holds(self: Any, node: ir.Node, imports: Any) -> bool:
        return True

    return holds


@fault(
    source(
        "two draws",
        "(float[64] x) => (float y) <float k = {1000}> { "
        "a = RandomNormalLike(x)  b = RandomNormalLike(x)  d = Sub(a, b)  "
        "s = ReduceSumSquare<keepdims = 0>(d)  t = Mul(s, k)  o = Tanh(t)  y = Round(o) }",
    ),
    EVERYWHERE,
    needs="strict",
    plant=plant.method(
        "onnx_passes.passes.common.value_numbering", "Determinism.holds", _always
    ),
)
@passes.verify.equality
class DrawsMerged(Borrowed):
    """The helper that knows random operators knows none, and two draws are merged."""

    library = (EliminateCommonSubexpressions,)


@innocent(
    blocks(
        "equal constants",
        "k# = Constant<value_floats = [0.1, 0.2, 0.3, 0.4]>()  y# = Mul(x, k#)",
    )
)
@passes.verify.equality
class ConstantsMerged(Borrowed):
    """Merge equal Constant nodes, lift them, and sort."""

    library = (EliminateCommonSubexpressions, LiftConstants, TopologicalSort)
