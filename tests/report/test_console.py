import dataclasses
import io

import pytest

from onnx_passes.report.console import ConsoleReporter
from onnx_passes.report.run_report import Blame
from onnx_passes.verify.evidence import Check, MetricCheck, Verdict
from tests.tables import each_of


class Stream(io.TextIOWrapper):
    def __init__(self, terminal, encoding):
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def text(self):
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)


def printed(report, *, terminal=False, verbosity=0, width=100, encoding="utf-8"):
    stream = Stream(terminal, encoding)
    console = ConsoleReporter(stream, verbosity=verbosity, width=width)
    console.start(report)
    for done in report.passes:
        console.pass_finished(done)
    console.finished(report)
    return stream.text()


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def test_the_verdict_comes_first_then_what_changed_and_what_was_checked(sample):
    lines = printed(sample("resnet50"), terminal=True).splitlines()
    assert lines[0] == "VERIFIED  models/resnet50-v1-7.onnx → out/resnet50.onnx  13.4 s"
    labels = [line[:12].strip() for line in lines[1:] if line[:12].strip()]
    assert labels[:4] == ["nodes", "weights", "changed", "checked"]
    text = " ".join(" ".join(lines).split())
    assert "231 → 117 (-49.4 %)" in text
    assert "60 rewrites by 4 rules: 53 FoldBatchNormalization" in text
    assert "ONNX Runtime 1.31.1" in text
    assert "outputs within 8.8e-6, top-1-accuracy 0.7582" in text
    assert "prepacking" not in text


def test_outputs_that_rounding_decides_are_told_from_faults(sample):
    report = sample("resnet50")
    (check,) = (c for c in report.final if c.outputs and c.engine == report.engines[0].name)
    told = "5 of 10 elements are undecided"
    outputs = (dataclasses.replace(check.outputs[0], reason=told), *check.outputs[1:])
    changed = dataclasses.replace(check, outputs=outputs, reason=f"y: {told}")
    report.final[report.final.index(check)] = changed
    assert f"y: {told}" in " ".join(printed(report, width=500).split())


@each_of("verbosity", 0, 1)
def test_what_a_changed_pass_of_precision_leaves_is_told_once(sample, verbosity):
    report = sample("resnet50")
    done = next(done for done in report.passes if done.changed)
    done.contract, done.notes = "metric", ["2 kept, weights of Gather: e, f"]
    assert printed(report, width=500, verbosity=verbosity).count(done.notes[0]) == 1


@each_of("name", "resnet50", "broken", "partly", "unverified", "huge")
def test_a_pipe_gets_the_same_text_and_a_line_for_each_statement(sample, name):
    def words(text):
        return text.split()

    piped = printed(sample(name), width=60)
    assert words(piped) == words(printed(sample(name), terminal=True, width=60))
    assert "\x1b" not in piped
    assert not [line for line in piped.splitlines() if len(line) < 15]


@each_of("width", 60, 80, 120)
@each_of("name", "resnet50", "broken", "partly", "unverified")
def test_a_summary_fits_and_breaks_no_word(sample, name, width):
    lines = printed(sample(name), terminal=True, width=width).splitlines()
    assert max(map(len, lines)) <= width
    piped = printed(sample(name)).split()
    assert " ".join(lines).split() == piped


def test_the_headline_shortens_the_options_of_a_pass(sample):
    report = sample("broken")
    report.passes[-1].name = f"lower-functions{{operators=[{', '.join(['Celu'] * 40)}]}}"
    head = printed(report, width=500).splitlines()[0]
    assert head.startswith("FAILED at pass 7: lower-functions{operators=[Celu")
    assert "Celu]}" in head
    assert head.count("Celu") < 12


def test_a_failed_run_names_what_was_rolled_back_in_one_line_each(sample, build):
    report = sample("broken")
    raised = report.passes[-1]
    raised.action, raised.checks = "rolled back", []
    raised.error = "FixpointError: again and again\n  = help: refuse it"
    report.passes.append(build.break_adds(action="warned"))
    text = printed(report, verbosity=1)
    assert "  without   break-adds, rolled back: again and again\n" in text
    assert "  then      the pass was kept\n" in text


