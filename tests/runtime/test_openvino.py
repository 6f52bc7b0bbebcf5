"""What OpenVINO gives, what it refuses, and that it does not compute otherwise unseen."""

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import (
    ConfigError,
    EngineCrashedError,
    EngineError,
    UnsupportedModelError,
)
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.isolated import IsolatedEngine, end_children
from onnx_passes.runtime.openvino import OpenVinoEngine, load_openvino
from tests.tables import each_of, each_row, outputs_of

pytest.importorskip("openvino", reason="openvino is missing: pip install -e '.[openvino]'")

ADD = "g (float[N,4] x) => (float[N,4] y) <float[4] w={1,2,3,4}> { y = Add(x, w) }"
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def model(text, opset=21):
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


def run(text, feeds, **options):
    return outputs_of(OpenVinoEngine(**options), model(text), feeds)


def capabilities():
    _, core = load_openvino()
    return core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def test_weights_are_read_where_they_lie():
    weight = np.arange(4096, dtype=np.float32)
    given = model("g (float[4096] x) => (float[4096] y) <float w = {0}> { y = Add(x, w) }")
    given.graph.initializers["w"].const_value = ir.tensor(weight)
    found = outputs_of(OpenVinoEngine(), given, {"x": np.ones(4096, np.float32)})["y"]
    np.testing.assert_array_equal(found, weight + 1)


def test_an_input_with_a_default_takes_another_value():
    text = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w={10,20}> { y = Add(x, w) }"
    with OpenVinoEngine().prepare(model(text)) as session:
        default = session.run({"x": np.float32([1, 2])})["y"]
        given = session.run({"x": np.float32([1, 2]), "w": np.float32([0, 0])})["y"]
        again = session.run({"x": np.float32([1, 2])})["y"]
    assert list(default) == list(again) == [11, 22]
    assert list(given) == [1, 2]


def test_an_input_without_a_rank_is_refused():
    given = model("g (float[] x) => (float[] y) { y = Neg(x) }")
    given.graph.inputs[0].shape = given.graph.outputs[0].shape = None
    with (
        pytest.raises(UnsupportedModelError, match="'x' is an input without a rank"),
        OpenVinoEngine().prepare(given),
    ):
        pass


def test_values_inside_that_are_one_value_are_outputs_all_the_same():
    text = "g (float[2] x) => (float[2] a, float[2] b, float[2] y)"
    found = run(
        text + "{ a = Neg(x) b = Identity(a) y = Relu(b) }", {"x": np.float32([1, -2])}
    )
    assert [list(value) for value in found.values()] == [[-1, 2], [-1, 2], [0, 2]]


@each_of("kind", "bfloat16", "float8_e4m3fn", "float16", "int8", "bool")
def test_element_types_come_and_go(kind):
    spelled = kind.replace("_", "")
    dtype = getattr(ml_dtypes, kind, None) or np.dtype(kind)
    text = f"g ({spelled}[2] x) => ({spelled}[2] y) {{ y = Identity(x) }}"
    given = np.array([1, 0]).astype(dtype)
    found = run(text, {"x": given})["y"]
    assert found.dtype == dtype
    assert found.tobytes() == given.tobytes()


def test_it_computes_in_float32_unless_asked():
    text = "g (float[64,64] a, float[64,64] b) => (float[64,64] c) { c = MatMul(a, b) }"
    rng = np.random.default_rng(0)
    feeds = {name: rng.random((64, 64), np.float32) for name in "ab"}
    exact = feeds["a"].astype(np.float64) @ feeds["b"]
    assert np.abs(run(text, feeds)["c"] - exact).max() < 1e-4
    if "BF16" not in capabilities():
        with pytest.raises(UnsupportedModelError, match="computes in f32, not in bf16"):
            run(text, feeds, precision="bf16")
    else:
        assert np.abs(run(text, feeds, precision="bf16")["c"] - exact).max() > 1e-2


def test_a_precision_that_the_device_replaces_by_another_is_refused():
    if "FP16" in capabilities():
        pytest.skip("this processor computes in float16")
    with pytest.raises(UnsupportedModelError, match="not in f16") as refused:
        run(ADD, {"x": X}, precision="f16")
    assert "precision=" in str(refused.value.help)


