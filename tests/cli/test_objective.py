"""``--objective``: rewrites that do not always pay are measured, and undone if they do not."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.tables import each_of

MODULE = '''
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation


@passes.verify.equality
@passes.register()
class RewriteAbs(Transformation, RewriteRulePass):
    """Drop Abs behind Relu, and write others in two nodes."""

    always_pays = False

    def pattern(self, op, x):
        return op.Abs(x)

    def rewrite(self, op, x):
        above = x.producer()
        return x if above is not None and above.op_type == "Relu" else op.Max(x, op.Neg(x))


@passes.verify.equality
@passes.register()
class SlowDown(Transformation, RewriteRulePass):
    """Compute the absolute value twelve times."""

    always_pays = False

    def pattern(self, op, x):
        return op.Neg(x)

    def rewrite(self, op, x):
        for _ in range(12):
            x = op.Abs(x)
        return op.Sub(op.Constant(value_float=0.0), x)
'''
ABS = """<ir_version: 10, opset_import: ["": 20]>
main (float[4] a, float[4] b) => (float[4] y)
{ r = Relu(a) p = Abs(r) q = Abs(b) y = Add(p, q) }"""
NEGATIVE = """<ir_version: 10, opset_import: ["": 20]>
main (float[64,256,256] a) => (float[64,256,256] y)
{ p = Abs(a) q = Neg(p) y = Relu(q) }"""
LAYER = """<ir_version: 10, opset_import: ["": 17]>
main (float[2,8,16] x, float[2,8,16] y, float[4,16] r) => (float[2,8,16] n, float[4,16] z)
{
    t = Add(x, y)
    n = LayerNormalization(t, s)
    m = MatMul(r, w)
    g = Add(m, b)
    z = Tanh(g)
}"""

WEIGHTS = [("s", 16), ("w", 16, 16), ("b", 16)]


@pytest.fixture
def run(cli, write):
    """Run a pipeline over a model; return the report and the operators of the result."""
    write("own_objective.py", MODULE)

    def call(text, *words, steps, head="imports: [own_objective]\n", weights=()):
        model = onnx.parser.parse_model(text)
        rng = np.random.default_rng(0)
        for name, *shape in weights:
            values = rng.standard_normal(shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        onnx.save(model, "model.onnx")
        write("pipe.yaml", f"{head}passes: [{', '.join(steps)}]\n")
        done = cli(
            *("-c", "pipe.yaml", "-o", "out.onnx", "--json", "run.json", "-v"),
            *words,
            "model.onnx",
        )
        assert done.code == 0, done.err
        report = json.loads(Path("run.json").read_text())
        operators = [node.op_type for node in onnx.load("out.onnx").graph.node]
        return report, operators, done.err

    return call


def measured(report):
    """Return what was measured, by pass."""
    return {p["name"]: p["pays"] for p in report["passes"] if p["pays"]}


def test_of_the_rewrites_of_one_rule_those_that_pay_stay(run):
    report, operators, told = run(ABS, "--objective", "nodes", steps=["rewrite-abs"])
    assert operators == ["Relu", "Abs", "Add"]
    (found,) = measured(report).values()
    numbers = {p["keys"][0]: (p["without"], p["with_it"], p["kept"]) for p in found}
    assert numbers == {"rewrite-abs@p": (1, 0, True), "rewrite-abs@q": (1, 2, False)}
    assert {(p["objective"], p["unit"], p["scope"]) for p in found} == {
        ("nodes", "nodes", "region")
    }
    assert "undone, since it does not pay: rewrite-abs@q (1 -> 2 nodes, region)" in told


def test_a_rewrite_that_was_undone_is_not_made_again(run):
    words = ("--objective", "nodes")
    report, operators, _ = run(ABS, *words, steps=["rewrite-abs", "rewrite-abs"])
    assert operators == ["Relu", "Abs", "Add"]
    assert [len(p["pays"]) for p in report["passes"]] == [2, 0]


def test_the_objective_of_a_pipeline_file_counts(run):
    head = "imports: [own_objective]\nobjective: size\n"
    report, operators, _ = run(ABS, steps=["rewrite-abs"], head=head)
    assert operators == ["Relu", "Abs", "Add"]
    (found,) = measured(report).values()
    assert {p["unit"] for p in found} == {"bytes"}


def test_passes_of_the_library_are_measured(run):
    steps = ["sum-before-normalization", "fuse-all"]
    report, operators, _ = run(LAYER, "--objective", "nodes", steps=steps, weights=WEIGHTS)
    assert operators == ["Sum", "LayerNormalization", "Gemm", "Tanh"]
    found = measured(report)
    (equal,), (kept,) = found["sum-before-normalization"], found["fuse-all"]
    # A later pass may gain from what costs as much.
    assert (equal["without"], equal["with_it"], equal["kept"]) == (1, 1, True)
    assert (kept["rules"], kept["without"], kept["with_it"]) == ("fuse-matmul-add", 2, 1)


@each_of("words", (), ("--no-verify",))
def test_what_is_slower_is_undone(run, words):
    report, operators, told = run(NEGATIVE, "--objective", "time", *words, steps=["slow-down"])
    assert operators == ["Abs", "Neg", "Relu"]
    ((found,),) = measured(report).values()
    assert 0 < found["without"] < found["with_it"]
    assert (found["unit"], found["scope"], found["kept"]) == ("s", "region", False)
    assert found["engine"].startswith("onnxruntime[optimization=all")
    assert found["noise"] >= 0
    assert "us, noise" in told


def test_neighbours_are_timed_with_the_nodes_that_changed(run):
    steps = ["sum-before-normalization"]
    report, operators, _ = run(LAYER, "--objective", "time", steps=steps, weights=WEIGHTS)
    ((found,),) = measured(report).values()
    assert found["kept"] == (found["with_it"] < found["without"] - found["noise"])
    assert ("Sum" in operators) == found["kept"]
