"""Failures at the command line: who is to blame, at which nodes, by how much, what to run."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import onnx.parser
import pytest

from tests.cli.modules import rule_pass
from tests.tables import each_of, each_row

DIGITS = Path(__file__).parents[2] / "examples/digits/model.onnx"
OFF_BY_0 = re.compile(r"(?:\bby|at most|max (?:abs|rel)) 0(?![\d.])")
HEAD = '<ir_version: 10, opset_import: ["": 21]> g '

PASSES = """
import numpy as np
import onnx_ir as ir
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation


class Sums(RewriteRulePass):
    wrong: str = ""
    factor: float = 1.01

    def pattern(self, op, x, w):
        return op.Add(x, w)

    def rewrite(self, op, x, w):
        if {x.name, w.name} & set(self.wrong.split()):
            w = op.Mul(w, op.CastLike(op.Constant(value_float=self.factor), w))
        return op.Sum(x, w)


@passes.verify.tolerance()
@passes.register()
class FailSums(Transformation, Sums):
    "Write additions as sums."


@passes.verify.tolerance(rtol=1.0)
@passes.register()
class FailLoosely(Transformation, Sums):
    "Write additions as sums, and promise next to nothing."


@passes.verify.tolerance(rtol=1.0)
@passes.register()
class FailHalf(Transformation):
    "Replace Neg by Abs in one place, without a rule."

    def call(self, model):
        node = next(n for n in model.graph if n.op_type == "Neg")
        node.op_type = "Abs"
        return ir.passes.PassResult(model, True)


@passes.verify.equality
@passes.register()
class FailInterface(Transformation):
    "Rename the output."

    def call(self, model):
        model.graph.outputs[0].name = "renamed"
        return ir.passes.PassResult(model, True)
