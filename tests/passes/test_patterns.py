import onnx_ir as ir
from click.testing import CliRunner
from onnxscript.rewriter import RewriteRule

from onnx_passes.cli.main import program
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.eliminate.eliminate_noop_arithmetic import EliminateNoopArithmetic
from onnx_passes.passes.fusion.fuse_attention import FuseAttention
from onnx_passes.passes.fusion.fuse_silu import FuseSilu
from onnx_passes.passes.patterns import PatternInfo, WhyNot, asking
from onnx_passes.passes.rewriting import rewrite
from onnx_passes.testing import parse
from tests.tables import each_of, each_row

HEADER = '<ir_version: 10, opset_import: ["" : 20]> '


def info(pattern):
    return PatternInfo.of(RewriteRule(pattern, lambda op, x: op.Neg(x), name="rule"))


@each_row("""nodes | expected
- a = Abs(x) y = Relu(a) | =True
- a = Neg(x) y = Relu(a) | =False
- y = Relu(x) | =False
""")
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
    model = ir.from_onnx_text(f"""{HEADER} m (float[2] x) => (float[2] y) {{ e = Exp(x)
        m = Mul(x, e) a = Abs(x) y = Add(a, m) }}""")
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


MODEL = """(float[2] x, float[2,2] w) => (float[2,2] y, float[2] z, float[2] u)
<float c = {0}, float[2,2] d = {1, 1, 1, 1}>
{ y = Mul(x, d) z = Add(x, c) t = Sub(x, c) u = Neg(t) }"""


def reasons(text, pass_=None, model=MODEL):
    question = WhyNot.of(text)
    parsed = ShapeInference()(parse(model)).model
    with asking(question):
        (pass_ or EliminateNoopArithmetic())(parsed)
    return list(question.lines())


@each_row("""rule | reason
- eliminate-noop-arithmetic[Add-right]@z | the constant is not -0.0
- eliminate-noop-arithmetic[Mul-right]@y | the constant may make the
""")
def test_a_rule_says_why_it_did_not_match(rule, reason):
    lines = reasons(rule)
    assert len(lines) == 1
    assert reason in lines[0]


@each_of("place", "[Sub-right]@t", "@nothing")
def test_where_it_was_not_tried_there_is_no_reason(place):
    assert not reasons(f"eliminate-noop-arithmetic{place}")


ATTENTION = """<ir_version: 10, opset_import: ["" : {opset}]>
main ({dtype}[2,3,4,4] q, {dtype}[2,3,4,4] k, {dtype}[2,3,4,4] v) => ({dtype}[2,3,4,4] y) {{
    t = Transpose<perm = [0, 1, 3, 2]>(k)
    scores = MatMul(q, t) weights = Softmax(scores) y = {last}
}}"""


@each_row("""given | reason
- ={"opset": 20} | it needs opset 23, and the model has 20
- ={"opset": 23, "dtype": "double"} | its check refuses
- ={"opset": 20, "dtype": "double"} | its check refuses
- ={"opset": 23, "last": "MatMul(v, weights)"} | input 0 of MatMul is an input, and the pattern
  has Softmax or Where there
""")
def test_it_names_the_opset_or_the_operand_that_the_rule_needs(given, reason):
    words = {"opset": 23, "dtype": "float", "last": "MatMul(weights, v)"} | given
    text = ATTENTION.format(**words)
    (line,) = reasons("fuse-attention@y", FuseAttention(), text)
    assert line.startswith(f"fuse-attention[formula]: {reason}, at y = MatMul(")


def test_the_reason_that_came_closest_is_first_and_far_ones_are_counted():
    muls = " ".join(f"m{i} = Mul(m{i - 1}, {'abcdefghij'[i]})" for i in range(1, 10))
    names = ", ".join(f"float[2] {c}" for c in "abcdefghij")
    text = f"""({names}) => (float[2] y, float[2] n)
    {{ m0 = Mul(a, b) {muls} s = Sigmoid(m9) y = Mul(s, m9) n = Neg(m9) }}"""
    lines = reasons("fuse-silu", FuseSilu(), text)
    told = "fuse-silu[0]: it needs opset 24, and the model has 20, at y = Mul(s, m9)"
    assert lines[0] == told
    assert len(lines) < 8


def asked(tmp_path, question, *passes):
    path = tmp_path / "m.onnx"
    ir.save(parse(MODEL), path)
    words = [str(path), *passes, "--no-verify", "-o", str(tmp_path / "o.onnx")]
    found = CliRunner().invoke(program, [*words, "--why-not", question])
    assert found.exit_code == 0, found.output
    return [line for line in found.stderr.splitlines() if line.startswith("why not: ")]


def test_the_command_line_prints_it(tmp_path):
    rule = "eliminate-noop-arithmetic[Add-right]"
    (line,) = asked(tmp_path, f"{rule}@z", "eliminate-noop-arithmetic")
    assert line.startswith(f"why not: {rule}: its check refuses: ")
    assert "the constant is not -0.0 in each element" in line


@each_row("""question | pass_ | answer
- fuse-gelu | eliminate-identity | the pipeline runs no pass or rule of this name
- eliminate-identity | eliminate-identity | Before: ``Identity(x)``
- merge-projections | merge-projections | Leaves alone: weights that other nodes
- eliminate-double-transpose | eliminate-double-transpose | no node is left that one of its
  rules may begin at
- eliminate-zero-state | eliminate-zero-state | it does not match by rules
""")
def test_a_pass_that_tried_nothing_is_described(tmp_path, question, pass_, answer):
    assert any(answer in line for line in asked(tmp_path, question, pass_))
