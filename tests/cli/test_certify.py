"""``onnx-passes certify``."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onnx_passes.certifying import certificates
from onnx_passes.cli.certify_command import Target, show_verdicts
from tests.cli.modules import BREAK_ADDS
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
RULES = """
from onnxscript.rewriter import RewriteRule, RewriteRuleSet
right = RewriteRule(
    lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="right"
)
wrong = RewriteRule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x), name="wrong")
both = RewriteRuleSet([right, wrong])
number = 3
"""
QUICK = ("--level", "test", "--models", 10)


@pytest.fixture
def rules(write, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"rules_{tmp_path.name.replace('-', '_')}"
    write(f"{name}.py", RULES)
    return name


def test_a_refuted_rule_fails_with_a_script_that_shows_it(cli, rules):
    end = cli("certify", "--rules", f"{rules}:both", *QUICK, "--json", "out.json")
    end.prints(1, "right: tested", "wrong: refuted", "before:")
    (row,) = json.loads(Path("out.json").read_text())
    assert [r["verdict"] for r in row["rules"]] == ["tested", "refuted"]
    script = Path(row["rules"][1]["folder"]) / "repro.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "elements differ" in ran.stdout


def test_what_is_no_rule_is_said_and_the_others_run(cli, rules):
    subjects = [f"{rules}:number", "no_such_module_here:x", f"{rules}:right"]
    end = cli("certify", *[word for s in subjects for word in ("--rules", s)], *QUICK)
    end.prints(2, "int is no rewrite rule", "does not import", "right: tested")


PASS = """
import onnx_ir as ir
from onnx_passes import passes
from onnx_passes.passes.base import Transformation

@passes.verify.equality
class Swaps(Transformation):
    def call(self, model):
        for node in model.graph:
            if node.op_type == "Sub":
                a, b = node.inputs
                node.replace_input_with(0, b)
                node.replace_input_with(1, a)
        return ir.passes.PassResult(model, modified=True)
"""


def test_a_pass_that_is_no_rule_is_tested_on_random_models(cli):
    cli("certify", "unique-names", *QUICK).prints(0, "unique-names: tested; ", "random models")
    end = cli("certify", "unique-names", "--level", "prove")
    assert "there is nothing to prove" in end.out


def test_a_wrong_pass_is_refuted_by_a_script_that_shows_it(cli, write, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    write("swapping.py", PASS)
    words = ["--rules", "swapping:Swaps", "--time", "10m", "--json", "out.json"]
    cli("certify", *words, "--seed", "1").prints(1, "refuted")
    (verdict,) = json.loads(Path("out.json").read_text())[0]["rules"]
    command = [sys.executable, str(Path(verdict["folder"]) / "repro.py")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr


def test_a_path_that_never_ran_is_a_warning_that_strict_refuses(cli, monkeypatch):
    said = "eliminate-identity is tested only: line 3 never ran"
    monkeypatch.setattr(certificates, "unexplored", lambda lines: [said])
    assert cli("certify", "eliminate-identity", *QUICK, "--write").code == 0
    end = cli("certify", "eliminate-identity", "--check")
    assert (end.code, f"warning: {said}" in end.err) == (0, True)
    end = cli("certify", "eliminate-identity", "--check", "--strict")
    assert end.code != 0
    assert said in end.err


def test_a_pass_that_is_no_rule_has_a_certificate_of_what_it_changed_by_itself(cli):
    words = ("certify", "merge-equal-dimensions", "--models", "80", "--time", "10m", "--write")
    assert cli(*words).code == 0
    line = json.loads(Path("certificates/rules.jsonl").read_text())
    # Shapes, which it requires to be inferred, change nearly all of them.
    assert 0 < line["changed"] < line["models"] / 2
    assert cli("certify", "merge-equal-dimensions", "--check").code == 0


def test_stale_certificates_are_made_anew(cli):
    words = ("certify", "eliminate-identity", "--level", "test", "--write", "--stale")
    assert cli(*words, "--models", 103).code == 0
    path = Path("certificates/rules.jsonl")
    path.write_text(path.read_text().replace('"verdict":"tested"', '"verdict":"proved"'))
    assert cli("certify", "eliminate-identity", "--level", "test", "--write").code == 0
    assert json.loads(path.read_text())["asked"] == 100
    unchanged = path.read_bytes()
    end = cli(*words)
    assert (end.code, end.out) == (0, "")
    assert path.read_bytes() == unchanged


def test_a_certificate_is_written_before_the_next_pass_is_judged(cli, monkeypatch):
    from onnx_passes.certifying import certification

    judge = certification.certify_apart

    def interrupted(job):
        if "unique_names" in job.subject:
            raise KeyboardInterrupt
        return judge(job)

    monkeypatch.setattr(certification, "certify_apart", interrupted)
    cli("certify", "eliminate-identity", "unique-names", *QUICK, "--write")
    assert '"pass":"eliminate-identity"' in Path("certificates/rules.jsonl").read_text()


def test_a_missing_certificate_says_what_to_run(cli):
    end = cli("certify", "eliminate-identity", "--check")
    end.tells(1, "onnx-passes certify eliminate-identity --write")


def test_a_certificate_edited_by_hand_is_found_out(cli):
    assert cli("certify", "eliminate-identity", *QUICK, "--write").code == 0
    path = Path("certificates/rules.jsonl")
    path.write_text(path.read_text().replace('"verdict":"tested"', '"verdict":"proved"'))
    cli("certify", "eliminate-identity", "--check").tells(1, "was edited by hand")


IMPOSSIBLE = """
from onnxscript.rewriter import RewriteRule