def test_what_is_rolled_back_is_not_in_the_result(sample):
    report = sample("broken")
    failed = report.passes[-1]
    failed.action, report.error, report.exit_code = "rolled back", None, 0
    failed.error = None
    text = printed(report)
    assert text.startswith("PARTLY VERIFIED without break-adds")
    assert "break-adds, rolled back: " in text
    assert "BreakAdds" not in text
    assert "FAILED" not in text


def test_quiet_prints_why_the_exit_code_is_not_0_and_nothing_else(sample):
    assert printed(sample("resnet50"), verbosity=-1, terminal=True) == ""
    assert printed(sample("unverified"), verbosity=-1) == ""
    partly = sample("partly")
    partly.exit_code = 4
    told = printed(partly, verbosity=-1).splitlines()
    assert told[0].startswith("PARTLY VERIFIED")
    assert all(line.startswith(("not verified: ", "precondition: ")) for line in told[1:])
    assert len(told) > 1
    text = printed(sample("broken"), verbosity=-1)
    assert text.startswith("FAILED at pass 7: break-adds")
    assert "next" not in text


@each_of("terminal", True, False)
@each_of("width", 60, 100, 200)
def test_a_failure_says_first_where_then_what_became_of_what(sample, terminal, width):
    text = printed(sample("broken"), terminal=terminal, width=width)
    assert text.startswith("FAILED at pass 7: break-adds")
    told = " ".join(text.split())
    assert "the pass promises equality, which 1 of its 16 rewrites did not keep" in told
    assert "#58 BreakAdds: Add(bn2, shortcut2) -> add2 → Add(bn2, bn2) -> add2" in told
    assert "resnetv17_dense0_fwd: 12.25 became 21.5625" in told
    assert "nothing was written" in told
    assert "repro.py" in told
    assert "-s on_failure=rollback" in told
    assert "PostconditionError" not in told


def test_a_failure_that_is_traced_to_an_earlier_pass_says_so(sample):
    report = sample("broken")
    report.passes[-1].blame = [Blame(3, "fuse-all", "by bisection", 3, "fuse-matmul-add")]
    told = " ".join(printed(report, width=200).split())
    assert "the error is traced to 1 rewrite of fuse-all, before this pass:" in told
    assert "of its" not in told


def test_long_names_leave_the_operators_of_a_rewrite_legible(sample):
    report = sample("broken")
    blame = Blame(report.passes[-1].index, "fuse-all", "by bisection", 3, "fuse-matmul-add")
    report.passes[-1].blame = [blame]
    long = "StatefulPartitionedCall/model/dense_12/BiasAdd/ReadVariableOp:"
    blame.nodes = [f"{long}0 = Add({long}1, {long}2)", f"{long}2 = MatMul({long}3, {long}4)"]
    blame.new_nodes = [f"{long}0 = Gemm({long}3, {long}4, {long}1)"]
    told = " ".join(printed(report, width=400).split())
    assert "= Add(" in told
    assert "= MatMul(" in told
    assert "→ StatefulPar…ariableOp:0 = Gemm(StatefulPar…ariableOp:3" in told


def test_a_failure_has_its_nodes_and_limits_if_asked_for(sample):
    text = printed(sample("broken"), verbosity=1)
    for told in ["#58 BreakAdds", "Add(bn2, shortcut2) -> add2", "Add(bn2, bn2) -> add2"]:
        assert told in text
    for told in ["resnetv17_dense0_fwd at [0, 463]", "12.25", "21.5625", "limit 0 (equality)"]:
        assert told in text


def test_wrong_rewrites_come_with_the_worst_first(sample, build):
    from dataclasses import replace

    report = sample("broken")
    failed = report.passes[-1]
    value = next(o for check in failed.checks for o in check.outputs if not o.passed)
    failed.blame = [
        Blame(7, "break-adds", "", number, "R", ["a"], ["b"], replace(value, max_abs=error))
        for number, error in enumerate([1.0, 9.0, 4.0], 1)
    ]
    lines = [line for line in printed(report).splitlines() if "#" in line]
    assert [line.split("#")[1][0] for line in lines] == ["2", "3", "1"]


