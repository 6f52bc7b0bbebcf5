"""Compare, inspect, reduce and certify from Python."""

import numpy as np
import pytest

import onnx_passes
from onnx_passes.errors import UsageError
from onnx_passes.testing import parse

A = parse("(float[N,2] x) => (float[N,2] y) { a = Identity(x)  b = Relu(a)  y = Neg(b) }")
B = parse("(float[N,2] x) => (float[N,2] y) { y = Neg(x) }")


def test_models_are_compared():
    positive = {"x": np.ones((1, 2), np.float32)}
    assert onnx_passes.compare(A, B, inputs=positive).passed
    differ = onnx_passes.compare(A, B, inputs={"x": -np.ones((1, 2), np.float32)})
    assert not differ.passed
    assert "DIFFERS y" in str(differ)
    assert repr(differ) == "<DIFFER, 2 runs>"
    assert onnx_passes.compare(
        A, B, inputs={"x": -np.ones((1, 2), np.float32)}, atol=9.0
    ).passed


def test_a_model_is_described():
    told = onnx_passes.inspect(A, show=["layers"])
    assert told.data["graph"]["node_count"] == 3
    assert "Relu" in repr(told)


def test_a_model_is_reduced_by_a_function():
    found = onnx_passes.reduce(A, lambda m: any(n.op_type == "Relu" for n in m.graph))
    assert (found.before, found.after) == (3, 1)
    with pytest.raises(UsageError, match="a function, or an engine"):
        onnx_passes.reduce(A)


def test_a_model_is_reduced_by_an_engine():
    broken = parse("(float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Log(b) }")
    found = onnx_passes.reduce(broken, engine="onnxruntime")
    assert [node.op_type for node in found.model.graph] == ["Log"]


def test_rules_are_certified():
    found = onnx_passes.certify(["merge-clips"], level="test", seconds=300, models=3)
    assert {(v["pass"], v["verdict"]) for v in found} == {("merge-clips", "tested")}
