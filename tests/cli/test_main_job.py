import json
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.cli.modules import BREAK_ADDS
from tests.tables import each_of, each_row

ROOT = Path(__file__).parents[2]


def pass_module(body, decorators="@passes.verify.equality"):
    """A module with one pass, ``Mine``, whose ``call`` has the given body."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return f"""\
import onnx_ir as ir
import numpy as np
from onnx_passes import passes
from onnx_passes.passes.base import Analysis, Transformation

{decorators}
@passes.register()
class Mine(Transformation):
    def call(self, model):
{lines}
"""


CHANGE = "model.graph.node(0).op_type = 'Sub'\n"
DONE = "return ir.passes.PassResult(model, True)"


def use(write, module, **config):
    name = f"module_{abs(hash(module)) % 10**9}"
    write(f"{name}.py", module)
    return write("cfg.yaml", json.dumps({"imports": [name], "passes": ["Mine"], **config}))


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_is_brief_in_a_pipe_and_silent_on_request(cli, model):
    assert len(cli("-c", "cleanup", "-o", "out.onnx", model).err.splitlines()) < 10
    assert not cli("-c", "cleanup", "-o", "out.onnx", "-q", model).err


def test_prints_the_result_as_text_on_request(cli, model):
    done = cli("-c", "optimize", "-o", "-", model)
    assert "Relu" in done.out
    assert "Identity" not in done.out
    assert not Path("-").exists()


def test_passes_on_the_command_line_run_after_those_of_the_config(cli, model):
    done = cli("-c", "cleanup", "-o", "o.onnx", "--json", "r.json", model, "topological-sort")
    assert done.code == 0
    names = [p["name"] for p in json.loads(Path("r.json").read_text())["passes"]]
    assert names[:2] == ["topological-sort", "unique-names"]
    assert names[-1] == "topological-sort"


def test_writes_every_report(cli, model):
    files = ["--json", "r.json", "--html", "a/b/r.html", "--junit", "r.xml"]
    assert cli("-c", "cleanup", "-o", "c/o.onnx", *files, model).code == 0
    assert Path("c/o.onnx").exists()
    assert json.loads(Path("r.json").read_text())["exit_code"] == 0
    assert "<html" in Path("a/b/r.html").read_text()
    assert "<testsuite" in Path("r.xml").read_text()


@each_of("policy, code, kept", ("stop", 1, None), ("rollback", 0, "Add"), ("warn", 1, "Sub"))
def test_policies(cli, model, write, policy, code, kept):
    Path("out.onnx").write_text("old")
    config = use(write, pass_module(CHANGE + DONE), on_failure=policy)
    done = cli("-c", config, "-o", "out.onnx", model, "eliminate-identity")
    done.tells(code, "s not as expected")
    if kept is None:
        assert Path("out.onnx").read_text() == "old"
    else:
        assert operators("out.onnx") == [kept, "Relu"]


@each_row(r"""body | message
raises: raise KeyError('boom') | raised KeyError: 'boom'
returns-nothing: return None | should be type PassResult
returns-the-model: return model | should be type PassResult
returns-text: return ir.passes.PassResult('x', True) | in place of a model|in-place
loops: while True: pass | did not end within 0.5 s
recurses: return self.call(model) | recursed without end
denies-its-change: =CHANGE + 'return ir.passes.PassResult(model, False)' | s not as expected
drops-an-output: ='model.graph.outputs.pop()\n' + DONE | output
renames-an-input: ="model.graph.inputs[0].name = 'other'\n" + DONE | input
changes-a-type: ='model.graph.outputs[0].dtype = ir.DataType.DOUBLE\n' + DONE | tensor
freezes-a-dimension: ='model.graph.inputs[0].shape = ir.Shape([1, 2])\n' + DONE | dimension 0
  of input 'a'
makes-a-cycle: ='n, m = model.graph.node(0), model.graph.node(2)\nn.replace_input_with(0,
  m.outputs[0])\n' + DONE | cycle
unknown-operator: ="model.graph.node(0).op_type = 'NoSuchOp'\n" + DONE | NoSuchOp
""")
def test_a_pass_that_misbehaves(cli, model, write, body, message):
    before = model.read_bytes()
    config = use(write, pass_module(body), limits={"pass_seconds": 0.5})
    done = cli("-c", config, "-o", "out.onnx", model)
    assert done.code == 1, done.err
    assert re.search(message, done.err), done.err
    assert not Path("out.onnx").exists()
    assert model.read_bytes() == before


def test_the_reference_evaluator_stands_in_and_is_named(cli, tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 22]>
    main (bfloat16[2] a) => (bfloat16[2] y) { i = Identity(a) y = Sin(i) }"""
    path = tmp_path / "bf16.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    cli("-c", "optimize", "-o", "out.onnx", "--json", "r.json", "--strict", path).tells(0)
    (engine,) = json.loads(Path("r.json").read_text())["engines"]
    assert engine["name"] == "reference"
    assert "cannot run the original" in engine["fallback_for"]


