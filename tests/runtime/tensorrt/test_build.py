"""Parsed and built by NVIDIA's compiler, on a machine that needs no GPU."""

import json

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import (
    ConfigError,
    EngineBuildError,
    EngineError,
    EngineTimeoutError,
    UnsupportedModelError,
)
from onnx_passes.runtime.engine_base import Level, examine
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.tensorrt.bindings import BuildLog, load_bindings
from onnx_passes.runtime.tensorrt.engine import compiler_of, with_profiles_of
from onnx_passes.runtime.tensorrt.parsing import parse

pytestmark = pytest.mark.tensorrt

HEAD = '<ir_version: 8, opset_import: ["": 17, "f": 1]> g '
PRODUCT = f"{HEAD}(float[2,3] x, float[3,4] w) => (float[2,4] y) {{ [mm] y = MatMul(x, w) }}"
NON_ZERO = f"{HEAD}(float[2,3] x) => (int64[2,n] y) {{ [find] y = NonZero(x) }}"
DYNAMIC = f"{HEAD}(float[n,3] x) => (float[n,3] y) {{ y = Relu(x) }}"
RESHAPED = f"{HEAD}(float[n,3] x, int64[2] s) => (float[a,b] y) {{ y = Reshape(x, s) }}"


def model(text):
    return ir.from_onnx_text(text)


def engine(**options):
    return engine_from_config("tensorrt-rtx", {"compute_capabilities": [8.9], **options})


def test_a_model_is_built_for_several_gpus(tmp_path):
    path = tmp_path / "a.engine"
    chosen = [8.0, 8.6, 8.9, 12.0]
    with engine(compute_capabilities=chosen, save=str(path)).prepare(model(PRODUCT)):
        assert path.stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [path]


def test_what_the_parser_refuses_is_told_with_node_operator_and_reason():
    with pytest.raises(UnsupportedModelError) as failure:
        engine().prepare(model(NON_ZERO)).__enter__()
    assert failure.value.message.startswith("node 'find' (NonZero): ")
    assert failure.value.message.endswith("(UNSUPPORTED_NODE)")
    assert examine(engine(), model(NON_ZERO)).level is Level.REJECTED


def test_a_node_in_a_function_is_told_with_its_callers():
    text = f"{HEAD}(float[3] x) => (float[3] y) {{ [call] y = f.foo(x) }}"
    body = '<domain: "f", opset_import: ["": 17]> foo (a) => (b) { [bad] b = Bogus(a) }'
    found = examine(engine(), model(f"{text} {body}"))
    assert found.reason.startswith("node 'bad' (Bogus) in function call (foo): ")


def test_what_is_parsed_and_not_built_carries_what_was_logged():
    turing = engine(compute_capabilities=[7.5])
    with pytest.raises(EngineBuildError, match="Cannot compile operation 'mm'"):
        turing.prepare(model(PRODUCT)).__enter__()
    assert examine(turing, model(PRODUCT)).level is Level.PARSED


def test_dynamic_inputs_need_a_profile():
    with pytest.raises(ConfigError, match="input 'x' needs a profile: its shapes"):
        engine().prepare(model(DYNAMIC)).__enter__()
    wide = {"x": {"min": [1, 3], "opt": [4, 3], "max": [8, 3]}}
    assert examine(engine(profiles=wide), model(DYNAMIC)).level is Level.BUILT
    with pytest.raises(ConfigError, match=r"profiles.x: \[1, 4\] does not fit its shape"):
        engine(profiles={"x": [1, 4]}).prepare(model(DYNAMIC)).__enter__()


def test_profiles_come_from_samples():
    samples = [
        {"x": np.ones((n, 3), np.float32), "s": np.array([3, n], np.int64)} for n in (2, 5)
    ]
    found = with_profiles_of(engine(), model(RESHAPED), samples)
    seen = {
        "x": {"min": [2, 3], "opt": [2, 3], "max": [5, 3]},
        "s": {"min": [3, 2], "opt": [3, 2], "max": [3, 5]},
    }
    assert compiler_of(found).options.spelled_profiles == [seen]
    assert json.loads(found.options)["profiles"] == [seen]
    assert examine(found, model(RESHAPED)).level is Level.BUILT


