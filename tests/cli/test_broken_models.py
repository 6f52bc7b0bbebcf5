"""Models that break the rules of ONNX are refused; what engines run is not."""

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_passes.runtime.inputs import dimensions
from tests.cli.modules import read_json
from tests.tables import each_of

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
main (float[N,2] a, float[N,2] b) => (float[N,2] y) {
  s = Add(a, b) i = Identity(s) y = Relu(i)
}"""


@pytest.fixture
def saved(tmp_path):
    """Write a model; ``change`` breaks it first."""

    def put(text=TEXT, change=None):
        model = onnx.parser.parse_model(text)
        if change is not None:
            change(model)
        path = tmp_path / "broken.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return put


def untyped(model):
    model.graph.output[0].ClearField("type")


def unranked(model):
    model.graph.output[0].type.tensor_type.ClearField("shape")


def elementless(model):
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.elem_type = 0


def opset_999(model):
    model.opset_import[0].version = 999


def output_of_integers(model):
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64


def negative_inputs(model):
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
        value.type.tensor_type.shape.dim[0].dim_value = -1


@each_of("change", untyped, unranked, elementless)
@each_of("preset", "cleanup", "optimize")
def test_an_output_without_a_type_or_rank_is_verified(cli, saved, change, preset):
    done = cli("-c", preset, "-o", "o.onnx", saved(change=change))
    done.tells(0, "VERIFIED")
    assert ("float[N,2] is inferred" in done.err) == (change is not unranked)
    output = onnx.load("o.onnx").graph.output[0]
    assert output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@each_of(
    "change, said",
    (opset_999, "imports opset 999 of ai.onnx, and onnx"),
    (output_of_integers, "computes 'y': Inferred elem type differs from existing elem "),
)
def test_a_broken_model_is_refused_with_the_place(cli, saved, change, said):
    path = saved(change=change)
    cli("-c", "cleanup", "-o", "o.onnx", path).tells(3, said, "--allow-invalid", str(path))


@each_of("change", opset_999, output_of_integers)
def test_a_broken_model_is_accepted_on_request_with_a_note(cli, saved, change):
    words = ["-c", "cleanup", "-o", "o.onnx", "--json", "r.json", "--allow-invalid"]
    cli(*words, saved(change=change)).tells(0)
    notes = read_json("r.json")["notes"]
    assert any(note.startswith("the original is not valid ONNX: ") for note in notes)


@each_of("node", "y = Relu<alpha = 1.0>(x)", "y = Add(x, n)", "y = Relu(x, x)")
def test_a_node_that_onnx_does_not_know_is_refused(cli, saved, node):
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    main (float[4] x, int64[4] n) => (float[4] y) {{ {node} }}"""
    done = cli("-c", "cleanup", "-o", "o.onnx", saved(text))
    done.tells(3, "the model is not valid ONNX", "'y'")


@each_of("domain", "qonnx.custom_op.general", "onnx.brevitas", "finn.x", "u")
@each_of("imported", True, False)
def test_custom_domains_are_not_broken(cli, saved, domain, imported):
    text = f"""<ir_version: 10, opset_import: ["" : 20, "{domain}" : 1]>
    main (float[4] x) => (float[4] y) {{ y = {domain}.Quant(x) }}"""

    def change(model):
        if not imported:
            del model.opset_import[1]

    cli("-o", "o.onnx", saved(text, change), "eliminate-identity").tells(0)


def input_without_rank(model):
    model.graph.input[0].type.tensor_type.ClearField("shape")


def negative_output(model):
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = -1


def training(model):
    found = model.training_info.add()
    found.algorithm.name = "a"
    found.algorithm.node.add(op_type="Identity", input=["a"], output=["g"])


STEP = "(int64 i, bool c, float[2] s) => (bool g, float[2] t, float[2] t)"
LOOPS = f"""main (int64 n, float[2] x, bool b) => (float[2] y, float[K,2] z) {{
  a = Identity(x) y, z = If(b) <then_branch = p () => (float[2] q, float[k,2] r) {{
    q, r = Loop(n, , a) <body = d {STEP} {{ t = Add(s, x) g = Identity(c) }}> }},
  else_branch = e () => (float[2] q, float[k,2] r) {{
    q, r = Loop(n, , a) <body = d {STEP} {{ t = Sub(s, x) g = Identity(c) }}> }}> }}"""
FALSE_SIZE = """main (int64 n, float[B,5] x) => (float[p,q] o, float[r,s,t] v) {
  a = Identity(x) y, z = Loop(n, , a) <body = b (int64 i, bool c, float[1,5] s) =>
  (bool d, float[1,5] t, float[1,5] u) { t = Relu(s) u = Abs(t) d = Identity(c) }>
  o = Abs(y) v = Abs(z) }"""
FALSE_RANK = """main (float[N,M,3] x) => (float[a,b,c] y) <float[4] t> {
  t = Relu(x) u = Transpose(t) v = Identity(u) y = Neg(v) }"""
