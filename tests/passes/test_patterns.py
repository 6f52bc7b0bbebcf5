import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.passes.driver import rewrite
from onnx_passes.passes.patterns import PatternInfo

HEADER = '<ir_version: 10, opset_import: ["" : 20]> '


def info(pattern):
    return PatternInfo.of(RewriteRule(pattern, lambda op, x: op.Neg(x), name="rule"))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = Abs(x) y = Relu(a)", True),
        ("a = Neg(x) y = Relu(a)", False),
        ("y = Relu(x)", False),
    ],
)
def test_a_node_is_ruled_out_by_what_computes_its_operand(nodes, expected):
    model = ir.from_onnx_text(f"{HEADER} m (float[2] x) => (float[2] y) {{ {nodes} }}")
    rule = info(lambda op, x: op.Relu(op.Abs(x)))
    assert rule.can_match(model.graph[-1]) is expected


def test_only_the_output_that_the_pattern_names_will_do():
    pattern = info(lambda op, x: op.Relu(op.Split(x, num_outputs=2, _outputs=["a", "b"])[1]))
    text = "m (float[2] x) => (float[1] y) { a, b = Split<num_outputs=2>(x) y = Relu(%s) }"
    for name, expected in (("a", False), ("b", True)):
        model = ir.from_onnx_text(HEADER + text % name)
        assert pattern.can_match(model.graph[-1]) is expected


def test_alternatives_and_variables_rule_nothing_out():
    from onnxscript.rewriter.pattern import OrValue

    model = ir.from_onnx_text(f"{HEADER} m (float[2] x) => (float[2] y) {{ y = Relu(x) }}")
    assert info(lambda op, x: op.Relu(OrValue([op.Abs(x), x]))).can_match(model.graph[-1])
    assert info(lambda op, x: op.Relu(x)).can_match(model.graph[-1])


def test_swapped_operands_are_ruled_out_by_what_computes_them_too():
    rule = RewriteRule(
        lambda op, x, y: op.Add(op.Mul(op.Exp(x), y), y),
        lambda op, x, y: op.Sum(x, y),
        name="rule",
    )
    model = ir.from_onnx_text(
        f"{HEADER} m (float[2] x) => (float[2] y) "
        "{ e = Exp(x) m = Mul(x, e) a = Abs(x) y = Add(a, m) }"
    )
    found = [PatternInfo.of(variant) for variant in rule.commute()]
    assert {info.root for info in found} == {("", "Add")}
    assert [info.can_match(model.graph[-1]) for info in found].count(True) == 1


def test_what_cannot_match_is_not_handed_to_the_matcher(monkeypatch):
    text = " ".join(f"t{i} = Relu(t{i - 1})" for i in range(1, 50))
    body = f"m (float[2] x) => (float[2] y) {{ t0 = Abs(x) {text} y = Relu(t49) }}"
    model = ir.from_onnx_text(HEADER + body)
    rule = RewriteRule(lambda op, x: op.Relu(op.Abs(x)), lambda op, x: op.Abs(x), name="rule")
    tried = []
    match = RewriteRule.try_rewrite
    monkeypatch.setattr(
        RewriteRule, "try_rewrite", lambda *a, **k: tried.append(a[3]) or match(*a, **k)
    )
    rewrite(model, [rule])
    assert len(tried) == 50  # each of them once, as the Abs before it is reached
    tried.clear()
    rewrite(model, [rule])
    assert not tried
