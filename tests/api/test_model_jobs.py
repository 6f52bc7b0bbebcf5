"""Compare, inspect, reduce and certify from Python."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.testing import parse
from tests.tables import each_of

A = parse("(float[N,2] x) => (float[N,2] y) { a = Identity(x)  b = Relu(a)  y = Neg(b) }")
B = parse("(float[N,2] x) => (float[N,2] y) { y = Neg(x) }")


def test_models_are_compared():
    assert onnx_passes.compare(A, B, inputs={"x": np.ones((1, 2), np.float32)}).passed
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
    found = onnx_passes.certify("eliminate-identity", level="test", seconds=300, models=3)
    assert {(v["pass"], v["verdict"]) for v in found} == {("eliminate-identity", "tested")}


# Samples in the forms that callers hold them in.


MODEL = parse("""(float[N,2] x, bool b) => (float[N,2] y) { z = Identity(x) w = Where(b, z, x)
    y = Neg(w) }""")


@each_of("b", True, np.bool_(True), np.array(True))
@each_of("x", [[1, 2.5]], np.float32([[1, 2.5]]), ids=["list", "array"])
def test_numbers_and_lists_are_arrays_of_the_declared_type(x, b):
    done = onnx_passes.run(MODEL, "cleanup", inputs={"x": x, "b": b})
    done.raise_for_verdict()
    assert onnx_passes.compare(MODEL, done.model, inputs=[{"x": x, "b": b}]).passed


@each_of("x", [[1, 2], [3]], [["a", "b"]], ids=["ragged", "text"])
def test_lists_of_no_array_are_refused(x):
    with pytest.raises(ReferenceDataError, match="input 'x' is not an array"):
        onnx_passes.run(MODEL, "cleanup", inputs={"x": x, "b": True})


@each_of("inputs", "x.npz", np.ones(2, np.float32), [np.ones(2, np.float32)], ids=str)
def test_samples_are_mappings(inputs):
    with pytest.raises(UsageError, match=f"the inputs are {type(inputs).__name__}, not"):
        onnx_passes.run(MODEL, "cleanup", inputs=inputs)


# ``onnx_passes.tune``.


DIGITS = Path(__file__).parents[2] / "examples" / "digits"
PIPELINE = {
    "verify": {"metrics": {"kl_divergence": [0, 0.001]}},
    "tune": {"formats": ["float16", "int8-weights"], "objective": "size"},
}


@pytest.fixture(scope="module")
def samples():
    return {"image": np.load(DIGITS / "images.npy")}


@pytest.fixture(scope="module")
def result(samples):
    return onnx_passes.tune(DIGITS / "model.onnx", PIPELINE, inputs=samples)


def test_the_result_is_smaller_and_can_be_saved(result, tmp_path):
    path = result.save(tmp_path / "small.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    assert path.stat().st_size < 0.4 * (DIGITS / "model.onnx").stat().st_size
    assert set(result.formats.values()) <= {"float32", "float16", "int8-weights"}
    assert "size:" in repr(result)
    assert "% less; " in str(result)
    json.dumps(result.data)


def test_a_model_in_memory_stays_as_it_is(samples):
    proto = onnx.load(DIGITS / "model.onnx")
    before = proto.SerializeToString(deterministic=True)
    told = []
    found = onnx_passes.tune(proto, PIPELINE, inputs=[samples], progress=told.append)
    assert proto.SerializeToString(deterministic=True) == before
    assert found.data["cost"]["chosen"] < found.data["cost"]["original"]
    assert told[0].endswith("recording the original")


def test_the_room_does_not_hide_the_function():
    import onnx_passes.tuning.budget_search

    assert callable(onnx_passes.tune)
    assert isinstance(ir.load(DIGITS / "model.onnx"), ir.Model)
