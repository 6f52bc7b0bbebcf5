"""Every operator of all opsets that ONNX Runtime runs is described, or has a reason."""

from collections import defaultdict

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from benchmarks.operators import domains_of
from onnx_passes.certifying.replay import EngineFailure, run_once
from onnx_passes.ops import unevaluated
from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.node_queries import RANDOM
from onnx_passes.ops.operator_class import find, operators
from tests.tables import each_of

OTHER_DOMAINS = {"ai.onnx.ml": 19, "com.microsoft": 82, "com.microsoft.nchwc": 8}
"""Domains whose operators are described as far as passes read or make them.

Trees and classifiers read words and maps; what engines fuse, they make of described operators.
"""
FUNCTIONS = {
    *("Bernoulli", "CastLike", "CenterCropPad", "Constant", "GroupNormalization", "HardSwish"),
    *("ImageDecoder", "Mish", "NegativeLogLikelihoodLoss", "SequenceMap"),
    *("SoftmaxCrossEntropyLoss", "Swish"),
}
"""What ONNX Runtime has no kernel of, and runs by its definition or before it runs."""
BARE = [o for o in operators() if not (o.domain or o.evaluates)]
NOT_EVALUATED = {
    # Words and sequences are not numbers.
    *("RegexFullMatch", "StringConcat", "StringSplit", "ConcatFromSequence", "SequenceAt"),
    *("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "SequenceMap", "SplitToSequence"),
    # They draw random numbers, or copy between devices.
    *(*RANDOM, "MemcpyFromHost", "MemcpyToHost"),
    # ONNX has dropped them.
    *("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale"),
    "ScaledTanh",
    # No rule rewrites them.
    *(o.op_type for o in BARE if o.__module__ == unevaluated.__name__),
}
"""Operators of the main domain that have no formula."""
NEW = {"CausalConvWithState", "LinearAttention", "SwiGLU"}
"""Operators of opsets that ONNX Runtime 1.31 does not run."""


def kernels():
    """Return the names of the operators that have a kernel for processors, by domain."""
    found = defaultdict(set)
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            found[kernel.domain].add(kernel.op_name)
    return found


def test_operators_of_the_main_domain_are_evaluated_or_have_a_reason():
    described = {o.op_type for o in operators() if not o.domain and o.evaluates}
    run = kernels()[""] | FUNCTIONS
    assert run - described - NOT_EVALUATED == set()
    assert described & NOT_EVALUATED == set(), "what is evaluated needs no reason"
    assert described - run == set()
    names = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    assert names - run == NEW


def test_other_domains_are_counted():
    found = {domain: len(names) for domain, names in kernels().items() if domain}
    assert found == OTHER_DOMAINS


SHOWN_ELSEWHERE = {
    *("Attention", "Constant", "If", "Loop", "Scan"),
    *("Optional", "OptionalGetElement", "OptionalHasElement"),
    *("SimplifiedLayerNormalization", "Scatter"),
}
"""What random calls hardly draw: caches, bodies, optional values, what has no schema."""


@each_of("part", *range(4))
def test_every_evaluated_operator_has_numbers_and_bounds(part):
    named = sorted(o.op_type for o in operators() if not o.domain and o.evaluates)
    for name in named[part::4]:
        if name not in SHOWN_ELSEWHERE:
            found = domains_of(find("", name))
            assert (found["numbers"], found["rounding"]) == (True, True), name


IMAGE = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
FORMER = [("SimplifiedLayerNormalization", [IMAGE, IMAGE[0, 0, 0]], {"epsilon": 0.01})]


@each_of("name, arrays, attributes", *FORMER)
def test_operators_that_onnx_has_dropped_give_what_the_engine_does(name, arrays, attributes):
    names = [f"x{k}" for k in range(len(arrays))]
    node = helper.make_node(name, names, ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(n, 1, array.shape)
        for n, array in zip(names, arrays, strict=True)
    ]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph([node], "g", inputs, outputs)
    opset = 17 if name == "SimplifiedLayerNormalization" else 9
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    model = ir.from_proto(made)
    results = run_once(model, dict(zip(names, arrays, strict=True)))
    assert not isinstance(results, EngineFailure), results
    semantics = RoundingSemantics()
    feeds = {
        n: constant(array, ir.DataType.FLOAT, semantics)
        for n, array in zip(names, arrays, strict=True)
    }
    found = evaluate(model.graph, feeds, semantics)["y"]
    assert found.shape == results[0].shape
    assert (np.abs(found.data["value"] - results[0]) <= found.data["error"]).all()
