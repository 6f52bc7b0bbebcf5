"""Models of other kinds through the search: QONNX, functions, bodies, external weights."""

import math

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.load import load_model
from onnx_passes.passes.registry import lookup
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.groups import BUILTIN, partition, prepare
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Task, save
from tests.tables import each_of

HEADER = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>'


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def listed(array):
    return ", ".join(map(repr, map(float, array.reshape(-1))))


def search(model, feeds, formats=("int8-weights",), limit=25.0, objective="bops"):
    prepared = prepare(model)
    return TuningSearch(
        Task(
            prepared,
            partition(prepared, list(formats), {}, 24),
            {name: BUILTIN[name] for name in ("float32", *formats)},
            OnnxRuntimeEngine(optimization="none"),
            objective,
            LossBudget({"snr": (limit, math.inf)}),
            [feeds],
            [feeds],
            score_all=True,
        )
    ).run()


def test_functions_are_tuned_in_place_of_their_calls():
    model = parse(
        f"""{HEADER} g (float[n,8] x) => (float[n,4] y)
        <float[8,8] w = {{{listed(numbers(8, 8))}}},
        float[8,4] v = {{{listed(numbers(8, 4))}}}>
        {{ h = own.Block(x, w) y = own.Block(h, v) }}
        <domain: "own", opset_import: ["" : 21]>
        Block (a, b) => (c) {{ m = MatMul(a, b) c = Relu(m) }}"""
    )
    result = search(model, {"x": numbers(20, 8, seed=1)})
    assert set(result.best.names.values()) == {"int8-weights"}
    assert len(result.best.names) == 2
    assert result.best.spent.holds


def test_a_quantised_network_of_qonnx_is_tuned():
    text = f"""<ir_version: 8, opset_import: ["" : 13, "qonnx.custom_op.general" : 1]>
        g (float[1,8] x) => (float[1,4] y)
        <float one = {{1}}, float zero = {{0}}, float four = {{4}}, float step = {{0.25}},
        float[8,8] w = {{{listed(numbers(8, 8))}}}, float[8,4] v = {{{listed(numbers(8, 4))}}}>
        {{
          a = qonnx.custom_op.general.Quant
            <narrow = 0, signed = 1, rounding_mode = "ROUND"> (x, step, zero, four)
          h = MatMul(a, w)
          r = Relu(h)
          y = MatMul(r, v)
        }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    for name in ("import-qonnx", "inline-qonnx"):
        (cls,) = lookup(name)
        cls().call(model)
    result = search(model, {"x": numbers(1, 8, seed=1)})
    assert set(result.best.names.values()) == {"int8-weights"}


@each_of("formats", ("int8-weights",), ("float16",), ("int4-gptq",))
def test_external_weights_stay_external(tmp_path, formats):
    model = parse(
        f"""{HEADER} g (float[n,64] x) => (float[n,64] y)
        <float[64,64] w = {{{listed(numbers(64, 64))}}},
        float[64,64] v = {{{listed(numbers(64, 64, seed=2))}}}>
        {{ h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) }}"""
    )
    source = tmp_path / "model.onnx"
    ir.save(model, source, external_data="model.data", size_threshold_bytes=0)
    loaded = load_model(source)
    result = search(loaded.model, {"x": numbers(20, 64, seed=1)}, formats, limit=5.0)
    assert set(result.best.names.values()) == set(formats)
    save(result, tmp_path / "out.onnx", loaded)
    onnx.checker.check_model(str(tmp_path / "out.onnx"))
    files = sum(p.stat().st_size for p in tmp_path.iterdir() if p.name.startswith("out"))
    assert files < 0.65 * (tmp_path / "model.data").stat().st_size


def test_a_reshape_in_front_of_a_layer_is_no_scale():
    # All columns have the same range, so that nothing is scaled.
    weight = np.sign(numbers(64, 64))
    model = parse(
        f"""{HEADER} g (float[n,2,64] x) => (float[m,64] y)
        <int64[2] shape = {{-1, 64}}, float[64,64] w = {{{listed(weight)}}}>
        {{ r = Reshape(x, shape) y = Gemm(r, w) }}"""
    )
    x = np.sign(numbers(20, 2, 64, seed=1))
    result = search(model, {"x": x}, ("int8-static-smooth",), objective="size")
    assert not [score.refused for score in result.scores if score.refused]
    assert set(result.best.names.values()) == {"int8-static-smooth"}
