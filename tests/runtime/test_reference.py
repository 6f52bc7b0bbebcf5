from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import EngineError, UnsupportedModelError
from onnx_passes.runtime.reference import ReferenceEngine

ENGINE = ReferenceEngine()


def test_types_that_no_other_engine_has(parse, run):
    x = np.array([1 + 2j, -1j], np.complex64)
    model = parse("g (complex64[2] x) => (complex64[2] y) { y = Identity(x) }")
    np.testing.assert_array_equal(run(ENGINE, model, x=x)["y"], x)
    b = np.array([1, 2], ml_dtypes.bfloat16)
    model = parse("g (bfloat16[2] x) => (bfloat16[2] y) { y = Add(x, x) }")
    assert run(ENGINE, model, x=b)["y"].dtype == b.dtype


def test_sequences_and_optionals(parse):
    text = """g (seq(float[n]) x, optional(float[2]) o) => (seq(float[m]) y, bool b) {
        i = Constant<value_int = 0>()  y = SequenceErase(x, i)  b = OptionalHasElement(o) }"""
    with ENGINE.prepare(parse(text)) as session:
        found = session.run({"x": [np.float32([1]), np.float32([2, 3])], "o": None})
    assert [item.tolist() for item in found["y"]] == [[2, 3]]
    assert found["b"].dtype == bool
    assert not found["b"]


def test_an_unknown_operator_is_unsupported(parse, run):
    with pytest.raises(UnsupportedModelError, match="Foo"):
        run(ENGINE, parse("g (float[2] x) => (float[2] y) { y = Foo(x) }"))


@pytest.mark.parametrize("name", ["Scatter", "ai.onnx.ml.Foo", "my.Foo"])
def test_an_operator_that_is_missing_is_named_without_those_that_are_there(name, run):
    model = ir.from_onnx_text(f"""
    <ir_version: 8, opset_import: ["" : 9, "ai.onnx.ml" : 1, "my" : 1]>
    g (float[2] x, int64[2] i, float[2] u) => (float[2] y) {{ y = {name}(x, i, u) }}""")
    with pytest.raises(UnsupportedModelError) as refused:
        run(ENGINE, model)
    kind = name.rpartition(".")[2]
    assert f"'{kind}'" in refused.value.message
    assert len(refused.value.message) < 80


def test_a_failing_operator_is_an_error(parse, run):
    model = parse("g (float[n] x, int64[m] s) => (float[a, b] y) { y = Reshape(x, s) }")
    with pytest.raises(EngineError, match="cannot reshape"):
        run(ENGINE, model, x=np.ones(3, np.float32), s=np.int64([2, 2]))
