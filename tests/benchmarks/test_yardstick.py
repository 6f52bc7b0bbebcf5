"""Verdicts are recorded once each, limited in time, and compared field by field."""

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from benchmarks import verdict_suites, verdicts
from onnx_passes.errors import EngineError, VerificationError


def invoke(*words):
    return CliRunner().invoke(verdicts.main, [str(word) for word in words])


def record(out, *words):
    done = invoke("record", out, *words)
    assert done.exit_code == 0, done.output
    return verdicts.read(out)


def write(path, **entries):
    lines = (
        {"suite": "random", "model": model, "preset": "cleanup", **entry}
        for model, entry in entries.items()
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_record_has_a_line_for_each_model_and_is_resumed(tmp_path):
    out, words = tmp_path / "out.jsonl", ("--suite", "random", "--preset", "cleanup")
    first = record(out, *words, "--limit", 2)
    assert list(first) == [("random", name, "cleanup") for name in ("0000", "0001")]
    for entry in first.values():
        assert entry["outcome"] in ("verified", "unchanged", "not verified")
        assert entry["exit_code"] == 0
        assert len(entry["hash"]) > 10
        assert entry["seconds"] >= 0
    text = out.read_text()
    out.write_text(text + '{"suite": "ran')  # an interrupted run leaves half a line
    again = record(out, *words, "--limit", 4, "--every", 2)
    assert list(again)[:2] == list(first)
    assert [model for _, model, _ in again] == ["0000", "0001", "0002", "0004", "0006"]
    assert out.read_text().startswith(text)
    assert invoke("diff", out, out).exit_code == 0


def test_a_pass_of_a_run_is_named_with_its_checks():
    entry = verdict_suites.judge("networks", "transformer", "cleanup", None)
    assert entry["outcome"] == "verified"
    lifted = next(p for p in entry["passes"] if p["pass"] == "lift-constants")
    assert lifted["verdict"] == "passed"
    assert "equality region passed" in lifted["checks"]
    assert entry["final"]


def test_a_model_that_uses_too_much_time_is_a_timeout(tmp_path):
    words = ("--suite", "networks", "--preset", "lower", "--limit", 1, "--seconds", 0.05)
    (entry,) = record(tmp_path / "out.jsonl", *words).values()
    assert entry == {"outcome": "timeout", "exit_code": None}


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (VerificationError("too far"), "failed", 1),
        (EngineError("cannot run"), "refused", 3),
        (ValueError("a fault of ours"), "crashed", None),
    ],
)
def test_an_exception_is_recorded_with_its_class_and_exit_code(error, outcome, code):
    entry = verdict_suites.describe_error(error)
    assert (entry["outcome"], entry["exit_code"]) == (outcome, code)
    assert entry["error"] == type(error).__name__


def test_a_report_with_fewer_fields_is_described():
    done = SimpleNamespace(name="fold", verdict="passed")
    run = SimpleNamespace(report=SimpleNamespace(passes=[done]), error=None)
    entry = verdict_suites.describe_run(run)
    assert entry["passes"] == [{"pass": "fold", "verdict": "passed", "checks": []}]
    assert entry["final"] == []


def test_two_records_are_compared_by_field_and_model(tmp_path):
    passes = [{"pass": "fold", "verdict": "passed", "checks": ["equality region passed"]}]
    failed = [{"pass": "fold", "verdict": "failed", "checks": ["equality region failed"]}]
    a = {"outcome": "verified", "exit_code": 0, "passes": passes, "seconds": 1}
    b = {"outcome": "failed", "exit_code": 1, "passes": failed, "seconds": 9, "message": "no"}
    old = write(tmp_path / "old.jsonl", x=a, y=a, gone=a)
    new = write(tmp_path / "new.jsonl", x=b, y={**a, "seconds": 5})
    done = invoke("diff", old, new)
    assert done.exit_code == 1
    assert "2 in both, 1 only in the old record, 0 only in the new one" in done.output
    assert "outcome: 1 differ" in done.output
    assert "random x cleanup: fold: verdict passed -> failed" in done.output
    assert " y " not in done.output
    assert "message" not in done.output
    assert "message: 1 differ" in invoke("diff", old, new, "--wording").output


def test_times_and_widths_are_masked():
    text = "fold   3 → 2   12 ms equal\n╭──── x ──╮\nVERIFIED  a 1.5 s, <1 ms, 3 samples   \n"
    assert verdict_suites.mask(text) == (
        "fold 3 → 2 TIME equal\n╭─ x ─╮\nVERIFIED a TIME, TIME, 3 samples\n"
    )


def test_an_example_is_run_by_its_command():
    entry = verdict_suites.judge("examples", "break_adds", "own", None)
    assert entry["outcome"] == "ended with 1"
    assert "FAILED" in entry["console"]
    assert "TIME" in entry["console"]


def test_a_planted_fault_is_caught_and_named():
    name = next(n for n in verdict_suites._faults() if n.endswith("/negative-index"))
    entry = verdict_suites.judge("faults", name, "small", None)
    assert entry["outcome"] == "caught"
    assert entry["named"]["default"] == "right"
