from __future__ import annotations

import resource
import textwrap
from contextlib import suppress

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.errors import EngineError, EngineUnavailableError, UnsupportedModelError
from onnx_passes.model.load import load_model
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.model.save import save_model
from onnx_passes.runtime import engine_models, ort
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.ort import OnnxRuntimeEngine, skipped_optimizations
from tests.tables import each_of, outputs_of

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
FEEDS = {"x": np.ones(2, np.float32)}
PLUGIN = "NvTensorRTRTXExecutionProvider"


def prepare(provider):
    engine = engine_from_config("onnxruntime", {"provider": provider})
    return outputs_of(engine, ir.from_onnx_text(MODEL), FEEDS)


@each_of(
    "provider, install",
    ("CUDAExecutionProvider", "onnxruntime-gpu"),
    ("TensorrtExecutionProvider", "onnxruntime-gpu"),
    (PLUGIN, "pip install onnxruntime-ep-nv-tensorrt-rtx"),
)
def test_a_provider_that_is_not_here_is_told_with_what_to_install(provider, install):
    if provider in onnxruntime.get_available_providers():
        pytest.skip(f"{provider} is here")
    if provider == PLUGIN and ort.importlib.util.find_spec("onnxruntime_ep_nv_tensorrt_rtx"):
        pytest.skip("its package is here")
    with pytest.raises(EngineUnavailableError) as failure:
        prepare(provider)
    assert failure.value.message == f"this build of ONNX Runtime has no {provider}"
    assert install in failure.value.help
    assert failure.value.exit_code == 3


@each_of("provider", "CUDAExecutionProvider", "TensorrtExecutionProvider")
def test_a_provider_that_lets_the_cpu_work_in_its_place_is_an_error(provider, monkeypatch):
    """What the GPU build does where a library is missing: it lists it, and uses the CPU."""
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: [provider, "CPUExecutionProvider"]
    )
    real = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda data, options, providers, enable_fallback: real(data, options),
    )
    with pytest.raises(EngineUnavailableError) as failure:
        prepare(provider)
    assert failure.value.message == (
        f"{provider} cannot be used here: ONNX Runtime fell back to CPUExecutionProvider"
    )
    assert failure.value.help.startswith("check the driver")


