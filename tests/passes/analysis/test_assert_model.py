import onnx_ir as ir
import pytest

from onnx_passes.cli.main import main
from onnx_passes.errors import OptionError, VerificationError
from onnx_passes.passes.analysis.assert_model import AssertModel
from onnx_passes.testing import assert_leaves_alone, parse
from tests.tables import each_of, each_row

MODEL = """(float[N,8] x) => (float[N,8] y) <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{ [first] t = Exp(x) [second] u = Mul(t, w) [third] y = Exp(u) }"""


def complaint(model=MODEL, **options):
    with pytest.raises(VerificationError) as caught:
        AssertModel(**options).analyse(parse(model) if isinstance(model, str) else model)
    assert caught.value.exit_code == 1
    return str(caught.value)


HOLD = {
    "max_nodes": 3,
    "max_parameters": 8,
    "max_size": 32,
    "max_flops": 72,
    "max_traffic": "1 KB",
    "max_peak_memory": "192",
    "max_op_counts": {"Exp": 2, "Conv": 0},
    "ops_absent": ["Loop"],
    "ops_present": ["Exp"],
    "ops_only": ["Exp", "Mul"],
    "min_opset": 20,
    "max_opset": 20,
    "ranges": {"t": [0, float("inf")]},
}


def test_all_of_it_holds_and_is_told():
    pass_ = AssertModel(**HOLD, static_shapes=True, dims={"N": 3})
    assert_leaves_alone(pass_, parse(MODEL))
    assert len(pass_.context.notes) == len(HOLD) + 2  # two operators are counted, and shapes


@each_of("name", "max_nodes", "max_parameters", "max_size", "max_flops")
def test_a_limit_holds_exactly_and_one_less_does_not(name):
    AssertModel(**{name: HOLD[name]}, dims={"N": 3}).analyse(parse(MODEL))
    text = complaint(**{name: HOLD[name] - 1}, dims={"N": 3})
    assert "1" in text.partition("at most")[2]
    assert "too many" in text


@each_row("""options | told
- ={'max_nodes': 1} | nodes: 3, at most 1: 2 too many (2 Exp, 1 Mul)
- ={'ops_absent': ['Exp']} | 2 nodes: Exp 'first', Exp 'third'
- ={'ops_only': ['Exp']} | Mul: is not among the operators allowed; 1 node: Mul 'second'
- ={'ops_present': ['Loop']} | Loop: must occur, and does not
- ={'max_op_counts': {'Exp': 1}} | Exp nodes: 2, at most 1: 1 too many
- ={'min_opset': 21} | opset: 20, at least 21
- ={'max_opset': 19} | opset: 20, at most 19
- ={'static_shapes': True} | 4 values have no fixed one: x[N,8]
- ={'max_parameters': 1} | largest: w 8
- ={'max_flops': '1 G'} | cannot be told
- ={'max_peak_memory': '1 GB'} | cannot be told
- ={'max_peak_memory': 100, 'dims': {'N': 3}} | at Exp 'first'
- ={'ranges': {'t': [0, 1]}} | range of t: in [0, inf], allowed [0, 1]
""")
def test_says_by_how_much_and_where(options, told):
    assert told in complaint(**options)


def test_what_is_too_much_without_what_is_not_known_is_too_much():
    model = "(float[8] x, float[N] z) => (float[8] y, float[N] w) { y = Exp(x) w = Exp(z) }"
    assert "operations: at least 8 FLOP, at most 7 FLOP" in complaint(model, max_flops=7)


def test_ranges_hold_for_what_is_said_of_inputs():
    model = "(float[2] x) => (float[2] y) { y = Neg(x) }"
    AssertModel(ranges={"y": [-1, 0]}, inputs={"x": [0, 1]}).analyse(parse(model))
    assert "allowed [-1, 0]" in complaint(model, ranges={"y": [-1, 0]})
    with pytest.raises(OptionError, match="no value 'z'"):
        AssertModel(ranges={"z": [0, 1]}).analyse(parse(model))


def test_a_misspelt_operator_is_not_absent():
    for option in ("ops_absent", "ops_present", "ops_only"):
        with pytest.raises(OptionError, match="did you mean 'Loop'"):
            AssertModel(**{option: ["Lop"]})
    with pytest.raises(OptionError, match="did you mean 'Loop'"):
        AssertModel(max_op_counts={"Lop": 0})
    assert "Exp 'first'" in complaint(ops_absent=["ai.onnx::Exp", "com.acme::Lop"])


@each_of(
    "options, told",
    ({"ranges": {"y": [1, 0]}}, "the least number, then the greatest"),
    ({"max_node": 3}, "did you mean 'max_nodes'"),
    ({"max_flops": "many"}, "such as 8.2 G"),
    ({"max_nodes": -1}, "greater than or equal to 0"),
    ({"max_size": "3 furlongs"}, "a size is a number"),
)
def test_bad_options_are_refused(options, told):
    with pytest.raises(OptionError, match=told):
        AssertModel(**options)


