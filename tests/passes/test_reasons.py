import onnx_ir as ir
import pytest
from click.testing import CliRunner

from onnx_passes.cli.main import program
from onnx_passes.passes.eliminate.eliminate_noop_arithmetic import EliminateNoopArithmetic
from onnx_passes.passes.reasons import WhyNot, asking
from onnx_passes.testing import parse

MODEL = """(float[2] x, float[2,2] w) => (float[2,2] y, float[2] z, float[2] u)
<float c = {0}, float[2,2] d = {1, 1, 1, 1}>
{ y = Mul(x, d) z = Add(x, c) t = Sub(x, c) u = Neg(t) }"""


def reasons(text):
    question = WhyNot.of(text)
    with asking(question):
        EliminateNoopArithmetic()(parse(MODEL))
    return list(question.lines())


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("eliminate-noop-arithmetic[Add-right]@z", "the constant is not -0.0"),
        ("eliminate-noop-arithmetic[Mul-right]@y", "the constant may make the"),
        ("eliminate-noop-arithmetic[Sub-right]@t", "no rule of this name was tried there"),
        ("eliminate-noop-arithmetic@nothing", "no rule of this name was tried there"),
    ],
)
def test_a_rule_says_why_it_did_not_match(rule, reason):
    lines = reasons(rule)
    assert len(lines) == 1
    assert reason in lines[0]


def test_a_pass_is_asked_for_all_of_its_rules():
    assert len(reasons("eliminate-noop-arithmetic@z")) == 2  # from either side


def test_the_command_line_prints_it(tmp_path):
    path = tmp_path / "m.onnx"
    ir.save(parse(MODEL), path)
    arguments = [str(path), "eliminate-noop-arithmetic", "--no-verify"]
    arguments += [
        "--why-not",
        "eliminate-noop-arithmetic[Add-right]@z",
        "-o",
        str(tmp_path / "o.onnx"),
    ]
    found = CliRunner().invoke(program, arguments)
    assert found.exit_code == 0, found.output
    assert "why not: eliminate-noop-arithmetic[Add-right] at" in found.stderr
    assert "the constant is not -0.0 in each element" in found.stderr