def test_a_package_whose_library_does_not_load_is_told_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "libep.so").write_text("no library")
    (tmp_path / "onnxruntime_ep_nv_tensorrt_rtx.py").write_text(
        textwrap.dedent(f"""
            def get_library_path():
                return {str(tmp_path / "libep.so")!r}
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        EngineUnavailableError, match=f"{PLUGIN} cannot be loaded: "
    ) as failure:
        prepare(PLUGIN)
    assert "libep.so" in failure.value.message
    assert "nvidia-smi" in failure.value.help


def test_tf32_is_off_unless_asked_for_and_recorded(monkeypatch):
    cuda = "CUDAExecutionProvider"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cuda])
    assert OnnxRuntimeEngine(provider=cuda).describe()["provider.use_tf32"] == "0"
    asked = OnnxRuntimeEngine(provider=cuda, provider_options=(("use_tf32", "1"),))
    assert asked.describe()["provider.use_tf32"] == "1"
    assert "use_tf32=1" in asked.name


ENGINE = OnnxRuntimeEngine()
ENGINE_AS_WRITTEN = OnnxRuntimeEngine(prepacking=False)
RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
LARGE = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)


def test_weights_are_read_from_the_memory_of_the_model(parse):
    array = np.ones(4096, np.float32)
    model = parse(
        "g (float[4096] x, float[4096] w) => (float[4096] y) { y = Add(x, w) }", w=array
    )
    with ENGINE.prepare(model) as session:
        array[:] = 5  # shows only if nothing was copied
        y = session.run({"x": np.zeros(4096, np.float32)})["y"]
    np.testing.assert_array_equal(y, array)


def test_weights_of_branches_and_bodies_are_found(parse, run):
    text = """g (bool c, float[64, 64] x, float[64, 64] w) => (float[64, 64] y) {
        y = If (c) <then_branch = t () => (float[64, 64] a) { a = Add(x, w) },
                    else_branch = e () => (float[64, 64] b) { b = Sub(x, w) }> }"""
    model = parse(text, w=LARGE)
    outer = model.graph.initializers["w"]
    for name, data in (("then_branch", LARGE), ("else_branch", LARGE * 2)):
        branch = model.graph.node(0).attributes[name].as_graph()
        # One name for two tensors in sibling branches is valid.
        inner = ir.Value(
            name="v", type=outer.type, shape=outer.shape, const_value=ir.tensor(data)
        )
        branch.initializers.add(inner)
        branch.node(0).replace_input_with(1, inner)
    zero = np.zeros_like(LARGE)
    np.testing.assert_array_equal(run(ENGINE, model, c=True, x=zero)["y"], LARGE)
    np.testing.assert_array_equal(run(ENGINE, model, c=False, x=zero)["y"], -2 * LARGE)


def test_a_feed_overrides_an_initializer(parse, run):
    model = parse(
        "g (float[64, 64] x, float[64, 64] w) => (float[64, 64] y) { y = Add(x, w) }"
    )
    weight = model.graph.inputs[1]
    weight.const_value = ir.tensor(LARGE)
    model.graph.register_initializer(weight)
    np.testing.assert_array_equal(run(ENGINE, model, x=LARGE)["y"], 2 * LARGE)
    np.testing.assert_array_equal(run(ENGINE, model, x=LARGE, w=-LARGE)["y"], 0 * LARGE)


@each_of("dtype", "int4", "uint4", "bfloat16", "float32")
def test_weights_come_from_a_mapped_file(parse, run, tmp_path, dtype):
    kind = ir.DataType.from_numpy(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    values = (np.arange(5001) % 7).astype(kind.numpy())
    packed = ir.tensor(values).tobytes()
    (tmp_path / "w.bin").write_bytes(b"pad!" + packed)
    weight = ir.ExternalTensor(
        "w.bin", 4, len(packed), kind, shape=ir.Shape([5001]), name="w", base_dir=tmp_path
    )
    text = f"g ({kind.name.lower()}[5001] w) => (float[5001] y) {{ y = Cast<to = 1>(w) }}"
    y = run(ENGINE, parse(text, w=weight))["y"]
    np.testing.assert_array_equal(y, values.astype(np.float32))


def test_a_missing_weight_file_is_named(parse, run, tmp_path):
    weight = ir.ExternalTensor(
        "gone.bin",
        0,
        16384,
        ir.DataType.FLOAT,
        shape=ir.Shape([4096]),
        name="w",
        base_dir=tmp_path,
    )
    model = parse("g (float[4096] w) => (float[4096] y) { y = Relu(w) }", w=weight)
    with pytest.raises(EngineError, match=r"weight 'w' cannot be read.*gone\.bin"):
        run(ENGINE, model)


@pytest.mark.slow
def test_models_over_2_gib_load(parse, run):
    layers = 5
    names = [f"w{index}" for index in range(layers)]
    steps = " ".join(f"v{i + 1} = Add(v{i}, w{i})" for i in range(layers))
    inputs = ", ".join(f"float[115000000] {name}" for name in names)
    text = f"g (float[1] v0, {inputs}) => (float[m] y) {{ {steps} y = ReduceMax(v{layers}) }}"
    weight = np.ones(115_000_000, np.float32)
    y = run(ENGINE, parse(text, **dict.fromkeys(names, weight)), v0=np.float32([0]))["y"]
    assert y.item() == layers


@each_of(
    "dtype", "bfloat16", "float8_e4m3fn", "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2"
)
def test_element_types_that_numpy_lacks_go_in_and_out(parse, run, dtype):
    kind = ir.DataType.from_numpy(np.dtype(getattr(ml_dtypes, dtype)))
    name = kind.name.lower()
    top = 1 if kind.bitwidth == 2 else 3
    x = np.float32([[1, 0, top], [0, 1, top], [1, 1, 0]])  # nine: the last byte is not full
    there = f"g (float[3,3] x) => ({name}[3,3] y) {{ y = Cast<to = {kind.value}>(x) }}"
    y = run(ENGINE, parse(there, 25, 12), x=x)["y"]
    assert y.dtype == kind.numpy()
    back = f"g ({name}[3,3] x) => (float[3,3] y) {{ y = Cast<to = 1>(x) }}"
    np.testing.assert_array_equal(run(ENGINE, parse(back, 25, 12), x=y)["y"], x)


@each_of("layout", "strided", "big-endian", "unaligned")
def test_feeds_may_have_any_layout(parse, run, layout):
    x = np.arange(6, dtype=np.float32)
    fed = {
        "strided": np.repeat(x, 2)[::2],
        "big-endian": x.astype(">f4"),
        "unaligned": np.frombuffer(b"?" + x.tobytes(), np.float32, offset=1),
    }[layout]
    model = parse("g (float[6] x) => (float[6] y) { y = Identity(x) }")
    np.testing.assert_array_equal(run(ENGINE, model, x=fed)["y"], x)


def test_a_type_that_numpy_lacks_beside_a_sequence(parse):
    text = """g (bfloat16[2] x, float[2] z) => (bfloat16[2] y, seq(float[2]) s) {
        y = Identity(x)  s = SequenceConstruct(z, z) }"""
    x, z = np.array([1, 2], ml_dtypes.bfloat16), np.float32([3, 4])
    found = outputs_of(ENGINE, parse(text), {"x": x, "z": z})
    assert list(found) == ["y", "s"]
    np.testing.assert_array_equal(found["y"], x)
    np.testing.assert_array_equal(found["s"], [z, z])


def test_sequences_are_lists(parse):
    text = "g (seq(float[n]) x) => (seq(float[m]) y, float[k] z) {" + (
        "i = Constant<value_int = 1>() y = SequenceErase(x, i) z = SequenceAt(x, i) }"
    )
    items = [np.float32([1]), np.float32([2, 3]), np.float32([4])]
    found = outputs_of(ENGINE, parse(text), {"x": items})
    assert [item.tolist() for item in found["y"]] == [[1], [4]]
    assert found["z"].tolist() == [2, 3]


@each_of("value", None, np.float32([1, 2]))
def test_optionals_are_values_or_none(parse, value):
    text = """g (optional(float[2]) x) => (bool b, optional(float[2]) y) {
        b = OptionalHasElement(x)  y = Identity(x) }"""
    found = outputs_of(ENGINE, parse(text), {"x": value})
    assert found["b"] == (value is not None)
    np.testing.assert_array_equal(found["y"], value)


def test_maps_become_keys_and_values(parse, run):
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
        g (float[1, 2] x) => (float[1] y)
        { y = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 3]>(x) }""")
    model.graph.outputs[0].type = model.graph.outputs[0].shape = None  # onnx-ir has no maps
    (keys, values), *rest = run(ENGINE, model, x=np.float32([[0.75, 0.25]]))["y"]
    assert (keys.tolist(), values.tolist(), rest) == ([3, 7], [0.25, 0.75], [])
    assert values.dtype == np.float32  # as float64 they were held to the rounding of that


def test_random_operators_repeat_themselves(parse, run):
    model = parse("g () => (float[4] y) { y = RandomNormal<shape = [4]>() }")
    first, second = run(ENGINE, model)["y"], run(ENGINE, model)["y"]
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, run(OnnxRuntimeEngine(seed=7), model)["y"])


