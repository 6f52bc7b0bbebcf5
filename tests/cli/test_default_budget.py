"""Passes that change numbers on purpose, at the first try."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from tests.tables import each_of, model_of


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.fixture
def network(tmp_path):
    """A classifier of two layers, its batch fixed to 1, opset 17."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        main (float[1, 16] x) => (float[1, 4] scores) {
            [first] a = MatMul(x, w1) [relu] b = Relu(a) [second] scores = MatMul(b, w2) }"""
    onnx.save(model_of(text, w1=normal(16, 64), w2=normal(64, 4)), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def samples(tmp_path):
    """A folder of samples, each a file."""
    folder = tmp_path / "calib"
    for index in range(6):
        (folder / f"test_data_set_{index}").mkdir(parents=True)
        tensor = numpy_helper.from_array(normal(6, 16)[index : index + 1], "x")
        (folder / f"test_data_set_{index}" / "input_0.pb").write_bytes(
            tensor.SerializeToString()
        )
    return folder


def weight_types(path):
    return {tensor.data_type for tensor in onnx.load(path).graph.initializer}


def metrics(path):
    checks = json.loads(Path(path).read_text())["passes"][-1]["checks"]
    return {m["name"]: m for check in checks for m in check["metrics"]}


@each_of(
    "words, stored",
    (["convert-float16"], "FLOAT16"),
    (["quantize-dynamic"], "INT8"),
    (["--precision", "float16"], "FLOAT16"),
    (["--precision", "int8"], "INT8"),
    (["-c", "optimize", "--precision", "float16"], "FLOAT16"),
)
def test_a_precision_works_without_a_budget_and_prints_one(cli, network, words, stored):
    done = cli("-o", "out.onnx", network, *words, "--json", "r.json")
    assert done.code == 0, done.err
    assert getattr(onnx.TensorProto, stored) in weight_types("out.onnx")
    assert (
        "as none is given: the cosine of each output and sample is at least 0.99" in done.err
    )
    assert metrics("r.json")["cosine"]["low"] == 0.99
    assert done.err.startswith("PARTLY VERIFIED")
    assert "numbers were held on made-up inputs; give --inputs" in done.err
    assert cli("-o", "out.onnx", network, *words, "--strict").code == 4


def test_an_output_of_one_number_is_held_by_its_error(cli):
    blocks = np.full((128, 32), 0.07, np.float32)  # under half a step of 4 bits
    blocks[:, 0] = 1
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[1,4096] x) => (float[1,1] y) { y = MatMul(x, w) }""")
    model.graph.initializer.append(numpy_helper.from_array(blocks.reshape(-1, 1), "w"))
    onnx.save(model, "one.onnx")
    np.savez("x.npz", x=np.ones((1, 4096), np.float32))
    words = "--inputs", "x.npz", "--precision", "int4", "--json", "r.json"
    cli("-o", "out.onnx", "one.onnx", *words).tells(1, "not in [10, inf]")
    assert metrics("r.json")["cosine"]["value"] == pytest.approx(1)
    assert "top_1_agreement" not in metrics("r.json")


@each_of(
    "given, others",
    ([], True),
    (["-c", "optimize"], True),
    (["-c", "cleanup"], False),
    (["fold-constants"], False),
)
def test_a_precision_runs_behind_what_is_given_or_optimize(cli, network, given, others):
    done = cli("-o", "out.onnx", network, *given, "--precision", "int8", "--json", "r.json")
    assert done.code == 0, done.err
    names = [done["name"] for done in json.loads(Path("r.json").read_text())["passes"]]
    assert names[-1] == "quantize-dynamic"
    assert ("inline-functions" in names) == others
    assert len(names) > 1


@each_of("words", ["quantize-static"], ["--precision", "int8-static"])
def test_calibration_is_one_option(cli, network, samples, words):
    done = cli("-o", "out.onnx", network, *words, "--calib", samples, "--json", "r.json")
    assert done.code == 0, done.err
    assert onnx.TensorProto.INT8 in weight_types("out.onnx")
    assert metrics("r.json")["top_1_agreement"]["low"] == 0.99
    assert "the largest class is the same in 99% of the rows" in done.err


def test_what_overflows_on_made_up_inputs_has_a_way_on(cli, network):
    words = ["--precision", "int8", "--metric", "cosine=0.9999999:"]
    done = cli("-o", "out.onnx", network, *words, "-s", "reproducers=false")
    assert done.code == 1
    ways = done.err[done.err.index("  try ") :]
    assert "--inputs FILE measures on your data" in ways.splitlines()[0]


@each_of("form", "npy", "npz", "folder")
def test_arrays_of_many_samples_are_split_for_a_fixed_batch(cli, network, form):
    array = normal(6, 16)
    Path("data").mkdir()
    np.save("data/a.npy", array[:2])
    np.save("data/b.npy", array[2:])
    np.save("all.npy", array)
    np.savez("all.npz", x=array)
    path = "data" if form == "folder" else f"all.{form}"
    done = cli(
        "-o", "out.onnx", network, "quantize-static", "--calib", path, "--json", "r.json"
    )
    assert done.code == 0, done.err
    assert done.err.startswith("VERIFIED")
    assert json.loads(Path("r.json").read_text())["reference"]["samples"] == 6