GELU = "main (float[N,4] x) => (float[N,4] y) { i = Identity(x) y = com.microsoft.Gelu(i) }"
LAYER = """main (float[N,4] x, float[4] s) => (float[N,4] y) { i = Identity(x)
  y = SimplifiedLayerNormalization<axis = -1, epsilon = 0.1>(i, s) }"""
UNKNOWN = "main (float[4] x) => (float[4] y) { a = Identity(x) y = Reluu(a) }"
LARGE = "main (float[10,7,3] x) => (float[N,M,K] y) <float[10,2147483648,3] z> "
LARGE += "{ z = Relu(x) y = Relu(z) }"
FALSE_RESULT = """main (float[1,K,4] z, float[2,5] x) => (float[a,b,c] o, float[3,5] y)
  <float[3,1,1] w = {1, 2, 3}> { i = Identity(z) c = Conv<group = 3>(i, w) o = Relu(c)
  y = Softmax(x) }"""
INVALID = "the original is not valid ONNX"


@each_of(
    "told, text, change",
    ("VERIFIED", GELU, untyped),
    ("No Op registered for SimplifiedLayerNormalization", LAYER, None),
    ("not verified: no engine runs Reluu", UNKNOWN, None),
    (INVALID, TEXT.replace("(float[N,2] y)", "(float[3,3,3] y)"), None),
    ("VERIFIED", TEXT, input_without_rank),
    ("read as dynamic dimensions: y[1]", TEXT, negative_output),
    ("training_info is dropped", TEXT, training),
    ("VERIFIED", LOOPS, None),
    ("VERIFIED", FALSE_SIZE, None),
    ("VERIFIED", FALSE_SIZE.replace("B,5", "2,5"), None),
    ("VERIFIED", FALSE_RANK, None),
    (INVALID, LARGE, None),
    (INVALID, FALSE_RESULT, None),
)
def test_what_an_engine_runs_is_verified_with_a_note(cli, saved, told, text, change):
    """No pass is blamed for what the original declares, and no memory estimated from it."""
    if not text.startswith("<"):
        text = f'<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> {text}'
    done = cli("-c", "optimize", "-o", "o.onnx", saved(text, change))
    done.tells(0, told)
    assert done.err.startswith("VERIFIED") or "Reluu" in text


@each_of("preset", "cleanup", "optimize-ort")
def test_a_negative_size_is_a_dynamic_dimension_and_a_note(cli, saved, preset):
    done = cli("-c", preset, "-o", "o.onnx", saved(change=negative_inputs))
    done.tells(0, "VERIFIED")
    assert done.err.count("negative sizes are read as dynamic dimensions: a[0], b[0]") == 1
    written = onnx.load("o.onnx").graph
    for value in (*written.input, *written.output):
        assert value.type.tensor_type.shape.dim[0].dim_value == -1


@each_of(
    "words",
    ("inspect",),
    ("sanitize", "-o", "o.onnx", "--cleanup", "--fold-constants"),
    ("sanitize", "-o", "o.onnx", "--override-input-shapes", "a:[n,2]", "b:[n,2]"),
    ("extract", "-o", "o.onnx", "--outputs", "y"),
    ("view", "-o", "v.html"),
)
def test_commands_read_a_negative_size_so(cli, saved, words):
    done = cli(words[0], saved(change=negative_inputs), *words[1:])
    assert done.code == 0, done.err
    assert done.err.count("negative sizes are read as dynamic dimensions: a[0], b[0]") == 1


@each_of("dims", "1099511627776,1099511627776", "N,68719476736")
def test_inputs_that_fit_no_memory_are_one_error(cli, saved, dims):
    done = cli("-c", "cleanup", "-o", "o.onnx", saved(TEXT.replace("N,2", dims)))
    done.tells(3, "the inputs of the model take")
    for way in ("--no-verify", "reference.dims", "--inputs"):
        assert way in done.err


def test_smaller_sizes_are_taken_where_the_usual_ones_do_not_fit(cli, saved, monkeypatch):
    monkeypatch.setattr(dimensions, "machine_memory", lambda: 16384)
    text = TEXT.replace("N,2", "N,200")
    cli("-c", "cleanup", "-o", "o.onnx", "--json", "r.json", saved(text)).tells(0)
    assert read_json("r.json")["reference"]["inputs"]["a"].startswith("float32[1,200]")


def test_reference_data_are_not_estimated(cli, saved, monkeypatch, tmp_path):
    monkeypatch.setattr(dimensions, "machine_memory", lambda: 64)
    np.savez(tmp_path / "in.npz", a=np.ones((50, 2), "f4"), b=np.ones((50, 2), "f4"))
    cli("-c", "cleanup", "-o", "o.onnx", "-s", "reference.inputs=in.npz", saved()).tells(0)
