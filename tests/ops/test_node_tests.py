"""The description of an operator, on the tests that onnx has for each of its nodes."""

from collections import Counter

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Tolerance
from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.judge import Promise
from tests.corpus.backend_models import ids, load
from tests.tables import each_of

PARTS = 4


def is_told(model):
    operators = [operator_of(node) for node in model.graph]
    return not model.functions and all(o is not None and o.evaluates for o in operators)


def judge(name, found, expected, rtol, atol):
    """Return what is wrong with one output, or None."""
    if found.dtype != ir.DataType.from_numpy(expected.dtype):
        return f"{name} is {found.dtype}, expected {expected.dtype}"
    actual = np.asarray(found.data).astype(expected.dtype)
    if expected.dtype in (np.float16, ml_dtypes.bfloat16):
        rtol = max(rtol, 4 * float(ml_dtypes.finfo(expected.dtype).eps))
    promise = Promise(Tolerance(rtol, atol), inside=True)
    broken = promise.broken({name: expected}, {name: actual})
    return f"{name}: {broken[0].reason}" if broken else None


def tried(case):
    """Return "not described", "not supported", "agrees", or what is wrong."""
    model = ir.from_proto(case.model)
    inputs = {str(value.name): value for value in model.graph.inputs}
    if not is_told(model):
        return "not described"
    for feeds, expected in case.samples:
        if not all(isinstance(x, np.ndarray) for x in (*feeds.values(), *expected.values())):
            return "not supported"
        semantics = ConcreteSemantics()
        try:
            tensors = {k: constant(x, inputs[k].dtype, semantics) for k, x in feeds.items()}
            with np.errstate(all="ignore"):
                results = evaluate(model.graph, tensors, semantics)
        except Unsupported:
            return "not supported"
        for name, array in expected.items():
            wrong = judge(name, results[name], array, case.rtol, case.atol)
            if wrong is not None:
                return wrong
    return "agrees"


@each_of("part", *range(PARTS))
def test_what_is_told_of_operators_is_what_the_node_tests_of_onnx_expect(part):
    found = {name: tried(load(name)) for name in ids("node")[part::PARTS]}
    outcomes = ("not described", "not supported", "agrees")
    assert {k: v for k, v in found.items() if v not in outcomes} == {}
    assert Counter(found.values())["agrees"] > 250


STEPS = {"DynamicQuantizeLinear"}
"""Whose rounding decides, which has no place over the reals."""
SMALL = 400
"""Elements of the samples that are computed over the reals."""


def over_the_reals(case):
    """Return "left out", "has no number", "agrees", or the output that is wrong."""
    model = ir.from_proto(case.model)
    feeds, expected = case.samples[0]
    arrays = [*feeds.values(), *expected.values()]
    if len(model.graph) != 1 or not is_told(model) or model.graph[0].op_type in STEPS:
        return "left out"
    if not all(isinstance(a, np.ndarray) and a.dtype.kind in "fiub" for a in arrays):
        return "left out"
    if sum(a.size for a in arrays) > SMALL or not all(np.isfinite(a).all() for a in arrays):
        return "left out"
    semantics = RealSemantics()
    inputs = {str(value.name): value for value in model.graph.inputs}
    try:
        tensors = {k: constant(x, inputs[k].dtype, semantics) for k, x in feeds.items()}
        results = evaluate(model.graph, tensors, semantics)
    except Unsupported:
        return "left out"
    for name, array in expected.items():
        found = results[name]
        numbers = [semantics.number(x, found.dtype) for x in found.data.flat]
        if None in numbers:
            return "has no number"
        told = np.array(numbers, float)
        if not np.allclose(told, array.reshape(-1), case.rtol, 1e-5):
            return name
    return "agrees"


@each_of("part", *range(PARTS))
def test_the_arithmetic_of_proofs_gives_what_they_expect(part):
    found = {name: over_the_reals(load(name)) for name in ids("node")[part::PARTS]}
    outcomes = ("left out", "has no number", "agrees")
    assert {k: v for k, v in found.items() if v not in outcomes} == {}
    assert Counter(found.values())["agrees"] > 80
