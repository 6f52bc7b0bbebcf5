import numpy as np
import onnx.parser
import onnx_ir as ir
from onnx import parser

from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.tables import each_of, outputs_of

DRAWN = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
PARAMETERS = "float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v"
FEEDS = {"x": DRAWN, **{name: abs(DRAWN[0, :, 0]) for name in "sbmv"}}


def run(engine, opset, text, feeds=FEEDS):
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}'
    model = ir.from_proto(parser.parse_model(text))
    return next(iter(outputs_of(engine_from_config(engine, {}), model, feeds).values()))


def compare_with_ort(opset, text, feeds=FEEDS):
    found = [run(engine, opset, text, feeds) for engine in ("reference", "onnxruntime")]
    np.testing.assert_allclose(*found, rtol=1e-4, strict=True)


@each_of("opset", 7, 11, 13)
@each_of("axis", "", "<axis = 0>", "<axis = 2>")
@each_of("operator", "Softmax", "LogSoftmax", "Hardmax")
def test_rows_are_those_of_the_version(operator, axis, opset):
    text = f"(float[2,3,4] x) => (float[2,3,4] y) {{ y = {operator}{axis}(x) }}"
    compare_with_ort(opset, text, {"x": DRAWN})


@each_of("operator", "Softmax", "LogSoftmax", "Hardmax")
def test_nothing_stays_nothing(operator):
    text = f"(float[0,3] x) => (float[0,3] y) {{ y = {operator}(x) }}"
    assert run("reference", 13, text, {"x": np.zeros((0, 3), np.float32)}).shape == (0, 3)


@each_of("opset", 7, 9, 14, 15)
def test_a_normalization_reads_its_statistics(opset):
    text = f"({PARAMETERS}) => (float[2,3,4] y) {{ y = BatchNormalization(x, s, b, m, v) }}"
    compare_with_ort(opset, text)


@each_of("opset", 1, 6)
@each_of("trains", False, True)
def test_a_normalization_trains_if_it_is_not_a_test(trains, opset):
    last = ", consumed_inputs = [0, 0, 0, 1, 1]" if opset == 1 else ""
    call = f"BatchNormalization<is_test = {int(not trains)}{last}>(x, s, b, m, v)"
    found = run("reference", opset, f"({PARAMETERS}) => (float[2,3,4] y) {{ y = {call} }}")
    scale = FEEDS["s"].reshape(1, 3, 1)
    mean, var = (DRAWN.mean((0, 2)), DRAWN.var((0, 2))) if trains else (FEEDS["m"], FEEDS["v"])
    deviation = np.sqrt(var.reshape(1, 3, 1) + 1e-5)
    expected = scale * (DRAWN - mean.reshape(1, 3, 1)) / deviation + scale
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_statistics_of_training_follow_those_of_the_batch():
    text = f"""({PARAMETERS}) => (float[3] n) {{
        y, n, w = BatchNormalization<training_mode = 1, momentum = 0.25>(x, s, b, m, v) }}"""
    expected = 0.25 * FEEDS["m"] + 0.75 * DRAWN.mean((0, 2))
    np.testing.assert_allclose(run("reference", 15, text), expected, rtol=1e-5)


@each_of("opset", 10, 16)
def test_regions_lie_where_their_version_puts_them(opset):
    text = """(float[1,1,6,6] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y)
        { y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, r, i) }"""
    x, regions = np.arange(36, dtype=np.float32) ** 2, np.float32([[1, 1, 4, 4]])
    feeds = {"x": x.reshape(1, 1, 6, 6), "r": regions, "i": np.zeros(1, np.int64)}
    compare_with_ort(opset, text, feeds)


