import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.passes.cleanup.remove_initializers_from_inputs import (
    RemoveInitializersFromInputs,
)
from tests.tables import cases_in, pass_cases


def test_default_becomes_a_constant(rewrites):
    model = rewrites(
        "(float[2] w, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
        "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
    )
    assert list(model.graph.initializers) == ["w"]
    assert "inputs" in RemoveInitializersFromInputs.interface_changes


def test_ir_version_3_which_demands_initializers_to_be_inputs_is_raised(rewrites):
    model = rewrites("""<ir_version: 3, opset_import: ["" : 8]>
        m (float[2] w, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }""")
    assert model.ir_version == 4
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_ir_version_3_is_raised_if_an_initializer_is_not_an_input():
    model = ir.from_onnx_text("""<ir_version: 3, opset_import: ["" : 8]>
        m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }""")
    assert RemoveInitializersFromInputs()(model).modified
    assert model.ir_version == 4
    assert not RemoveInitializersFromInputs()(model).modified
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


@pytest.mark.parametrize(
    ("version", "names", "noted"),
    [
        (3, "abc", []),
        (4, "a", ["callers can no longer give inputs that had a default: a"]),
        (
            9,
            "abcde",
            ["callers can no longer give inputs that had a default: a, b, c and 2 more"],
        ),
    ],
)
def test_inputs_that_callers_lose_are_named(version, names, noted):
    pass_ = RemoveInitializersFromInputs()
    inputs = "".join(f", float {name}" for name in names)
    values = ", ".join(f"float {name} = {{1}}" for name in names)
    pass_(
        ir.from_onnx_text(f"""<ir_version: {version}, opset_import: ["" : 8]>
        m (float[2] x{inputs}) => (float[2] y) <{values}> {{ y = Add(x, a) }}""")
    )
    assert pass_.context.notes == noted


test_cases = pass_cases("""
leaves alone: (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }
""")


test_cases_2 = cases_in(make=lambda: RemoveInitializersFromInputs(before_ir_version=4))("""
where only older models are meant later ones keep their defaults: (float[2] w, float[2] x) =>
  (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }
""")


def test_weights_of_ir_version_3_are_constants_to_onnx_runtime_which_the_presets_rely_on():
    text = """<ir_version: 3, opset_import: ["" : 8]>
        m (float[2] w, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"""
    feeds = {"x": np.zeros(2, np.float32), "w": np.ones(2, np.float32)}
    session = ort.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    assert not session.get_overridable_initializers()
    with pytest.raises(
        ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="input name"
    ):
        session.run(None, feeds)
    assert RemoveInitializersFromInputs(before_ir_version=4)(ir.from_onnx_text(text)).modified
