import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onnx_passes.contracts import Tolerance
from onnx_passes.errors import UnknownMetricError, UsageError
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import ReferenceReport, RunReport
from onnx_passes.report.summary import outcome
from onnx_passes.report.threshold import reapply
from onnx_passes.verify.compare import compare
from onnx_passes.verify.judge import Worst
from onnx_passes.verify.result import Check, Verdict


def run_of(check, samples=1):
    verdict = check.verdict
    done = PassReport(0, "fuse", "tolerance", verdict, changed=True, checks=[check])
    report = RunReport("m.onnx", None, "fuse", verify=True, passes=[done])
    report.reference = ReferenceReport("generated (seed 0)", samples)
    return report


def judged(expected, actual, rtol, atol):
    outputs = compare({"y": expected}, {"y": actual}, Tolerance(rtol, atol))
    verdict = Verdict.PASSED if all(o.passed for o in outputs) else Verdict.FAILED
    return Check("tolerance", verdict, "onnxruntime", outputs=outputs)


floats = st.floats(-4, 4, width=32) | st.sampled_from([0.0, np.nan, np.inf, 1e-6])
tensors = arrays.arrays(np.float32, 4, elements=floats)
limits = st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0])


@given(tensors, tensors, limits, limits, limits, limits)
def test_what_is_decided_is_what_inference_would_have_found(a, b, rtol, atol, rtol2, atol2):
    saved = run_of(judged(a, b, rtol, atol))
    decided = reapply(saved, rtol2, atol2).passes[0].verdict
    assert decided in (judged(a, b, rtol2, atol2).verdict, Verdict.NOT_VERIFIED)
    looser = rtol2 >= rtol and atol2 >= atol
    if looser and saved.passes[0].verdict is Verdict.PASSED:
        assert decided is Verdict.PASSED


@given(st.lists(st.tuples(tensors, tensors), min_size=2, max_size=3), limits, limits, limits)
def test_other_samples_are_not_forgotten(pairs, rtol, atol, atol2):
    checks = [judged(a, b, rtol, atol) for a, b in pairs]
    worst = Worst()
    for sample, check in enumerate(checks):
        worst.add(sample, check.outputs)
    failed = any(check.verdict is Verdict.FAILED for check in checks)
    verdict = Verdict.FAILED if failed else Verdict.PASSED
    saved = Check("tolerance", verdict, "onnxruntime", outputs=tuple(worst.found.values()))
    decided = reapply(run_of(saved, len(pairs)), atol=atol2).passes[0].verdict
    fails = any(judged(a, b, rtol, atol2).verdict is Verdict.FAILED for a, b in pairs)
    truth = Verdict.FAILED if fails else Verdict.PASSED
    assert decided in (truth, Verdict.NOT_VERIFIED)


def test_the_saved_report_is_left_alone(sample):
    report = sample("resnet50")
    before = copy.deepcopy(report)
    reapply(report, 0.0, 0.0)
    assert report == before


def test_a_tighter_limit_fails_the_pass_whose_worst_element_breaks_it(sample):
    result = reapply(sample("resnet50"), rtol=0.0, atol=5e-6)
    verdicts = {p.name: p.verdict for p in result.passes}
    assert verdicts["fuse-gemm-activation"] is Verdict.FAILED
    assert verdicts["merge-relus"] is not Verdict.FAILED
    assert (outcome(result).head, result.exit_code) == ("FAILED", 1)
    assert "fails the new thresholds" in result.passes[-1].error
    assert result.notes[-1].endswith("rtol 0, atol 5e-6.")


def test_what_the_numbers_do_not_decide_is_said(sample):
    result = reapply(sample("resnet50"), rtol=0.0, atol=9.5e-6)
    fuse = result.passes[-1]
    assert fuse.verdict is Verdict.NOT_VERIFIED
    told = "cannot be decided without inference: only the worst of 3 samples was saved"
    assert told in result.not_verified[-1]
    assert outcome(result).head == "PARTLY VERIFIED"


def test_a_looser_limit_clears_a_failure_and_tells_what_never_ran():
    a = np.float32([1.0, 2.0])
    report = run_of(judged(a, a + np.float32(0.5), 0.0, 0.1))
    report.error = report.passes[0].error = "VerificationError: y not as expected"
    report.passes[0].action, report.exit_code = "stopped", 1
    result = reapply(report, atol=0.5)
    assert result.passes[0].verdict is Verdict.PASSED
    assert (result.error, result.passes[0].error, result.exit_code) == (None, None, 0)
    assert "stopped at fuse" in result.not_verified[0]


def test_metrics_are_always_decided(sample):
    report = sample("resnet50")
    assert reapply(report, metrics={"top-1-accuracy": (0.8, 1.0)}).exit_code == 1
    fine = reapply(report, metrics={"top-1-accuracy": (0.5, 1.0)})
    assert fine.final[-1].metrics[0].low == 0.5
    assert outcome(fine).head == "VERIFIED"


def test_equality_and_integers_have_no_threshold(build):
    a, b = np.int64([1, 2]), np.int64([1, 3])
    ints = reapply(run_of(judged(a, b, 0.0, 0.0)), 1.0, 10.0)
    assert ints.passes[0].verdict is Verdict.FAILED
    broken = build.break_adds()
    report = RunReport("m", None, "", verify=True, passes=[broken])
    assert reapply(report, 1e9, 1e9).passes[0].verdict is Verdict.FAILED


def test_a_crash_stays_a_failure():
    crash = Check("tolerance", Verdict.FAILED, "tensorrt", reason="the engine crashed")
    assert reapply(run_of(crash), 1.0, 1.0).passes[0].verdict is Verdict.FAILED


def test_a_shape_that_differs_stays_a_failure():
    check = judged(np.float32([1]), np.float32([1, 1]), 0.0, 0.0)
    assert reapply(run_of(check), 1.0, 1.0).passes[0].verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"rtol": -1.0}, "rtol is -1"),
        ({"atol": float("nan")}, "atol is nan"),
        ({"metrics": {"top-1-accuracy": (1.0, 0.5)}}, "no value of top-1-accuracy"),
    ],
)
def test_limits_that_make_no_sense_are_refused(sample, given_, told):
    with pytest.raises(UsageError, match=told):
        reapply(sample("resnet50"), **given_)


def test_a_metric_that_was_not_measured_is_refused(sample):
    with pytest.raises(UnknownMetricError, match="measured were: top-1-accuracy"):
        reapply(sample("resnet50"), metrics={"psnr": (30, 100)})