@each_of(
    "operator, function",
    *(("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)),
    *(("Pow", np.power), ("Less", np.less), ("Greater", np.greater)),
)
def test_an_operand_is_broadcast_from_an_axis_on(operator, function):
    x, y = abs(DRAWN), abs(DRAWN[0, :, 0])
    kind = "bool" if operator in ("Less", "Greater") else "float"
    head = f"(float[2,3,4] x, float[3] y) => ({kind}[2,3,4] z)"
    text = f"{head} {{ z = {operator}<broadcast = 1, axis = 1>(x, y) }}"
    found = run("reference", 1, text, {"x": x, "y": y})
    np.testing.assert_allclose(found, function(x, y.reshape(3, 1)), rtol=1e-6)


@each_of("opset", 1, 6)
def test_slopes_are_those_of_channels(opset):
    x, slopes = DRAWN.reshape(1, 2, 4, 3)[:, :, :2, :2], np.float32([2, 3])
    last = "<consumed_inputs = [0, 0]>" if opset == 1 else ""
    text = f"""(float[1,2,2,2] x, float[2] s) => (float[1,2,2,2] y)
        {{ y = PRelu{last}(x, s) }}"""
    expected = np.where(x < 0, x * slopes.reshape(2, 1, 1), x)
    found = run("reference", opset, text, {"x": x, "s": slopes})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


MODEL = """
<ir_version: 8, opset_import: ["": {opset}]>
agraph (int64 n, bool going, float{shape} x, float outer)
    => (float{shape} last, float{stacked} all, int64[T] counts) {{
  last, all, counts = Loop (n, going, x) <body = body (int64 i, bool c, float{shape} v)
      => (bool again, float{shape} w, float{shape} scan, int64 number) {{
    one = Constant <value_int = 3> ()
    again = Less (i, one)
    w = Add (v, outer)
    scan = Mul (v, outer)
    number = Identity (i)
  }}>
}}
"""


def run_reference_loop(engine, shape, iterations, going=True, opset=13):
    stacked = "[T]" if shape == () else f"[T,{','.join(map(str, shape))}]"
    spelled = f"[{','.join(map(str, shape))}]" if shape else ""
    text = MODEL.format(shape=spelled, stacked=stacked, opset=opset)
    model = ir.from_proto(onnx.parser.parse_model(text))
    feeds = {
        "n": np.array(iterations),
        "going": np.array(going),
        "x": np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape),
        "outer": np.array(2, np.float32),
    }
    return outputs_of(engine, model, feeds)


@each_of("shape", (), (3,), (2, 3), (2, 1, 3))
@each_of("iterations", 0, 1, 3, 9)
@each_of("going", True, False)
def test_what_iterations_scan_is_stacked(shape, iterations, going):
    expected, found = (
        run_reference_loop(engine, shape, iterations, going)
        for engine in (OnnxRuntimeEngine(), ReferenceEngine())
    )
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


@each_of("declared", "[2,3]", "[a,3]", "[]")
def test_what_no_iteration_stacks_has_the_shape_that_is_inferred(declared):
    text = MODEL.format(shape="[2,3]", stacked="[T,2,3]", opset=13)
    model = onnx.parser.parse_model(text.replace("float[2,3] scan", f"float{declared} scan"))
    (loop,) = model.graph.node
    scan = loop.attribute[0].g.output[2].type.tensor_type
    if declared == "[]":
        scan.ClearField("shape")
    feeds = {"n": np.array(0), "going": np.array(True), "x": np.ones((2, 3), "f4")}
    feeds["outer"] = np.array(2, "f4")
    for engine in (OnnxRuntimeEngine(), ReferenceEngine()):
        with engine.prepare(ir.from_proto(model)) as session:
            assert session.run(feeds)["all"].shape == (0, 2, 3)


@each_of(
    "opset, scale, zero, axis",
    *((opset, "float s = {0.1}", "uint8 z = {3}", "") for opset in (10, 13, 18, 21)),
    (13, "float[2] s = {0.1, 2}", "int8[2] z = {3, -4}", "<axis = 0>"),
)
def test_quantisers_of_every_opset(opset, scale, zero, axis):
    text = f"""(float[2,3] x) => (float[2,3] y) <{scale}, {zero}>
    {{ q = QuantizeLinear{axis}(x, s, z) y = DequantizeLinear{axis}(q, s, z) }}"""
    compare_with_ort(opset, text, {"x": np.float32([[1.04, -5, 99], [0.5, 3, -7]])})
