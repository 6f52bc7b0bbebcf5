"""The yardstick records each line once, and fails where a frozen line is not as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from benchmarks.yardstick import __main__ as yardstick
from benchmarks.yardstick import comparison, suites

FAILED = {"outcome": "failed", "exit": 1, "passes": ["fold: 1 executed"]}
PASSED = {"outcome": "verified", "exit": 0, "passes": ["fold: 1 proved"]}
LOOKED_AT, HELD_BACK = (
    next(f"{n:03d}" for n in range(300) if suites.half_of_model("random", f"{n:03d}") == half)
    for half in (0, 1)
)


def key(model, suite="random", preset="cleanup"):
    return suite, model, preset


def invoke(*words):
    return CliRunner().invoke(yardstick.main, [str(word) for word in words])


def write(path, records):
    path.write_text("".join(comparison.line_of(k, e) for k, e in records.items()))
    return path


def compared(frozen, record):
    return comparison.compare(frozen, record)


# Recording


def test_a_record_has_a_line_for_each_item_and_is_resumed(tmp_path):
    out, wanted = tmp_path / "out.jsonl", [key(f"{number:03d}") for number in range(4)]
    yardstick.record(wanted[:2], out, None, 1, 60)
    first = comparison.read(out)
    assert list(first) == wanted[:2]
    for entry in first.values():
        assert entry["outcome"] in ("verified", "unchanged", "not verified")
        assert entry["exit"] == 0
        assert len(entry["result"]) == 12
    text = out.read_text()
    out.write_text(text + '{"suite": "ran')  # an interrupted run leaves half a line
    yardstick.record(wanted, out, None, 2, 60)
    assert set(comparison.read(out)) == set(wanted)
    assert out.read_text().startswith(text)
    assert len(out.read_text().splitlines()) == 5
    again = tmp_path / "again.jsonl"
    yardstick.record(wanted, again, None, 1, 60)
    assert comparison.read(again) == comparison.read(out)


@pytest.mark.skipif(os.name != "posix", reason="signals as on Linux and macOS")
def test_an_interrupted_run_leaves_whole_lines_only(tmp_path):
    out = tmp_path / "out.jsonl"
    words = ["run", "quick", "--suite", "random", "--out", str(out), "--jobs", "1"]
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.yardstick", *words], cwd=suites.ROOT
    )
    while child.poll() is None and not (out.exists() and out.read_text().count("\n") > 2):
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.wait() == 1
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) > 2
    assert {line["outcome"] for line in lines} <= {"verified", "unchanged", "not verified"}


def test_a_model_that_uses_too_much_time_is_a_timeout(tmp_path):
    wanted = [key("transformer", "built", "lower")]
    yardstick.record(wanted, tmp_path / "out.jsonl", None, 1, 0.05)
    assert comparison.read(tmp_path / "out.jsonl") == {wanted[0]: {"outcome": "timeout"}}


def test_what_is_not_there_is_not_run_and_tried_again(tmp_path):
    out, network = tmp_path / "out.jsonl", key("gru-dynamo", "exported")
    yardstick.record([network], out, None, 1, 60)
    assert comparison.read(out)[network]["outcome"] == "not run"
    (tmp_path / "gru-dynamo.onnx").write_bytes(suites._random_models()["000"])
    yardstick.record([network], out, str(tmp_path), 1, 60)
    assert comparison.read(out)[network]["exit"] == 0


def test_another_file_of_the_code_makes_another_record(tmp_path, monkeypatch):
    monkeypatch.setattr(yardstick, "ROOT", tmp_path)
    (tmp_path / "onnx_passes").mkdir()
    (tmp_path / "onnx_passes" / "a.py").write_text("x = 1\n")
    before = yardstick.code_hash()
    (tmp_path / "onnx_passes" / "notes.txt").write_text("nothing that is run")
    assert yardstick.code_hash() == before
    (tmp_path / "onnx_passes" / "a.py").write_text("x = 2\n")
    assert yardstick.code_hash() != before


# Items


def test_the_halves_are_all_and_have_nothing_in_common():
    names = ("random", "faults", "exported")
    halves = [set(suites.keys("full", names, half)) for half in (0, 1)]
    assert not halves[0] & halves[1]
    assert halves[0] | halves[1] == set(suites.keys("full", names))
    assert min(map(len, halves)) > 0.4 * sum(map(len, halves))


def test_all_exports_of_a_network_are_in_one_half():
    names = [f"gpt-neo-{end}" for end in ("torchscript", "dynamo", "dynamo-fixed")]
    assert len({suites.half_of_model("exported", name) for name in names}) == 1


def test_a_larger_size_has_all_of_a_smaller_one():
    quick, room, full = (set(suites.keys(size)) for size in suites.SIZES)
    assert quick < room < full
    counts = {s: len({m for suite, m, _ in full if suite == s}) for s in suites.SUITES}
    assert (counts["random"], counts["exported"], counts["backend"]) == (300, 40, 200)
    sizes = suites.sizes()
    assert {k for k, size in sizes.items() if size == "quick"} == quick
    assert sizes.keys() == full


# What is recorded


def test_console_text_is_recorded_without_what_differs_between_runs():
    text = (
        "fold   3 → 2   12 ms equal\n\n╭──── x ──╮\nVERIFIED  a 1.5 s, <1 ms, onnx 1.23.2  \n"
    )
    assert suites.normalise(text) == [
        "fold 3 → 2 TIME equal",
        "- x -",
        "VERIFIED a TIME, TIME, onnx VERSION",
    ]


# Comparing


def test_a_changed_line_fails_and_the_field_is_named(tmp_path):
    model, other = key(LOOKED_AT), key("same")
    old = write(tmp_path / "old.jsonl", {model: PASSED, other: PASSED})
    new = write(tmp_path / "new.jsonl", {model: FAILED, other: PASSED})
    done = invoke("compare", old, new)
    assert done.exit_code == 1
    assert "2 lines compared" in done.output
    assert "outcome: 1 differ (1 in random cleanup)" in done.output
    assert (
        f"random | {LOOKED_AT} | cleanup: fold: 1 proved, now fold: 1 executed" in done.output
    )
    assert "same" not in done.output
    assert invoke("compare", old, old).exit_code == 0


def test_of_a_list_what_is_gone_is_named_and_of_counts_the_one_that_differs():
    lists = {"outcome": "run", "passes": ["a", "b", "c"]}, {"outcome": "run", "passes": ["c"]}
    found = compared(*({key("x"): entry} for entry in lists))
    assert found.changed == {"passes": {key("x"): "a; b, now nothing"}}
    counts = (
        {"outcome": "run", "checks": {"a": 1, "b": 8}},
        {"outcome": "run", "checks": {"a": 1}},
    )
    found = compared(*({key("x"): entry} for entry in counts))
    assert found.changed == {"checks": {key("x"): "b 8, now nothing"}}


def test_of_the_half_that_is_held_back_only_numbers_are_printed(tmp_path):
    old = write(tmp_path / "old.jsonl", {key(HELD_BACK): PASSED})
    new = write(tmp_path / "new.jsonl", {key(HELD_BACK): FAILED})
    closed, opened = invoke("compare", old, new), invoke("compare", old, new, "--half", 1)
    assert closed.exit_code == opened.exit_code == 1
    assert f"| {HELD_BACK} |" not in closed.output
    assert "and 1 in the half that is held back" in closed.output
    assert f"| {HELD_BACK} |" in opened.output


def test_a_line_that_is_gone_fails_and_a_new_one_does_not():
    found = compared({key("a"): PASSED, key("b"): PASSED}, {key("a"): PASSED})
    assert found.differs
    assert found.gone == [key("b")]
    found = compared({key("a"): PASSED}, {key("a"): PASSED, key("b"): PASSED})
    assert not found.differs
    assert "1 lines are not frozen" in "\n".join(comparison.report(found, 10))


def test_a_field_that_is_not_stable_is_not_compared_and_the_others_are():
    frozen = {key("a"): PASSED | {"size": "quick", "unstable": {"passes": "a set"}}}
    found = compared(frozen, {key("a"): PASSED | {"passes": ["another"]}})
    assert not found.differs
    assert "1 fields of them skipped as unstable" in comparison.report(found, 10)[0]
    assert compared(frozen, {key("a"): PASSED | {"exit": 3}}).changed["exit"]


def test_what_was_not_run_is_reported_and_not_compared():
    network, rule = key("gru-dynamo", "exported"), key("fuse: a", "rules")
    absent = {"outcome": "not run", "reason": "it is not there"}
    frozen = {network: PASSED, rule: PASSED}
    found = compared(frozen, {network: absent, key(suites.ABSENT, "rules"): absent})
    assert not found.differs
    text = "\n".join(comparison.report(found, 10))
    assert "not run: exported, 1 lines: it is not there" in text
    assert "not run: rules, 1 lines: it is not there" in text
    assert "nothing was compared" in text


def test_only_lines_of_a_size_a_suite_and_a_half_are_compared():
    frozen = {
        key(LOOKED_AT): {"size": "quick"},
        key(HELD_BACK): {"size": "quick"},
        key(LOOKED_AT, preset="lower"): {"size": "full"},
        key("x", "backend"): {"size": "room"},
    }
    assert len(comparison.within(frozen, "full", [], None)) == 4
    assert set(comparison.within(frozen, "room", ["random"], 0)) == {key(LOOKED_AT)}


# Freezing


def freeze(folder, *records, reason=None, sizes=None):
    known = {k: "quick" for record in records for k in record} | (sizes or {})
    comparison.freeze(records, known, reason, folder)
    return comparison.read(*comparison.half_files(folder))


def test_a_frozen_record_is_compared_as_equal_and_each_half_has_its_file(tmp_path):
    record = {key(LOOKED_AT): PASSED, key(HELD_BACK): FAILED}
    frozen = freeze(tmp_path, record)
    assert not compared(frozen, record).differs
    assert compared(frozen, record).compared == 2
    for half, path in enumerate(comparison.half_files(tmp_path)):
        (name,) = comparison.read(path)
        assert suites.half_of_model(*name[:2]) == half


def test_freezing_keeps_what_a_record_does_not_have_and_removes_what_is_no_item(tmp_path):
    small, gone, large = key("001"), key("002"), key("003")
    freeze(tmp_path, {small: PASSED, gone: PASSED, large: PASSED})
    frozen = freeze(tmp_path, {small: FAILED}, sizes={large: "room"})
    assert set(frozen) == {small, large}
    assert frozen[small]["outcome"] == "failed"
    assert frozen[large]["size"] == "room"


def test_freezing_keeps_what_was_not_run(tmp_path):
    network, rule = key("gru-dynamo", "exported"), key("fuse: a", "rules")
    before = freeze(tmp_path, {network: PASSED, rule: PASSED})
    absent = {"outcome": "not run", "reason": "it is not there"}
    rules = {key(suites.ABSENT, "rules"): "quick"}
    assert freeze(tmp_path, {network: absent}, sizes=rules) == before


def test_records_that_differ_are_frozen_only_with_a_reason(tmp_path):
    stable = {key(f"{number:03d}", "backend"): PASSED for number in range(100)}
    first, second = ({key("a"): entry} | stable for entry in (PASSED, FAILED))
    with pytest.raises(ValueError, match=r"1 lines differ between the records:\n.* a "):
        freeze(tmp_path, first, second)
    frozen = freeze(tmp_path, first, second, reason="a limit in seconds")
    assert set(frozen[key("a")]["unstable"]) == {"outcome", "exit", "passes"}
    assert not compared(frozen, second).differs
    assert freeze(tmp_path, first) == frozen  # the mark stays


def test_many_unstable_lines_are_not_frozen(tmp_path):
    first, second = ({key(f"{n:03d}"): entry for n in range(9)} for entry in (PASSED, FAILED))
    with pytest.raises(ValueError, match="9 of 9 lines are unstable"):
        freeze(tmp_path, first, second, reason="a set")


def test_the_frozen_lines_are_in_order_and_free_of_times_and_paths():
    total = unstable = 0
    for half, path in enumerate(comparison.half_files()):
        text = path.read_text("utf-8")
        lines = comparison.read(path)
        assert len(lines) == len(text.splitlines())
        assert list(lines) == sorted(lines)
        assert {suites.half_of_model(*k[:2]) for k in lines} == {half}
        assert {entry["size"] for entry in lines.values()} <= set(suites.SIZES)
        assert not re.search(r"/tmp/|/home/|\d (?:ms|s)\b|\d+\.\d+\.\d+", text)
        total += len(lines)
        unstable += sum("unstable" in entry for entry in lines.values())
    assert total > 1000
    assert unstable <= comparison.MOST_UNSTABLE * total