@each_of(
    "text, opset, ir_version, message",
    ("g (float[2] x) => (float[2] y) { y = Foo(x) }", 21, 10, "Foo"),
    ("g (float[2] x) => (float[2] y) { y = my.Foo(x) }", 21, 10, "my:Foo"),
    ("g (complex64[2] x) => (complex64[2] y) { y = Identity(x) }", 21, 10, "complex64"),
    ("g (uint8[n] x) => (uint8[a,b,c] y) { y = ImageDecoder(x) }", 21, 10, "ImageDecoder"),
    (RELU, 999, 10, "opset 999"),
    (RELU, 21, 999, "IR version 999"),
)
def test_what_it_lacks_is_unsupported(parse, run, text, opset, ir_version, message):
    with pytest.raises(UnsupportedModelError, match=message):
        run(ENGINE, parse(text, opset, ir_version), x=np.float32([1, 2]))


def test_an_invalid_model_is_an_error(parse, run):
    model = parse("g (float[2] x, double[2] z) => (float[2] y) { [sum] y = Add(x, z) }")
    with pytest.raises(EngineError, match="Type Error") as caught:
        run(ENGINE, model)
    assert not isinstance(caught.value, UnsupportedModelError)
    assert "sum" in (caught.value.where or "")


def test_a_failure_while_running_names_the_node(parse, run):
    model = parse(
        "g (float[n] x, int64[m] s) => (float[a, b] y) { [split] y = Reshape(x, s) }"
    )
    with pytest.raises(EngineError, match="cannot be reshaped") as caught:
        run(ENGINE, model, x=np.ones(3, np.float32), s=np.int64([2, 2]))
    assert "split" in (caught.value.where or "")
    assert ".cc" not in caught.value.message


