"""``onnx-passes bisect``: what is printed, and the exit codes."""

import sys
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from onnx_passes.cli.main import program
from onnx_passes.errors import OnnxPassesError, UsageError
from tests.tables import each_row

HERE = Path(__file__).parents[2] / "examples" / "break_adds"
CONFIG = ("-c", str(HERE / "pipeline.yaml"))
MODEL = str(HERE / "model.onnx")


def invoke(*args):
    result = CliRunner().invoke(program, ["bisect", *map(str, args)])
    if isinstance(result.exception, OnnxPassesError):
        raise result.exception
    return result


def test_pass_rewrite_and_nodes_are_told():
    result = invoke(*CONFIG, MODEL)
    assert result.exit_code == 1
    lines = dict(line.split("  ", 1) for line in result.stdout.splitlines() if "  " in line)
    assert lines["first bad pass"].strip() == "1 break-adds"
    assert lines["first bad rewrite"].strip() == "1 break-adds"
    assert "sum = Add(a, b)" in result.stdout
    assert "sum = Add(a, a)" in result.stdout
    assert "--rewrite-limit 0" in result.stdout


def test_a_good_pipeline_is_exit_code_0():
    result = invoke(MODEL, "eliminate-identity")
    assert result.exit_code == 0
    assert "nothing to find" in result.stdout


def test_a_command_judges_the_model(tmp_path):
    script = tmp_path / "judge.py"
    script.write_text(
        "import onnx, sys\n"
        "adds = [n for n in onnx.load(sys.argv[1]).graph.node if n.op_type == 'Add']\n"
        "print('noise on stdout')\n"
        "sys.exit(any(n.input[0] == n.input[1] for n in adds))\n"
    )
    check = f"{sys.executable} {script} {{model}}"
    result = invoke(*CONFIG, MODEL, "--check", check)
    assert result.exit_code == 1
    assert "first bad rewrite  1 break-adds" in result.stdout
    assert "noise" not in result.stdout
    result = invoke(MODEL, "eliminate-identity", "--check", check)
    assert result.exit_code == 0


@each_row("""check | message
- true | does not say where the model goes
- no-such-command {model} | there is no command 'no-such-command'
- false {model} | fails on the original already
- 'open {model} | is not a command
""")
def test_a_check_that_cannot_judge_is_refused(check, message):
    with pytest.raises(UsageError, match=message):
        invoke(*CONFIG, MODEL, "--check", check)


def test_noise_gives_no_answer_and_exit_code_4(tmp_path):
    (tmp_path / "bisect_nudge.py").write_text(
        "import numpy as np, onnx_ir as ir\n"
        "from onnx_passes import passes\n"
        "from onnx_passes.passes.base import Transformation\n"
        "@passes.register()\n"
        "class CliNudge(Transformation):\n"
        "    '''Change a weight by one rounding error.'''\n"
        "    def call(self, model):\n"
        "        k = model.graph.initializers['k']\n"
        "        k.const_value = ir.tensor(np.float32(1.5000002), name='k')\n"
        "        return ir.passes.PassResult(model, True)\n"
    )
    (tmp_path / "p.yaml").write_text("imports: [bisect_nudge]\npasses: [cli-nudge]\n")
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y)
        <float k = {1.5}> { y = Mul(x, k) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    result = invoke("-c", tmp_path / "p.yaml", tmp_path / "m.onnx")
    assert result.exit_code == 4
    assert "no answer" in result.stdout
    assert "10 times" in result.stdout
