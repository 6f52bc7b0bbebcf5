"""``--search``: other orders of passes are tried, and the one that costs least is run."""

import json
from pathlib import Path

import onnx
import pytest

MODULE = '''
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation


@passes.verify.equality
@passes.register()
class OpenAbs(Transformation, RewriteRulePass):
    """Write Abs in two nodes."""

    always_pays = False

    def pattern(self, op, x):
        return op.Abs(x)

    def rewrite(self, op, x):
        return op.Max(x, op.Neg(x))


@passes.verify.equality
@passes.register()
class CloseRelu(Transformation, RewriteRulePass):
    """Drop a Relu that Max and Neg make needless, and write both in one node."""

    def pattern(self, op, x):
        return op.Relu(op.Max(x, op.Neg(x)))

    def rewrite(self, op, x):
        return op.LeakyRelu(x, alpha=-1.0)


@passes.verify.equality
@passes.register()
class LoseAbs(Transformation, RewriteRulePass):
    """Drop every Abs, which is wrong."""

    always_pays = False

    def pattern(self, op, x):
        return op.Abs(x)

    def rewrite(self, op, x):
        return op.Identity(x)
'''
MODEL = """<ir_version: 10, opset_import: ["": 20]>
main (float[4] x) => (float[4] y) { a = Abs(x) r = Relu(a) y = Neg(r) }"""


@pytest.fixture
def run(cli, write):
    """Run a pipeline over the model, and return the process, the report and operators."""

    def call(*words, steps):
        write("own_orders.py", MODULE)
        onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
        group = f"{{group: [{', '.join(steps)}], name: all, repeat: fixpoint}}"
        write("pipe.yaml", f"imports: [own_orders]\npasses: [{group}]\n")
        done = cli(
            "-c", "pipe.yaml", "-o", "out.onnx", "--json", "run.json", *words, "model.onnx"
        )
        made = Path("out.onnx").exists()
        report = json.loads(Path("run.json").read_text()) if done.code != 2 else None
        operators = [n.op_type for n in onnx.load("out.onnx").graph.node] if made else []
        return done, report, operators

    return call


def test_a_rewrite_that_costs_more_is_kept_for_what_others_gain(run):
    steps = ("open-abs", "close-relu")
    done, _, alone = run("--objective", "nodes", steps=steps)
    assert alone == ["Abs", "Relu", "Neg"], done.err
    done, report, operators = run("--objective", "nodes", "--search", "4", steps=steps)
    assert done.code == 0
    assert operators == ["LeakyRelu", "Neg"]
    assert any("no rewrite is undone" in note for note in report["notes"])
    assert {p["verdict"] for p in report["passes"] if p["changed"]} == {"passed"}


def test_what_a_search_finds_is_checked(run):
    done, report, _ = run("--objective", "nodes", "--search", "4", steps=("lose-abs",))
    assert done.code == 1
    assert report["passes"][-1]["verdict"] == "failed"


def test_the_order_found_is_reported_as_a_pipeline(run):
    steps = ("close-relu", "open-abs")
    _, report, _ = run("--objective", "nodes", "--search", "3", steps=steps)
    assert "close-relu" in report["pipeline"]
    assert any(note.startswith("search: of ") for note in report["notes"])


def test_a_search_without_an_objective_is_refused(run):
    done, _, _ = run("--search", "3", steps=("open-abs",))
    assert done.code == 2
    assert "add the objective" in done.err
