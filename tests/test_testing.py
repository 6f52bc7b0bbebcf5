import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.contracts import equality
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.run_report import PassReport, RewriteSummary
from onnx_passes.testing import (
    assert_each_application_executed,
    assert_leaves_alone,
    assert_rewrites,
    graph,
    parse,
)
from onnx_passes.verify.evidence import Evidence, Kind
from tests.tables import each_of


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


def test_each_application_of_a_run_is_executed():
    model = parse(graph("t = Relu(x)  u = Relu(t)  y = Neg(u)"))
    run = run_pipeline(model, default_config(extra_passes=["eliminate-repeated-unary"]))
    assert_each_application_executed(run)
    assert_each_application_executed(run.report)
    assert_each_application_executed(run.report.passes[0])


def test_a_run_in_which_nothing_is_applied_is_not_accepted():
    run = run_pipeline(
        parse(graph("y = Neg(x)")), default_config(extra_passes=["eliminate-repeated-unary"])
    )
    with pytest.raises(AssertionError, match="no pass has applied anything"):
        assert_each_application_executed(run)


@each_of("kind", Kind.OUTPUTS_ONLY, Kind.BLIND, Kind.NOTHING)
def test_an_application_that_was_seen_at_the_outputs_only_is_not_accepted(kind):
    good = Evidence("merge-relus", Kind.EXECUTED, (1,), 18)
    weak = Evidence("merge-relus", kind, (2,), reason="its nodes were not run")
    done = PassReport(0, "merge-relus", "equality", changed=True, evidence=[good, weak])
    with pytest.raises(AssertionError, match=f"merge-relus: {kind}, its nodes were not run"):
        assert_each_application_executed(done)


def test_an_application_without_evidence_is_not_accepted():
    rewrites = [RewriteSummary(n, "merge-relus", [], [], []) for n in (1, 2)]
    done = PassReport(0, "merge-relus", "equality", changed=True, rewrites=rewrites)
    done.evidence = [Evidence("merge-relus", Kind.PROVED, (1,))]
    with pytest.raises(AssertionError, match="rewrite 2 "):
        assert_each_application_executed(done)
