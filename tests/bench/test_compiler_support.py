"""What engines reject; TensorRT's own part needs its package."""

import onnx_ir as ir
import pytest

from onnx_passes.bench.compiler_support import capability
from onnx_passes.configs.engine_text import parse_engine
from onnx_passes.errors import EngineUnavailableError
from tests.tables import each_of

HEAD = '<ir_version: 10, opset_import: ["": 20, "my": 1]> main '
UNTAKEN = f"""{HEAD}(float[2] a) => (float[2] y) <float[2] c>
    {{ b = Relu(a) [odd] c = my.Op(b) y = Neg(c) }}"""
BRANCH = f"""{HEAD}(float[2] a, bool f) => (float[2] y) <float[2] b> {{
    b = Relu(a)
    [fork] y = If(f)<then_branch = t() => (float[2] p) {{ [odd] p = my.Op(b) }},
        else_branch = e() => (float[2] q) {{ q = Neg(b) }}> }}"""
CHAIN = f"""{HEAD}(float[2,2] a) => (float[2,2] y, float[u] e) {{
    k = Constant<value = float[1] {{2.0}}>() b = Relu(a) m = Mul(b, k) [det] c = Det(m)
    d = Add(b, c) [once] e = Unique(d) n = Mul(d, k) y = Relu(n) }}"""
FORK = f"""{HEAD}(float[2,2] a, bool f) => (float[2,2] y) {{ b = Relu(a)
    [fork] y = If(f)<then_branch = t() => (float[2,2] p) {{ o = Det(b) p = Add(b, o) }},
        else_branch = e() => (float[2,2] q) {{ q = Neg(b) }}> }}"""

CALL = """<ir_version: 10, opset_import: ["": 20, "f": 1]>
    main (float[2,2] a) => (float[2,2] y) { b = Relu(a) [call] c = f.thing(b) y = Neg(c) }
    <domain: "f", opset_import: ["": 20]> thing (x) => (z) { w = Det(x) z = Add(x, w) }"""
LOOP = f"""{HEAD}(float[2,2] a, int64 n, bool f) => (float[2,2] y) {{ b = Relu(a)
    [loop] c = Loop(n, f, b)<body = l(int64 i, bool g, float[2,2] v) => (bool h, float[2,2] u)
        {{ h = Identity(g) o = Det(v) u = Add(v, o) }}> y = Neg(c) }}"""


def ask(text, engine="onnxruntime"):
    return capability(ir.from_onnx_text(text), parse_engine(engine))


def test_onnx_runtime_names_the_node_that_no_kernel_is_there_for():
    found = ask(UNTAKEN)
    assert [(each.node, each.op_type) for each in found.rejected] == [("odd", "my::Op")]
    assert "my" in found.rejected[0].reason
    assert [part.supported for part in found.parts()] == [True, False, True]


def test_the_node_inside_a_subgraph_is_named_too():
    found = ask(BRANCH)
    assert [(each.node, each.inside) for each in found.rejected] == [
        ("fork", ""),
        ("odd", "fork"),
    ]


def test_another_provider_is_asked_without_the_cpu_to_fall_back_to():
    import onnxruntime

    if "AzureExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this build of ONNX Runtime has the CPU only")
    for text in (
        "{provider=AzureExecutionProvider}",
        "{provider=AzureExecutionProvider, isolate=true}",
    ):
        found = ask(CHAIN, f"onnxruntime{text}")
        assert {each.op_type for each in found.rejected} >= {"Relu", "Mul", "Det", "Add"}
        assert "would run on the CPU" in found.rejected[0].reason
        assert not any(part.supported for part in found.parts())


@each_of("package", "tensorrt", "tensorrt-rtx")
def test_without_tensorrt_what_to_install_is_said(package, monkeypatch):
    from onnx_passes.runtime.tensorrt import engine

    monkeypatch.setattr(engine, "installed_version", lambda package: None)
    with pytest.raises(EngineUnavailableError) as failure:
        ask(CHAIN, package)
    assert failure.value.help == f"in a checkout: pip install '.[{package}]'"


@pytest.mark.tensorrt
def test_the_parser_is_asked_until_it_takes_what_is_left():
    found = ask(CHAIN, "tensorrt-rtx")
    assert [each.node for each in found.rejected] == ["det", "once"]
    assert all("UNSUPPORTED_NODE" in each.reason for each in found.rejected)
    taken = [part.model for part in found.parts() if part.supported]
    assert all(capability(part, parse_engine("tensorrt-rtx")).supported for part in taken)


@pytest.mark.tensorrt
def test_the_parser_rejects_the_node_that_holds_what_it_rejects():
    found = ask(FORK, "tensorrt-rtx")
    assert [(each.node, each.op_type) for each in found.rejected] == [("fork", "If")]
    assert "Det in t (then_branch)" in found.rejected[0].reason


@pytest.mark.tensorrt
@each_of("text, node", (CALL, "call"), (LOOP, "loop"))
def test_what_is_wrong_in_a_function_or_a_loop_is_that_of_its_node(text, node):
    found = ask(text, "tensorrt-rtx")
    assert [each.node for each in found.rejected] == [node]
    assert [part.supported for part in found.parts()] == [True, False, True]


def test_a_function_that_is_not_taken_spoils_no_node_that_does_not_call_it():
    assert ask(CALL).supported
    broken = ask(CALL.replace("Det(x)", "my.Op(x)").replace('"f": 1]', '"f": 1, "my": 1]', 1))
    assert [each.node for each in broken.rejected] == ["call"]
