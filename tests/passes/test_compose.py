from onnx_passes import testing
from onnx_passes.passes import registry
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.passes.compose import begins_nowhere, may_not_pay, operators_of
from onnx_passes.passes.eliminate.eliminate_noop_clip import EliminateNoopClip
from onnx_passes.passes.fusion.fuse_all import FuseAll
from onnx_passes.passes.fusion.fuse_conv_affine import FuseConvAffine
from tests.tables import each_row

MODEL = """(float[2] x, bool c) => (float[2] y) { y = If(c) <
    then_branch = t () => (float[2] a) { a = Relu(x) },
    else_branch = e () => (float[2] b) { b = Clip(x) }> }"""


def test_operators_in_subgraphs_count():
    operators = operators_of(testing.parse(MODEL))
    assert operators == {("", "If"), ("", "Relu"), ("", "Clip")}
    assert not begins_nowhere(EliminateNoopClip(), operators)


def test_a_pass_of_the_user_may_depend_on_more():
    mine = type("Mine", (FuseConvAffine,), {"__module__": "mine"})
    assert not begins_nowhere(mine(), frozenset())


def test_a_rule_put_in_for_another_begins_where_it_says(monkeypatch):
    operators = frozenset({("", "Relu")})

    class Changing(Transformation, RewriteRulePass):
        repeats_itself = True

        def pattern(self, op, x):
            return op.Abs(x)

        def rewrite(self, op, x):
            return op.Relu(x)

    assert begins_nowhere(Changing(), operators)
    monkeypatch.setattr(Changing, "pattern", lambda self, op, x: op.Relu(x))
    assert not begins_nowhere(Changing(), operators)


def test_what_a_fusion_brings_in_is_seen_by_the_next(monkeypatch):
    """The model did not have its operators when the fusions began."""

    class First(Transformation, RewriteRulePass):
        repeats_itself = True

        def pattern(self, op, x):
            return op.Relu(x)

        def rewrite(self, op, x):
            return op.Abs(x)

    class Second(First):
        repeats_itself = True

        def pattern(self, op, x):
            return op.Abs(x)

        def rewrite(self, op, x):
            return op.Neg(x)

    monkeypatch.setattr(FuseAll, "names", lambda self: [First, Second])
    model = testing.parse("(float[2] x) => (float[2] y) { y = Relu(x) }")
    assert FuseAll()(model).modified
    assert [node.op_type for node in model.graph] == ["Neg"]


@each_row("""name | measured
- sum-before-normalization | =True
- move-scale-to-matmul | =True
- fuse-gelu | =False
""")
def test_a_pass_says_whether_its_rewrites_are_measured(name, measured):
    (cls,) = registry.lookup(name)
    assert may_not_pay(cls(), cls.name) == measured