def test_asking_for_nothing_is_an_error():
    with pytest.raises(OptionError, match="asks for nothing"):
        AssertModel().analyse(parse(MODEL))
    with pytest.raises(OptionError, match="no input has a dimension"):
        AssertModel(max_flops=1, dims={"M": 1}).analyse(parse(MODEL))


@pytest.fixture
def run(tmp_path, capsys):
    def call(assertion, *settings):
        ir.save(parse(MODEL), tmp_path / "m.onnx")
        pipeline = tmp_path / "p.yaml"
        pipeline.write_text(
            f"passes:\n  - cost: {{dims: {{N: 2}}}}\n  - assert: {assertion}\n"
        )
        out, junit = tmp_path / "out.onnx", tmp_path / "junit.xml"
        arguments = ["-c", str(pipeline), "-o", str(out), *settings, str(tmp_path / "m.onnx")]
        reports = ["--junit", str(junit), "--json", str(tmp_path / "r.json")]
        with pytest.raises(SystemExit) as ended:
            main(["run", *reports, *arguments])
        text = capsys.readouterr()
        return ended.value.code, text.out + text.err, out, junit, tmp_path / "r.json"

    return call


def test_a_run_ends_with_exit_code_1_and_writes_nothing(run):
    code, text, out, junit, report = run("{max_nodes: 2}")
    assert code == 1
    assert "assertion failed: nodes: 3, at most 2: 1 too many (2 Exp, 1 Mul)" in text
    assert "p.yaml:3" in text
    assert not out.exists()
    assert "assert-model{max_nodes=2}" in junit.read_text()
    assert "assertion failed" in junit.read_text()
    assert "assertion failed" in report.read_text()


NETWORK = """<ir_version: 10, opset_import: ["" : 20, "onnx_passes.ops" : 1]> main
(float[N,4] x) => (float[N,4] y) <float[2] t = {0, 1}, float w = {1}, float[4,4] m = {
1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.3}>
{ a = onnx_passes.ops.MultiThreshold(x, t, w) BODY
  z = onnx_passes.ops.MultiThreshold(q, t, w) y = Mul(z, s) }"""


@each_of(
    "body, options",
    ("q = MatMul(a, m)", {}),
    ("p = MatMul(a, m) q = Relu(p)", {}),
    ("p = MatMul(a, m) n = Mul(p, s) q = Softmax(n)", {"floats": ["Softmax"]}),
    ("p = Unsqueeze(a, w1) n = GlobalAveragePool(p) q = Reshape(n, r)", {}),
)
def test_integers_between_thresholds(body, options):
    model = parse(
        NETWORK.replace("BODY", body).replace(
            "float s =", "int64[1] w1 = {2}, int64[2] r = {0, 4}, float s ="
        )
    )
    found = AssertModel(integers_between_thresholds=True, **options).analyse(model)
    assert found == ["integers between 2 thresholds"]


@each_of(
    "body, told",
    ("p = Mul(a, s) q = MatMul(p, m)", "not so of 2 nodes"),
    ("p = MatMul(a, m) q = Softmax(p)", "not so of 1 node"),
    ("p = MatMul(x, m) q = Mul(p, s)", ""),
)
def test_floats_between_thresholds(body, told):
    model = parse(NETWORK.replace("BODY", body))
    if told:
        assert told in complaint(model, integers_between_thresholds=True)
    else:  # nothing that a threshold makes reaches the second one
        AssertModel(integers_between_thresholds=True).analyse(model)


SUMS = """<ir_version: 10, opset_import: ["" : 20, "onnx_passes.ops" : 1]> main
(float[N,3] x) => (float[A,B] y) <float[3] t = {0, 1, 2}, float w = {1},
float[3,2] m = {1, -2, 3, -4, -5, 6}>
{ a = onnx_passes.ops.MultiThreshold(x, t, w) p = MatMul(a, m) y = Exp(p) }"""


@each_of("bits", 6, 7, 20)
def test_accumulators_that_hold_all_sums(bits):
    # Sums lie between -18 and 18: the second column is -2, -4 and 6, each times 0 to 3.
    found = AssertModel(accumulator_bits=bits).analyse(parse(SUMS))
    assert found == [f"sums of integers fit into INT{bits}"]


def test_a_sum_that_does_not_fit_is_shown_with_data_that_reaches_it():
    text = complaint(parse(SUMS), accumulator_bits=5)
    assert "MatMul" in text
    assert "reaches 18 in row 1 of its weights if that reads 0, 0, 3" in text
    assert "reaches -18 in row 1 of its weights if that reads 3, 3, 0" in text
