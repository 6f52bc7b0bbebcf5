import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.passes.convert.convert_opset import refusal
from onnx_passes.passes.convert.raise_opset import RaiseOpset
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import assert_leaves_alone
from tests.tables import each_of


def model(opset, body="y = Relu(x)"):
    header = f'<ir_version: 8, opset_import: ["" : {opset}]> m '
    return ir.from_onnx_text(header + f"(float[2] x) => (float[?] y) {{ {body} }}")


def test_an_older_opset_is_raised():
    old = model(12, "t = Unsqueeze<axes = [0]>(x) y = Relu(t)")
    run = run_pipeline(old, config_from_data({"passes": ["raise-opset"]}))
    run.raise_for_failure()
    assert run.model.graph.opset_imports[""] == 21
    assert [n.op_type for n in run.model.graph] == ["Constant", "Unsqueeze", "Relu"]


@each_of("opset", 21, 22)
def test_a_newer_opset_stays(opset, leaves_alone):
    newer = model(opset)
    assert not RaiseOpset()(newer).modified
    assert newer.graph.opset_imports[""] == opset


def test_what_has_no_equivalent_stays_with_a_note():
    old = model(8, "y = Upsample<scales = [2.0]>(x)")
    old.graph.opset_imports[""] = 7
    pass_ = RaiseOpset(version=10_000)
    assert not pass_(old).modified
    (note,) = pass_.context.notes
    assert note.startswith("the opset stays: ")
    assert old.graph.opset_imports[""] == 7


LOST = [
    pytest.param("double[2] x", "Softsign(x)", 18, 21, id="softsign-of-double"),
    pytest.param("int64[2] x", "Relu(x)", 18, 21, id="relu-of-int64"),
    pytest.param("float[2,2,4,4] x", "GlobalLpPool(x)", 20, 22, id="pool-without-kernel"),
    pytest.param("float[2] x", "RandomNormalLike(x)", 21, 22, id="random-without-kernel"),
]
"""What ONNX Runtime 1.31 computes in the one opset and not in the other."""


def texts(given, call, opset):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]> m '
    outputs = given.replace(" x", " y")
    yield header + f"({given}) => ({outputs}) {{ y = {call} }}"
    yield header + (
        f"(bool k, {given}) => ({outputs}) {{ y = If(k) <"
        f" then_branch = g () => ({given.replace(' x', ' t')}) {{ t = {call} }},"
        f" else_branch = h () => ({given.replace(' x', ' e')}) {{ e = Identity(x) }}> }}"
    )
    yield header + (
        f"({given}) => ({outputs}) {{ y = local.f(x) }}"
        f' <domain: "local", opset_import: ["" : {opset}]> f (x) => (y) {{ y = {call} }}'
    )


@each_of("given, call, opset, wanted", *LOST)
def test_what_onnx_runtime_would_no_longer_load_stays(given, call, opset, wanted):
    """It has a kernel in one opset only, or knows the function in one only."""
    for text in texts(given, call, opset):
        old = ir.from_onnx_text(text)
        assert refusal(old) is None
        pass_ = RaiseOpset(version=wanted)
        assert not pass_(old).modified
        assert old.graph.opset_imports[""] == opset
        (note,) = pass_.context.notes
        assert note.startswith("the opset stays: ONNX Runtime would no longer load")


def test_a_function_that_does_not_fit_the_type_holds_it_back():
    """It adds a float to half precision: in opset 18 ONNX Runtime sees that, in 17 not."""
    given = "float16[1,2,3,4] x"
    old = ir.from_onnx_text(next(texts(given, "MeanVarianceNormalization(x)", 17)))
    assert refusal(old) is None
    assert not RaiseOpset(version=18)(old).modified
    assert refusal(old) is None


@each_of("dtype", "double", "float16", "int32")
def test_what_onnx_runtime_has_a_kernel_for_is_raised(dtype):
    for text in texts(f"{dtype}[2] x", "Relu(x)", 18):
        old = ir.from_onnx_text(text)
        assert RaiseOpset()(old).modified
        assert refusal(old) is None


def test_weights_that_are_left_out_do_not_matter():
    old = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 12]> m (float[2,32] x) =>
        (float[2,32] y) { t = MatMul(x, w) u = MatMul(t, v) y = Add(u, c) }""")
    weight = ir.tensor(np.zeros([32, 32], np.float32))
    for name in ("w", "v"):
        value = old.graph[0 if name == "w" else 1].inputs[1]
        value.const_value = ir.Tensor(weight.numpy(), name=name)
        old.graph.initializers.add(value)
    value = old.graph[2].inputs[1]
    value.const_value = ir.tensor(np.ones([32], np.float32), name="c")
    old.graph.initializers.add(value)
    assert refusal(old) is None
    assert RaiseOpset()(old).modified
    assert refusal(old) is None
    assert old.graph.initializers["w"].const_value.nbytes == 4096


def test_a_quantised_pool_that_optimisations_of_the_newer_opset_break_keeps_its_opset():
    # ONNX Runtime makes int8 uint8 in its own form, and forgets the type of opset 21.
    before = """<ir_version: 10, opset_import: ["" : 20]> g (float[N,2,5,5] x) =>
        (float[N,2,4,4] y) <float s = {0.02}, int8 z = {0}> {
            q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
            y = MaxPool<kernel_shape = [2, 2]>(d)
        }"""
    assert_leaves_alone(RaiseOpset(), before)