@each_row("""text | told
1: g (double[2] x) => (double[2] y) { y = Neg(x) } | float64 in float32
2: g (float[2] x) => (float[2] y) { a = Cast<to=11>(x) y = Cast<to=1>(a) } | float64 in float32
3: g (string[2] x) => (string[2] y) { y = Identity(x) } | strings are not run
4: g (int4[2] x) => (float[2] y) { y = Cast<to=1>(x) } | 'x' is int4
5: g (seq(float[2]) x) => (float[2] y) { y = ConcatFromSequence<axis=0>(x) } | tensor
6: g (float[2] x) => (float[2] y) { y = Nothing(x) } | no conversion for Nothing
7: g (float[2] x) => (float[2] y) { y = Dropout(x) } | drops inputs or outputs
""")
def test_what_it_does_not_run_is_refused(text, told):
    with (
        pytest.raises(UnsupportedModelError, match=told),
        OpenVinoEngine().prepare(model(text)),
    ):
        pass


def test_a_refusal_names_the_node_and_not_the_source_of_openvino():
    text = """g (float[1,1,4,4] x, float[8] roi, float[4] s) => (float[1,1,2,2] y)
        { y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, roi, s) }"""
    with (
        pytest.raises(UnsupportedModelError) as refused,
        OpenVinoEngine().prepare(model(text)),
    ):
        pass
    assert refused.value.message.startswith("tf_crop_and_resize")
    assert ".cpp" not in refused.value.message
    assert refused.value.where == "  --> node y (Resize)"


@each_of("value", 2**31, -(2**31) - 1, 2**40)
def test_integers_of_more_than_32_bits_are_refused(value):
    text = "g (int64[2] x) => (int64[2] y) { y = Neg(x) }"
    with pytest.raises(EngineError, match=f"holds {value}, and OpenVINO computes int64 in"):
        run(text, {"x": np.array([1, value])})
    assert list(run(text, {"x": np.array([1, 2**31 - 1])})["y"]) == [-1, 1 - 2**31]


def test_two_sessions_of_random_operators_draw_the_same():
    text = "g (float[8] x) => (float[8] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    feeds = {"x": np.zeros(8, np.float32)}
    one, two = run(text, feeds)["y"], run(text, feeds)["y"]
    assert np.abs(one).max() > 0
    np.testing.assert_array_equal(one, two)
    assert (run(text, feeds, seed=1)["y"] != one).any()


def test_a_crash_is_an_error_because_it_runs_in_a_child():
    engine = engine_from_config("openvino")
    assert isinstance(engine, IsolatedEngine)
    # Sizes that do not broadcast: OpenVINO 2026.4 writes where it may not.
    sizes = "g (float[N] x, float[M] z) => (float[K] y) { y = Add(x, z) }"
    feeds = {"x": np.ones(2, np.float32), "z": np.ones(3, np.float32)}

    def crash():
        for _ in range(50):
            with engine.prepare(model(sizes)) as session:
                session.run(feeds)

    try:
        with pytest.raises(EngineError) as failure:
            crash()
        if not isinstance(failure.value, EngineCrashedError):
            pytest.skip(f"this OpenVINO says what is wrong: {failure.value.message}")
        with engine.prepare(model(ADD)) as session:
            np.testing.assert_array_equal(session.run({"x": X})["y"], X + np.arange(1, 5))
    finally:
        end_children()


def test_the_name_and_the_description_tell_what_changes_numbers():
    engine = OpenVinoEngine()
    assert engine.name == "openvino"
    told = engine.describe()
    assert (told["engine"], told["device"], told["precision"]) == ("openvino", "CPU", "f32")
    options = {"precision": "bf16", "threads": 2, "isolate": False}
    other = engine_from_config("openvino", options)
    assert other.name == "openvino[precision=bf16, threads=2]"


@each_of(
    "options, told",
    ({"device": "AUTO"}, "chooses devices unseen"),
    ({"device": "HETERO:GPU,CPU"}, "chooses devices unseen"),
    ({"precision": "fp32"}, "precision cannot be 'fp32'"),
    ({"threads": -1}, "at least 0"),
    ({"thread": 1}, "no option 'thread'"),
    ({"properties": {"A": "1"}}, "no option 'properties'"),
)
def test_an_option_that_does_not_fit_is_refused(options, told):
    with pytest.raises(ConfigError, match=told):
        engine_from_config("openvino", options)