def test_a_provider_that_runs_no_node_is_unavailable(parse, run):
    # It is in every build, takes no ordinary node, and is first among the providers.
    engine = OnnxRuntimeEngine(provider="AzureExecutionProvider")
    if engine.provider not in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has no provider that takes no node")
    with pytest.raises(EngineUnavailableError, match="runs no node of this model"):
        run(engine, parse(RELU))


def test_a_closed_session_says_so(parse):
    with ENGINE.prepare(parse(RELU)) as session:
        pass
    with pytest.raises(EngineError, match="closed"):
        session.run({"x": np.float32([1, 2])})


def test_memory_that_another_session_has_left_is_touched_already():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[N] x) => (float y) {
            r = Constant<value_ints = [16777216]>() a = Tile(x, r)
            y = ReduceSum<keepdims = 0>(a)
        }""")
    for _ in range(2):
        with OnnxRuntimeEngine().prepare(model) as session:
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
            session.run({"x": np.ones(1, np.float32)}, ["y"])
            faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    pages = (1 << 26) // resource.getpagesize()
    assert faults < pages // 8


def test_a_session_without_rewrites_copies_no_weight(parse):
    weight = np.ones((1 << 12, 1 << 12), np.float32)
    text = "g (float[4096] x, float[4096, 4096] w) => (float[4096] y) { y = MatMul(x, w) }"
    model = parse(text, w=weight)
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        with ENGINE_AS_WRITTEN.prepare(model):
            faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    assert faults < weight.nbytes // resource.getpagesize() // 8


@each_of("limit", 0, 1 << 62)
def test_optimizations_copy_no_weights_of_a_large_model(parse, monkeypatch, tmp_path, limit):
    """Transposed once, the weight would be in memory as long as the session."""
    weight = np.ones((1 << 11, 1 << 12), np.float32)
    text = """g (float[4096] x, float[2048, 4096] w) => (float[2048] y) { t = Transpose(w)
        y = MatMul(x, t) }"""
    save_model(parse(text, w=weight), tmp_path / "model.onnx", external_data="external")
    model = load_model(tmp_path / "model.onnx").model
    monkeypatch.setattr(engine_models, "LARGE", limit)
    engine = OnnxRuntimeEngine(optimization="all", prepacking=False)
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        with engine.prepare(model) as session:
            faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
            (found,) = session.run({"x": np.ones(4096, np.float32)}).values()
    np.testing.assert_array_equal(found, 4096)
    copied = faults * resource.getpagesize() > weight.nbytes / 8
    assert copied == bool(limit)


def test_weights_are_handed_over_where_their_file_is_missing(parse, run, monkeypatch):
    nowhere = engine_models.WeightFolder("/nowhere", 0)
    monkeypatch.setattr(engine_models, "EMPTY", nowhere)
    model = parse(
        "g (float[64, 64] x, float[64, 64] w) => (float[64, 64] y) { y = Add(x, w) }", w=LARGE
    )
    np.testing.assert_array_equal(run(ENGINE, model, x=LARGE)["y"], LARGE * 2)


@each_of("limit", 1, 2)
def test_many_constants_are_not_held_against_each_other(parse, run, monkeypatch, limit):
    """ONNX Runtime took 66 s to open a session with 24,000 constants."""
    left_out = []

    def opened(proto, options, providers):
        with suppress(RuntimeError):
            entry = options.get_session_config_entry(ort._LEFT_OUT)
            left_out.append((entry, options.enable_mem_pattern))
        return open_session(proto, options, providers)

    monkeypatch.setattr(ort, "MANY_CONSTANTS", limit)
    monkeypatch.setattr(ort, "open_session", opened)
    text = "g (float[2] x, float[2] w) => (float[2] y) "
    model = parse(
        text + "{ v = Constant<value_floats = [1.0, 2.0]>() a = Add(x, w) y = Mul(a, v) }",
        w=np.ones(2, np.float32),
    )
    for optimization in ("none", "all"):
        engine = OnnxRuntimeEngine(optimization=optimization)
        y = run(engine, model, x=np.ones(2, np.float32))["y"]
        np.testing.assert_array_equal(y, np.float32([2, 4]))
    assert left_out == ([("ConstantSharing", False)] * 2 if limit == 1 else [])


INTEGERS = """<ir_version: 10, opset_import: ["" : 21]> g (float[2,64] x) => (float[2,64] y)
    <int8[64,64] v, int8[64,64] w, float s = {0.5}, int8 z = {0}> {
    a = DequantizeLinear(v, s, z)
    b = MatMul(x, a)
    c = QuantizeLinear(b, s, z)
    d = DequantizeLinear(c, s, z)
    e = DequantizeLinear(w, s, z)
    y = MatMul(d, e) }"""

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[2,64] x) => (float[2,64] y)
    <float[64,64] w> { a = Identity(x) y = MatMul(a, w) }"""


