from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.errors import UnsupportedModelError
from onnx_passes.runtime import ort_session
from onnx_passes.runtime.ort_session import translate
from tests.tables import each_of, each_row


def test_the_places_in_its_source_are_left_out():
    error = translate(
        RuntimeError(
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while "
            "running Reshape node. Name:'r1' Status Message: /src/core/reshape_helper.h:47 "
            "onnxruntime::ReshapeHelper::ReshapeHelper(const TensorShape&, bool) wrong size"
        )
    )
    assert error.message == "wrong size"
    assert error.where == "  --> node r1"


@each_of("name, where", ("pad", "pad"), ("", "of type Pad"))
def test_the_innermost_node_is_named(name, where):
    outer = "Non-zero status code returned while running If node. Name:'if' Status Message: "
    inner = (
        f"Non-zero status code returned while running Pad node. Name:'{name}' Status Message: "
    )
    error = translate(RuntimeError(f"{outer}{inner}too short"))
    assert error.where == f"  --> node {where}"
    assert error.message == "too short"


@each_row("""text
- [ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Clip(13) node
  with name 'c'
- [ONNXRuntimeError] : 1 : FAIL : Fatal error: my:Foo(-1) is not a registered function/op
- [ONNXRuntimeError] : 10 : INVALID_GRAPH : Error No Op registered for Foo with domain_version
  of 21
- Batchwise recurrent operations (layout == 1) are not supported.
""")
def test_what_is_missing_is_unsupported(text):
    assert type(translate(RuntimeError(text))) is UnsupportedModelError


@each_of(
    "unit",
    "/",
    "/a.cc:1 ",
    "[with ",
    "Node:",
    "Name:'",
    "Opset 1 is under development domain ",
)
def test_a_long_text_of_a_model_is_translated(unit):
    """Messages hold names of nodes; one of a hundred thousand characters took minutes."""
    assert translate(RuntimeError(unit * (100_000 // len(unit)))).message


KINDS = ["int4", "uint4", "float4_e2m1fn", "int2", "uint2"]


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 15), max_size=9))
def test_small_integers_come_back_from_an_ort_value(kind, codes):
    dtype = ir.DataType.from_numpy(np.dtype(getattr(ml_dtypes, kind)))
    array = np.uint8(codes).astype(dtype.numpy()) if codes else np.empty(0, dtype.numpy())
    again = ort_session.to_array(ort_session.of_array(array))
    np.testing.assert_array_equal(again.astype(np.float32), array.astype(np.float32))