def test_labels_are_split_with_their_inputs(cli, network):
    np.save("all.npy", normal(6, 16))
    np.save("labels.npy", np.array([0, 1, 2, 3, 0, 1]))
    given = ["--inputs", "all.npy", "--labels", "labels.npy", "--metric", "accuracy=0:1"]
    done = cli("-o", "out.onnx", network, "--precision", "float16", *given, "--json", "r.json")
    assert done.code == 0, done.err
    np.save("labels.npy", np.array([0, 1, 2, 3, 0]))
    cli("-o", "out.onnx", network, "--precision", "float16", *given).tells(2)


def test_what_a_metric_allows_is_not_called_equal(cli, network):
    done = cli("-o", "out.onnx", network, "--precision", "int8", "--json", "r.json")
    value = metrics("r.json")["cosine"]["value"]
    assert value < 1
    assert f"cosine {value:.6g}" in done.err
    assert "outputs equal" not in done.err
    assert "outputs within" not in done.err


BY_NAME, BY_OPTION = ["quantize-weights{weights=int4,block=32}"], ["--precision", "int4"]


@each_of("words", BY_NAME, BY_OPTION, ids=["pass", "option"])
def test_an_opset_that_a_pass_needs_is_raised_and_told(cli, network, words):
    done = cli("-o", "out.onnx", network, *words, "--json", "r.json")
    assert done.code == 0, done.err
    assert onnx.load("out.onnx").opset_import[0].version == 21
    assert onnx.TensorProto.INT4 in weight_types("out.onnx")
    assert metrics("r.json")["cosine"]["low"] == 0.95
    assert "note: quantize-weights needs opset 21: raise-opset ran before it" in done.err
    passes = [done["name"] for done in json.loads(Path("r.json").read_text())["passes"]]
    assert passes[-2:] == ["raise-opset", passes[-1]]
    assert passes[-1].startswith("quantize-weights")


@each_of(
    "words, lacks",
    (["quantize-static"], "no Conv, Gemm or MatMul"),
    (["quantize-dynamic"], "no MatMul or Gemm by a constant of 1024 or more"),
    (["quantize-weights"], "no Conv, Gemm or MatMul by a constant of 1024 or more"),
    (["convert-float16"], "no float32 node that float16 can compute"),
)
def test_a_model_with_nothing_to_convert_is_told_plainly(cli, write, words, lacks):
    text = """<ir_version: 10, opset_import: ["" : 17]>
    main (int64[2] x) => (int64[2] y) { y = Add(x, x) }"""
    onnx.save(onnx.parser.parse_model(text), "integers.onnx")
    done = cli("-o", "out.onnx", "integers.onnx", *words)
    done.tells(0, f"note: {words[0]}: nothing to convert: the model has {lacks}")


def test_sums_that_overflow_on_the_inputs_of_the_check_stay_in_float32(cli, write):
    text = """<ir_version: 10, opset_import: ["" : 17]>
    main (float[1,4] x) => (float[1,4] y) <float[1] big = {400}, float[1] small = {0.001}>
    { a = Mul(x, big) s = Mul(a, a) t = Exp(x) u = Add(s, t) v = Sqrt(u) y = Mul(v, small) }"""
    onnx.save(onnx.parser.parse_model(text), "squares.onnx")
    done = cli("-o", "out.onnx", "squares.onnx", "convert-float16", "-v")
    done.tells(0, "kept, whose values overflow in float16")
    assert onnx.TensorProto.FLOAT16 in weight_types("out.onnx")


def test_outputs_that_are_no_floats_have_no_budget(cli, write):
    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[2,16] x) => (int64[2,1] y)
    <float[16,64] w = {W}> { a = MatMul(x, w) b = Relu(a) y = ArgMax<axis = 1>(b) }"""
    write("net.onnxtxt", text.replace("W", ", ".join(map(str, normal(1024).tolist()))))
    done = cli("net.onnxtxt", "convert-float16", "-o", "out.onnx")
    assert "NOT VERIFIED" in done.err or "PARTLY VERIFIED" in done.err
    assert "no output is of floats" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("seq(float[N,2])", "SequenceConstruct(p)"),
        ("string[N]", "ai.onnx.ml.LabelEncoder<keys_int64s=[0], values_strings=['a']>(k)"),
    ],
)
def test_neither_sequences_nor_maps_have_a_budget(cli, kind, call):
    """The cosine of each was NaN, and the model was refused."""
    call = call.replace("'", '"')
    text = f"""<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
    main (float[N,2] x) => ({kind} y, float[N] m)
    {{ p = Softmax(x) k = ArgMax<axis=1, keepdims=0>(x) y = {call}
    m = ai.onnx.ml.ZipMap<classlabels_strings=["a", "b"]>(p) }}"""
    model = onnx.parser.parse_model(text)
    maps = model.graph.output[1].type.sequence_type.elem_type.map_type
    maps.key_type, maps.value_type.tensor_type.elem_type = 8, 1
    onnx.save(model, "classifier.onnx")
    done = cli("classifier.onnx", "quantize-weights", "-o", "out.onnx")
    done.tells(0, "no output is of floats")


def test_a_metric_is_not_asked_of_an_engine_that_refuses_the_original(cli, network):
    """onnx admits two nodes of one name, and ONNX Runtime refuses: another one is asked."""
    model = onnx.load(network)
    for node in model.graph.node:
        node.name = "n"
    onnx.save(model, network)
    found = cli("--precision", "int8", "-o", "out.onnx", network)
    assert found.code == 0, found.err
    assert "reference stands in for it" in found.err