def test_github_gets_an_annotation(sample, monkeypatch):
    assert "::error" not in printed(sample("broken"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (line,) = [n for n in printed(sample("broken")).splitlines() if n.startswith("::error")]
    assert line.startswith("::error file=models/resnet50-v1-7.onnx,title=FAILED at pass 7")
    assert "%0A" in line
    assert "::error" not in printed(sample("resnet50"))


def test_an_unknown_culprit_is_called_unknown(sample):
    report = sample("broken")
    report.passes[-1].culprits = []
    assert "one of 16 rewrites; not known which" in printed(report)


def test_a_result_that_loses_too_much_has_a_way_on(sample):
    report = sample("resnet50")
    metric = MetricCheck("cosine", 0.9, 0.99, 1.0, 1)
    report.final = [Check("metric", Verdict.FAILED, "onnxruntime", metrics=(metric,))]
    report.error, report.output = "VerificationError: the result is too far", None
    text = printed(report)
    ways = text[text.index("  try ") :].splitlines()
    assert "--inputs FILE measures on your data" in ways[0]
    assert "--metric NAME=LOW:HIGH" in ways[1]
    assert "on_failure" not in text


def test_an_error_without_a_pass_is_printed_once(sample):
    text = printed(sample("unreadable"))
    assert text.count("model.onnx is not an ONNX model") == 1


@each_of("terminal", True, False)
def test_what_was_not_verified_is_said_at_every_level_but_quiet(sample, terminal):
    off = printed(sample("unverified"), terminal=terminal)
    assert "VERIFICATION IS OFF" in off
    assert "switched off by --no-verify" in off
    text = printed(sample("partly"), terminal=terminal)
    assert "fold-batch-normalization on tensorrt (fp16): TensorRT 10.3 is not on" in text


def test_verbose_shows_rewrites_and_checks_and_twice_every_output(sample):
    once = printed(sample("resnet50"), verbosity=1)
    assert "#1 EliminateIdentity: Identity(x0) -> y0 => nothing" in once
    assert "and 33 more rewrites (-vv shows all)" in once
    assert "tolerance on onnxruntime, model: within 2.9e-6, 410 ms" in once
    assert "max rel" not in once
    twice = printed(sample("resnet50"), verbosity=2)
    assert "#55 FoldBatchNormalization" in twice
    assert "0 of 1,000 outside rtol 1.3e-6, atol 1e-5" in twice


@each_of("width", 60, 80, 120)
def test_lines_of_passes_fit_and_say_the_same_at_every_width(any_report, width):
    any_report.passes = any_report.passes[:20]
    lines = printed(any_report, terminal=True, verbosity=1, width=width).splitlines()
    assert max(map(len, lines)) <= width
    same = printed(any_report, verbosity=1)
    assert "".join("".join(lines).split()) == "".join(same.split())


@each_of("encoding", "ascii", "latin-1", "cp1252", "utf-8")
@each_of("terminal", True, False)
def test_any_terminal_can_show_any_report(any_report, encoding, terminal):
    any_report.passes = any_report.passes[:20]
    any_report.notes.append("naïve 名前 → \U0001f600")
    text = printed(any_report, encoding=encoding, terminal=terminal, verbosity=2)
    assert "\x1b" not in text
    assert "\u202e" not in text


@each_of("name", "broken", "resnet50")
@each_of("terminal, force", (True, False), (False, True))
def test_colour_is_used_where_it_is_wanted(sample, monkeypatch, name, terminal, force):
    monkeypatch.setenv("TERM", "xterm-256color")
    if force:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[3" not in printed(sample(name), terminal=terminal)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[" in printed(sample(name), terminal=terminal)


def test_a_hostile_name_cannot_flood_the_terminal(sample):
    report = sample("broken")
    report.passes[-1].rewrites[2].nodes = ["x" * 1_000_000]
    assert len(printed(report, terminal=True)) < 10_000