def write(path, text, **weights):
    model = onnx.parser.parse_model(text)
    for name, array in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=64)
    return path


@pytest.fixture
def in_files(tmp_path):
    return write(tmp_path / "model.onnx", TEXT, w=np.eye(64, dtype=np.float32))


@each_of(
    "limit, options, told",
    (64, {"prepacking": False}, True),
    (64, {"prepacking": True}, False),
    (64, {"prepacking": False, "optimization": "none"}, False),
    (1 << 20, {"prepacking": False}, False),
)
def test_says_what_is_left_out_for_large_weights(in_files, monkeypatch, limit, options, told):
    monkeypatch.setattr(engine_models, "LARGE", limit)
    engine = OnnxRuntimeEngine(**{"optimization": "all"} | options)
    assert bool(skipped_optimizations(engine, load_model(in_files).model)) == told


@each_of("limit, told", (0, True), (1, False))
def test_says_that_many_constants_are_not_compared(in_files, monkeypatch, limit, told):
    monkeypatch.setattr(ort, "MANY_CONSTANTS", limit)
    said = skipped_optimizations(
        OnnxRuntimeEngine(optimization="all"), load_model(in_files).model
    )
    assert ["equal constants" in note for note in said] == [True] * told


@each_of("prepacking, open_weights", (False, ["v"]), (True, []))
def test_weights_beside_floats_keep_a_layout(tmp_path, monkeypatch, prepacking, open_weights):
    monkeypatch.setattr(engine_models, "LARGE", 64)
    array = np.random.default_rng(0).integers(-8, 8, (64, 64), np.int8)
    path = write(tmp_path / "model.onnx", INTEGERS, v=array, w=array)
    opened = []
    monkeypatch.setattr(
        ort, "open_session", lambda *a: opened.append(open_session(*a)) or opened[0]
    )
    engine = OnnxRuntimeEngine(optimization="all", prepacking=prepacking)
    x = np.random.default_rng(1).integers(-2, 2, (2, 64)).astype(np.float32)
    y = outputs_of(engine, load_model(path).model, {"x": x})["y"]
    assert [value.name for value in opened[0].get_overridable_initializers()] == open_weights
    levels = np.clip(np.rint(x @ (array * np.float32(0.5)) / 0.5), -128, 127)
    np.testing.assert_allclose(
        y, levels * 0.5 @ (array * 0.5), rtol=0.02 if prepacking else 1e-6
    )