def test_an_unknown_compute_capability_is_told_with_those_there_are():
    with pytest.raises(ConfigError, match=r"does not build for 9\.0") as failure:
        engine(compute_capabilities=[9.0]).prepare(model(PRODUCT)).__enter__()
    assert "8.9" in failure.value.help


def test_hooks_get_the_network_and_the_config(tmp_path):
    (tmp_path / "hooks_of_a_test.py").write_text(
        "def network(trt, network): network.name = 'mine'\n"
        "def config(trt, config): raise ValueError('seen ' + str(config.num_"
        "compute_capabilities))\n"
    )
    options = {"compute_capabilities": [8.0, 8.9]}
    hooked = engine_from_config(
        "tensorrt-rtx",
        {**options, "network_hook": "hooks_of_a_test:network"},
        folders=[str(tmp_path)],
    )
    assert examine(hooked, model(PRODUCT)).level is Level.BUILT
    failing = engine_from_config(
        "tensorrt-rtx",
        {**options, "config_hook": "hooks_of_a_test:config"},
        folders=[str(tmp_path)],
    )
    with pytest.raises(EngineError, match="hooks_of_a_test:config raised ValueError: seen 2"):
        failing.prepare(model(PRODUCT)).__enter__()
    with pytest.raises(ConfigError, match="network_hook: no_such:module cannot be found"):
        engine(network_hook="no_such:module").prepare(model(PRODUCT)).__enter__()


def test_a_timing_cache_is_written_and_read(tmp_path):
    path = tmp_path / "timing.cache"
    for _ in range(2):
        assert examine(engine(timing_cache=str(path)), model(PRODUCT)).level is Level.BUILT
        assert path.stat().st_size > 0


def test_a_damaged_timing_cache_is_not_kept(tmp_path):
    path = tmp_path / "timing.cache"
    path.write_bytes(b"not a cache")
    with engine(timing_cache=str(path)).prepare(model(PRODUCT)):
        assert path.read_bytes() != b"not a cache"


def test_a_hang_is_a_finding(tmp_path):
    (tmp_path / "hang_of_a_test.py").write_text(
        "import time\ndef hang(trt, network): time.sleep(1000)\n"
    )
    options = {"network_hook": "hang_of_a_test:hang", "time_limit": 8}
    options["compute_capabilities"] = [8.9]
    slow = engine_from_config("tensorrt-rtx", options, folders=[str(tmp_path)])
    with pytest.raises(EngineTimeoutError, match="tensorrt-rtx did not end within 8 s"):
        slow.prepare(model(PRODUCT)).__enter__()


def test_a_crash_is_a_finding(tmp_path):
    (tmp_path / "crash_of_a_test.py").write_text(
        "import ctypes\ndef crash(trt, network): ctypes.string_at(0)\n"
    )
    options = {"network_hook": "crash_of_a_test:crash", "compute_capabilities": [8.9]}
    fragile = engine_from_config("tensorrt-rtx", options, folders=[str(tmp_path)])
    found = examine(fragile, model(PRODUCT))
    assert found.level is Level.REJECTED
    assert found.reason.startswith("tensorrt-rtx crashed with SIGSEGV")
    assert examine(engine(), model(PRODUCT)).level is Level.BUILT


def test_a_model_goes_through_a_file_beyond_the_limit():
    trt = load_bindings("tensorrt-rtx")
    weight = ir.tensor(np.ones((64, 64), np.float32), name="w")
    big = model(f"{HEAD}(float[2,64] x) => (float[2,64] y) {{ y = MatMul(x, w) }}")
    big.graph.register_initializer(ir.Value(name="w", const_value=weight))
    for node in big.graph:
        node.replace_input_with(1, big.graph.initializers["w"])
    log = BuildLog(trt)
    builder = trt.Builder(log.listener)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log.listener)
    parse(parser, big, limit=1000)
    assert network.num_inputs == 1
    assert network.num_layers >= 2
    assert log.errors == []
