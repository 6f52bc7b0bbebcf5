import math

from onnx_passes.report.summary import (
    blamed,
    check_words,
    failing,
    margin,
    outcome,
    verdict_words,
)
from onnx_passes.verify.evidence import Check, MetricCheck, Verdict
from tests.tables import each_row


@each_row("""name | head
- resnet50 | VERIFIED
- empty | UNCHANGED
- broken | FAILED
- unreadable | FAILED
- unverified | NOT VERIFIED
- partly | PARTLY VERIFIED
""")
def test_a_run_has_one_verdict(sample, name, head):
    assert outcome(sample(name)).head == head


def test_a_pass_rolled_back_does_not_fail_the_run_but_is_named(sample, build):
    report = sample("resnet50")
    report.passes[6] = build.break_adds(action="rolled back")
    words = outcome(report)
    assert (words.head, words.why) == ("VERIFIED", "break-adds failed and rolled back")


def test_a_failed_pass_that_was_kept_fails_the_run(sample, build):
    report = sample("resnet50")
    report.passes[6] = build.break_adds(action="warned")
    assert outcome(report).why == "break-adds failed and was kept"


def test_an_end_result_that_differs_fails_the_run(sample):
    report = sample("resnet50")
    report.final.append(Check("drift", Verdict.FAILED, reason="budget exceeded"))
    assert outcome(report).why == "the result differs from the original: budget exceeded"


def test_a_run_is_not_verified_while_its_end_is_open(sample):
    report = sample("resnet50")
    report.final = [Check("drift", Verdict.NOT_VERIFIED, reason="out of memory")]
    words = outcome(report)
    assert (words.head, words.why) == ("PARTLY VERIFIED", "not verified: the end result")


def test_verdicts_of_a_pass(build):
    def words(checks, **more):
        return verdict_words(build.passed(0, "p", (2, 1), checks, **more)).head

    assert words([build.structure(), build.equal()]) == "equal"
    assert words([build.equal(), build.close(3.01e-7)]) == "within 3.1e-7"
    assert words([build.close(0.0)]) == "equal"
    assert words([build.structure()]) == "proved"
    assert words([], verdict=Verdict.FAILED, action="rolled back") == "FAILED, rolled back"
    assert words([], verdict=Verdict.NOT_VERIFIED) == "not verified"
    assert words([], verdict=Verdict.UNCHANGED) == "no change"


def test_a_metric_says_its_value_and_a_failed_one_its_range():
    low = MetricCheck("accuracy", 0.7, 0.75, 1.0, 500)
    failed = check_words(Check("metric", Verdict.FAILED, metrics=(low,)))
    assert failed.why == "accuracy is 0.7, not in [0.75, 1]"
    fine = check_words(Check("metric", Verdict.PASSED, metrics=(low,)))
    assert fine.head == "accuracy 0.7"


def test_under_equality_any_error_is_infinitely_past_the_limit(build):
    seen = margin([Check("equality", Verdict.FAILED, outputs=(build.output(error=0.5),))])
    assert (seen.limit, seen.ratio) == (0.0, math.inf)


def test_a_new_nan_is_an_infinite_error(build):
    wrong = build.output(expected=1.0, actual="nan", max_abs=0.0, rtol=1e-3)
    assert margin([Check("tolerance", Verdict.FAILED, outputs=(wrong,))]).error == math.inf


def test_a_limit_that_followed_the_tensors_largest_element_is_not_made_up(build):
    inside = build.output(error=0.5, rtol=0.01)
    seen = margin([Check("tolerance", Verdict.PASSED, scope="region", outputs=(inside,))])
    assert (seen.limit, seen.ratio) == (None, 1.0)


def test_an_output_of_strings_has_no_margin(build):
    words = build.output(max_abs=None, max_rel=None, expected="'cat'", actual="'cat'")
    assert margin([Check("equality", Verdict.PASSED, outputs=(words,))]) is None


def test_the_output_furthest_past_its_limit_is_the_one_shown(build):
    near = build.output("near", error=1e-3, passed=False, rtol=1e-6)
    far = build.output("far", error=1.0, passed=False, rtol=1e-6)
    check = Check("tolerance", Verdict.FAILED, outputs=(near, far, build.output("fine")))
    assert failing([build.structure(), check])[1].output == "far"
    assert failing([build.structure()]) is None


def test_blame_needs_a_reason(build):
    named = build.break_adds()
    assert [r.number for r in blamed(named)] == [58]
    named.culprits = []
    assert blamed(named) == []
    named.rewrites = named.rewrites[:1]
    assert blamed(named) == named.rewrites