def test_a_model_that_no_engine_runs_is_told_with_what_both_lack_and_the_way_on(cli, tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.preview.training" : 1]>
    main (float x) => (float y)
    { i = Identity(x) y = ai.onnx.preview.training.Gradient <xs = ["i"], y = "i"> (i) }"""
    path = tmp_path / "gradient.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    done = cli("-c", "cleanup", "-o", "out.onnx", path)
    done.tells(3, "nor does reference run it", "--no-verify")
    assert cli("-c", "cleanup", "-o", "out.onnx", "--no-verify", path).code == 0


@each_row("""text | where
- passes: [fold-constant] | cfg.yaml:1:10
- passes: [fold-constants: {size_limt: 3}] | cfg.yaml:1
- verify: {metrics: {acuracy: [0, 1]}} | cfg.yaml:1
- imports: [no_such_module] | cfg.yaml:1:11
""")
def test_a_wrong_config_is_told_with_its_place(cli, model, write, text, where):
    cli("-c", write("cfg.yaml", text), "-o", "out.onnx", model).tells(2, where, "= help:")


def test_a_model_that_cannot_be_read(cli, write):
    cli("-c", "cleanup", "-o", "out.onnx", write("bad.onnx", "hello")).tells(3, "bad.onnx")


def test_dumps_the_model_after_passes(cli, model):
    cli("-c", "cleanup", "-o", "out.onnx", "--dump-after", "changed", model)
    assert list(Path().rglob("*eliminate-identity.onnx"))


def run_python(code):
    """Run a text in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_an_unverified_run_imports_nothing_that_judges(model):
    code = (
        "import sys\nfrom onnx_passes import cli\n"
        f"try: cli.main(['--no-verify', {str(model)!r}])\n"
        "except SystemExit: pass\n"
        "names = {'onnx_passes.pipeline.run', 'onnx_passes.verify.judge'}\n"
        "print(*names & set(sys.modules), file=sys.stderr)"
    )
    assert run_python(code).stderr.splitlines()[-1] == "onnx_passes.pipeline.run"


def test_what_is_left_is_not_searched_for_garbage_when_the_program_ends():
    # For a model of thousands of nodes, Python's last collections took half a second.
    code = (
        "import atexit, gc, sys; sys.argv=['onnx-passes','--help']\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0, file=sys.stderr))\n"
        "from onnx_passes.cli import main\n"
        "main()"
    )
    done = run_python(code)
    assert (done.returncode, done.stderr.strip()) == (0, "True")


@each_of("wrong", False, True)
def test_the_parts_of_a_run_take_all_of_its_time(cli, write, model, wrong):
    write("break_adds.py", BREAK_ADDS)
    passes = "[optimize, break-adds]" if wrong else "[optimize]"
    config = write("c.yaml", f"imports: [break_adds]\npasses: {passes}\n")
    done = cli("-c", config, model, "-o", "out.onnx", "--json", "r.json", "-v")
    report = json.loads(Path("r.json").read_text())
    times = report["times"]
    assert sum(times.values()) == pytest.approx(report["seconds"], abs=1e-6)
    assert min(times.values()) >= 0.0
    parts = {"starting", "reading", "preparing", "passes", "checks", "result", "writing"}
    assert parts <= times.keys()
    assert (times.get("cause", 0.0) > 0.0) is wrong
    assert times["checks"] == pytest.approx(sum(p["verify_seconds"] for p in report["passes"]))
    assert "in passes" in done.err


@each_of("folder", "", "own_passes", "deep/passes")
def test_the_lines_behind_a_new_pass_work_as_they_are(cli, model, folder):
    done = cli("new-pass", "drop-twice", *(["-d", folder] if folder else []))
    (tried, proved, used) = done.out.splitlines()[-3:]
    assert Path(tried.split()[-1]).exists()
    words = [*proved.split()[2:], "--level", "test", "--models", "1"]
    cli(*words).prints(0, "drop-twice: tested")
    imports = re.search(r"imports: (\[.*?\])", used)[1]
    cli("-o", "out.onnx", model, "drop-twice", "-s", f"imports={imports}").tells(0)


def test_a_pass_of_ones_own_says_no_in_its_own_words(cli, model, write):
    write(
        "drop_adds.py",
        """\
from onnx_passes import passes
from onnx_passes.passes.base import MatchResult, RewriteRulePass, Transformation

@passes.verify.equality
@passes.register()
class DropAdds(Transformation, RewriteRulePass):
    def pattern(self, op, x, y): return op.Add(x, y)
    def check(self, context, **_): return MatchResult().fail("it is Monday")
    def rewrite(self, op, x, y): return x
""",
    )
    words = ["-o", "out.onnx", model, "drop-adds", "-s", "imports=[drop_adds]"]
    done = cli(*words, "--why-not", "drop-adds")
    done.tells(0, "why not: drop-adds: its check refuses: it is Monday, at s = Add(a, b)")


@each_of(
    "words, told",
    ([], "no node is left that one of its rules may begin at"),
    (["--skip", "fuse-gelu"], "the pipeline runs no pass or rule of this name"),
)
def test_a_pass_that_another_one_applies_is_no_stranger(cli, model, words, told):
    cli(model, "--why-not", "fuse-gelu", *words).tells(0, f"why not: fuse-gelu: {told}")
