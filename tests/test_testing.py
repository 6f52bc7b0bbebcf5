import pytest

from onnx_passes.contracts import equality
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.testing import assert_leaves_alone, assert_rewrites, graph


@equality
class MergeRelus(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(op.Relu(x))

    def rewrite(self, op, x):
        return op.Relu(x)


@equality
class BreakRelus(MergeRelus):
    def rewrite(self, op, x):
        return op.Abs(x)


NESTED = graph("t = Relu(x)  y = Relu(t)")


def test_accepts_what_is_right():
    assert_rewrites(MergeRelus(), before=NESTED, after=graph("y = Relu(x)"))
    assert_leaves_alone(MergeRelus(), graph("y = Relu(x)"))


def test_shows_the_difference_of_another_graph():
    with pytest.raises(AssertionError, match="Neg"):
        assert_rewrites(MergeRelus(), before=NESTED, after=graph("y = Neg(x)"))


def test_catches_a_graph_as_expected_that_computes_something_else():
    with pytest.raises(AssertionError, match="y not as expected"):
        assert_rewrites(BreakRelus(), before=NESTED, after=graph("y = Abs(x)"))


def test_says_that_a_pass_did_not_fire_or_fired():
    with pytest.raises(AssertionError, match="merge-relus did not fire"):
        assert_rewrites(MergeRelus(), before=graph("y = Relu(x)"), after=graph("y = Relu(x)"))
    with pytest.raises(AssertionError, match="merge-relus fired"):
        assert_leaves_alone(MergeRelus(), NESTED)