right = RewriteRule(
    lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="right"
)
unknown = RewriteRule(
    lambda op, x: op.Nonesuch(x), lambda op, x: op.Identity(x), name="unknown"
)
"""


def test_a_pattern_that_no_model_has_is_said_and_others_run(cli, write, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    write("impossible_rules.py", IMPOSSIBLE)
    words = [w for n in ("unknown", "right") for w in ("--rules", f"impossible_rules:{n}")]
    end = cli("certify", *words, *QUICK)
    end.prints(
        4,
        "unknown: never fired",
        "no opset has all of its operators and attributes: Nonesuch",
        "right: tested",
    )


def test_an_interrupt_ends_the_children(write, tmp_path):
    write("slow_rules.py", HANGING)
    command = [sys.executable, "-m", "onnx_passes", "certify", "--rules", "slow_rules:hang"]
    child = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    pid_file = tmp_path / "pid"
    deadline = time.monotonic() + 60
    while not pid_file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode not in (0, 1)
    assert "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


HANGING = """
import os, time
from pathlib import Path
from onnxscript.rewriter import RewriteRule

def rewrite(op, x):
    Path("pid").write_text(str(os.getpid()))
    time.sleep(1000)

hang = RewriteRule(lambda op, x: op.Relu(x), rewrite, name="hang")
"""


@each_of("named", (), ("DoubleAdds",))
def test_the_passes_of_a_pipeline_file_are_known(cli, write, tmp_path, monkeypatch, named):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "sub").mkdir()
    module = f"double_{tmp_path.name.replace('-', '_')}"
    write(f"sub/{module}.py", BREAK_ADDS.replace("BreakAdds", "DoubleAdds"))
    write("sub/p.yaml", f"imports: [{module}]\npasses: [DoubleAdds]\n")
    end = cli("certify", "-c", "sub/p.yaml", *named, "--level", "test", "--models", 5)
    end.prints(1, "double-adds: refuted")
    assert end.out.count("double-adds\n") == 1


# What certify prints of verdicts that say less than they may seem to.


VERDICT = {"rule": "r", "verdict": "tested", "reason": ""}


@each_of(
    "contract, told",
    (
        "tolerance",
        "supports tolerance where the original is finite (pipelines compare NaN and "
        "infinities, too)\n",
    ),
    ("equality", "supports equality\n"),
)
def test_a_tolerance_is_said_to_leave_out_nan_and_infinities(capsys, contract, told):
    show_verdicts(Target("r", "m:r", 1), [{**VERDICT, "contract": contract}])
    assert capsys.readouterr().out.endswith(told)