"""
PASSES += rule_pass(
    "FailStructure", "op.Add(x, w)", "op.Add(x) if w.name == 'w2' else op.Sum(x, w)", "x, w"
)
MINUS = "op.CastLike(op.Constant(value_float=-1.0), x)"
PASSES += rule_pass("FailNan", "op.Neg(x)", f"op.Log(op.Sub({MINUS}, op.Abs(x)))")
PASSES += rule_pass("FailText", "op.StringConcat(x, y)", "op.Identity(x)", "x, y")


@pytest.fixture
def go(cli, tmp_path, monkeypatch):
    """Run passes over a model file; return the outcome, the report and the only bundle."""
    (tmp_path / "failing.py").write_text(PASSES)

    def call(model, *words):
        if not isinstance(model, Path):
            path = tmp_path / "model.onnx"
            path.write_bytes(onnx.parser.parse_model(HEAD + model).SerializeToString())
            model = path
        given = ["-s", "imports=[failing]", "-s", "reproducers=out", "--json", "run.json"]
        done = cli("run", *given, "-o", "o.onnx", model, *words)
        report = json.loads(Path("run.json").read_text())
        found = sorted(Path("out").iterdir()) if Path("out").exists() else []
        return done, report, found[0] if found else None

    sys.modules.pop("failing", None)
    yield call
    sys.modules.pop("failing", None)


def repro(folder):
    script = [sys.executable, "-I", f"{folder}/repro.py"]
    return subprocess.run(script, capture_output=True, text=True)


CHAIN = """(float[N, 4] x) => (float[N, 4] y) <float[4] w0 = {1, 2, 3, 4}, float[4] w1 =
    {5, 6, 7, 8}, float[4] w2 = {2, 2, 2, 2}> { n = Neg(x) a = Add(n, w0) b = Add(a, w1)
    c = Add(b, w2) y = Neg(c) }"""


def test_the_traceback_of_a_pass_that_raised_is_shown_on_request(cli, model, write):
    write("raises.py", rule_pass("RaiseAtOnce", "op.Relu(x)", "undefined_name"))
    words = ("-s", "imports=[raises]", model, "raise-at-once")
    cli(*words).tells(1, "NameError", "raises.py:")  # and no traceback
    cli(*words, "--debug").tells(1, "Traceback (most recent call last)", "undefined_name")


def test_a_pass_that_raises_behind_a_rewrite_is_not_told_to_be_wrong(cli, model, write):
    text = rule_pass("RaiseLater", "op.Relu(x)", "op.Relu(x)")
    text += "\n    def ensures(self, model):\n        raise KeyError('later')\n"
    write("later.py", text)
    done = cli("-s", "imports=[later]", "-s", "reproducers=false", model, "raise-later")
    done.tells(1, "later")
    assert "did not keep" not in done.err


def test_a_nan_is_never_off_by_0(go, tmp_path):
    model = "(float[N, 4] x) => (float[N, 4] y) { n = Neg(x) y = Add(n, n) }"
    files = [tmp_path / "r.html", tmp_path / "r.xml"]
    done, _, bundle = go(model, "fail-nan", "--html", files[0], "--junit", files[1])
    assert done.code == 1
    texts = [done.err, repro(bundle).stdout, *(file.read_text() for file in files)]
    assert all("nan" in text for text in texts)
    assert not any(OFF_BY_0.findall(text) for text in texts)


def test_a_failure_names_rewrite_nodes_value_sample_and_command(go):
    done, report, bundle = go(CHAIN, "fail-sums{wrong=w1}")
    assert done.code == 1
    (blame,) = report["passes"][0]["blame"]
    assert (blame["number"], blame["how"]) == (2, "by its own error")
    assert blame["nodes"] == ["b = Add(a, w1)"]
    assert blame["value"]["output"] == "b"
    assert "which 1 of its 3 rewrites did not keep" in done.err
    assert re.search(r"#2 b = Add\(a, w1\) → .*; b: .* became ", done.err)
    assert f"python {bundle}/repro.py" in done.err
    assert "granularity=application keeps the other 2 rewrites" in done.err
    shown = repro(bundle)
    assert shown.returncode == 1, shown.stderr
    assert "b: 1 of 1 elements differ" in shown.stdout


def test_junit_and_html_hold_the_same_facts(go):
    go(CHAIN, "fail-sums{wrong=w1}", "--junit", "run.xml", "--html", "run.html")
    failure = ET.parse("run.xml").getroot().find(".//failure").text
    page = Path("run.html").read_text()
    for told in ("b = Add(a, w1)", "#2 ", "b at [", "repro.py"):
        assert told in failure
        assert told in page


def test_a_result_that_drifted_is_traced_to_its_rewrite(go):
    end = "engines=[{onnxruntime: {when: end}}]"
    steps = ["fail-loosely{wrong=w0,factor=1.05}", "eliminate-identity"]
    done, report, bundle = go(CHAIN, "-s", end, *steps)
    assert done.code == 1
    (blame,) = report["blame"]
    assert (blame["step"], blame["number"]) == (1, 1)
    assert "a = Add(n, w0)" in done.err
    assert bundle.name == "model-result"
    assert repro(bundle).returncode == 1


def test_all_rewrites_that_made_a_result_drift_are_named(go):
    end = "engines=[{onnxruntime: {when: end}}]"
    done, report, bundle = go(CHAIN, "-s", end, "fail-loosely{wrong='w0 w2',factor=1.05}")
    assert done.code == 1
    assert sorted(blame["number"] for blame in report["blame"]) == [1, 3]
    assert repro(bundle).returncode == 1


def test_a_pass_that_spends_the_budget_of_the_whole_run_names_its_rewrite(go):
    given = ["-s", "on_failure=rollback", "-s", "granularity=application"]
    done, report, bundle = go(CHAIN, "fail-loosely{wrong=w1,factor=1.05}", *given)
    assert done.code == 0
    assert "b = Add(a, w1)" in report["passes"][0]["notes"][0]
    assert repro(bundle).returncode == 1
    kinds = [node.op_type for node in onnx.load("o.onnx").graph.node]
    assert kinds == ["Neg", "Sum", "Add", "Sum", "Neg"]


def test_a_pass_without_rules_is_traced_to_the_first_value_that_diverges(go):
    done, report, bundle = go(CHAIN, "fail-half")
    assert done.code == 1
    (blame,) = report["blame"] or report["passes"][0]["blame"]
    assert blame["how"] == "the first value that diverges"
    assert blame["nodes"] == ["n = Neg(x)"]
    assert blame["new_nodes"] == ["n = Abs(x)"]
    assert [node.op_type for node in onnx.load(bundle / "after.onnx").graph.node] == ["Abs"]
    assert repro(bundle).returncode == 1


@each_of(
    "step, told", ("fail-structure", "after.onnx is not valid"), ("fail-interface", "renamed")
)
def test_faults_of_structure_and_interface_leave_a_bundle_that_repeats_them(go, step, told):
    done, report, bundle = go(CHAIN, step)
    assert done.code == 1
    assert report["passes"][0]["culprits"] == ([3] if step == "fail-structure" else [])
    shown = repro(bundle)
    assert shown.returncode == 1, shown.stderr
    assert told in shown.stdout
    again, repeated, _ = go(bundle / "before.onnx", "-c", f"{bundle}/pipeline.yaml")
    assert again.code == 1
    assert repeated["passes"][0]["name"] == step


@each_row("""step | model
strings: fail-text | (string[2] x, string[2] z) => (string[2] y) { y = StringConcat(x, z) }
overridable: fail-sums{wrong=w} | (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1,
  2}> { y = Add(x, w) }
bfloat16: fail-sums{wrong=w} | (bfloat16[2] x, float[2] w) => (bfloat16[2] y) { t = Cast<to =
  1>(x) s = Add(t, w) y = Cast<to = 16>(s) }
float8: fail-sums{wrong=w} | (float8e4m3fn[2] x, float[2] w) => (float[2] y) { t = Cast<to =
  1>(x) y = Add(t, w) }
int4: fail-sums{wrong=w} | (int4[2] x, float[2] w) => (float[2] y) { t = Cast<to = 1>(x) y =
  Add(t, w) }
sequence: fail-sums{wrong=w} | (seq(float[2]) x, float[2] w) => (float[2] y) <int64 i = {0}> {
  t = SequenceAt(x, i) y = Add(t, w) }
""")
def test_bundles_run_whatever_the_types_are(go, step, model):
    done, report, bundle = go(model, step)
    assert done.code == 1
    assert bundle is not None, report["passes"][0]["notes"]
    assert report["passes"][0]["culprits"] == [1]
    shown = repro(bundle)
    assert shown.returncode == 1, shown.stdout + shown.stderr


@each_of("check", False, True)
def test_bisect_names_every_culprit_where_nothing_was_checked(cli, go, check, tmp_path):
    (tmp_path / "judge.py").write_text(
        "import sys, onnx\n"
        "sys.exit('Mul' in [n.op_type for n in onnx.load(sys.argv[1]).graph.node])\n"
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(HEAD + CHAIN).SerializeToString())
    given = ["-s", "imports=[failing]", "-s", "verify=false"]
    command = ["--check", f"{sys.executable} judge.py {{model}}"] if check else []
    done = cli("bisect", *given, *command, path, "fail-sums{wrong='w0 w2'}")
    done.prints(
        1, "first bad rewrite  1 fail-sums", "without it, bad    3 fail-sums of pass 1"
    )


def test_a_pass_whose_constructor_raises_is_named_with_its_place(cli, write, model):
    write(
        "odd.py",
        "from onnx_passes import passes\n"
        "from onnx_passes.passes.base import Transformation\n"
        "@passes.verify.equality\n"
        "@passes.register('odd')\n"
        "class Odd(Transformation):\n"
        "    '''Odd.'''\n"
        "    def __init__(self, context):\n"
        "        super().__init__()\n"
        "    def call(self, model):\n"
        "        return None\n",
    )
    write("odd.yaml", "imports: [odd]\npasses: [odd]\n")
    end = cli("-c", "odd.yaml", "-o", "o.onnx", model)
    end.tells(1, "pass 'odd' cannot be made: TypeError", "odd.yaml:2")


def test_code_of_a_user_that_ends_the_program_is_an_error(cli, tmp_path, monkeypatch):
    (tmp_path / "leaves.py").write_text("def feeds():\n    raise SystemExit(0)\n    yield\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = cli("compare", DIGITS, "--data-loader", "leaves:feeds")
    done.tells(2, "leaves:feeds raised SystemExit: 0")
