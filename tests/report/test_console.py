import io

import pytest

from onnx_passes.report.console import ConsoleReporter
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.console_text import ConsoleText
from onnx_passes.report.summary import verdict_words

BREAK_LINES = [
    "PostconditionError: Post-condition for pass 'BreakAdds' failed",
    "VerificationError: resnetv17_dense0_fwd not as expected: 998 of 1000 elements differ, "
    "by up to 9.31",
]


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
    with ConsoleReporter(stream, verbosity=verbosity, width=width) as console:
        console.start(report)
        for done in report.passes:
            console.pass_started(done)
            console.pass_finished(done)
        console.finished(report)
    return stream.text()


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def test_a_terminal_shows_a_line_per_pass_and_a_summary(sample):
    lines = printed(sample("resnet50"), terminal=True).splitlines()
    fold = next(line for line in lines if line.startswith("fold-batch-normalization"))
    words = "fold-batch-normalization 175 → 122 53 rewrites 2.2 s within 4.1e-6"
    assert " ".join(fold.split()) == words
    text = "\n".join(lines)
    assert "VERIFIED  models/resnet50-v1-7.onnx → out/resnet50.onnx  13.4 s" in text
    assert "onnxruntime 1.31.1: agrees, 8 checks passed" in text
    assert "top-1-accuracy 0.7582" in text


def test_passes_in_a_row_that_change_nothing_are_one_line_on_a_terminal(sample, build):
    report = sample("resnet50")
    report.passes = [
        *(build.unchanged(n, f"idle-{n}", 9) for n in range(3)),
        build.unchanged(3, "alone", 9, group="g#1"),
        build.passed(4, "busy", (9, 8), [build.equal()], group="g#1"),
        build.unchanged(5, "last", 8, group="g#1"),
    ]
    text = printed(report, terminal=True)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "3 passes 9 12 ms no change" in lines
    assert "idle-" not in text
    assert [line.split()[0] for line in lines[2:6]] == ["g#1", "alone", "busy", "last"]
    told = printed(report, terminal=True, verbosity=1)
    assert "3 passes" not in told.split("VERIFIED")[0]
    assert all(f"idle-{n}" in told for n in range(3))


def test_a_pipe_gets_one_line_for_a_good_run(sample):
    report = sample("resnet50")
    report.notes = []
    assert printed(report).splitlines() == [
        "VERIFIED: models/resnet50-v1-7.onnx → out/resnet50.onnx, 231 → 117 nodes, 12 passes, "
        "60 rewrites, 13.4 s"
    ]


def test_force_color_does_not_make_a_pipe_talk(sample, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "fold-batch-normalization" not in printed(sample("resnet50"))


def test_quiet_prints_errors_and_nothing_else(sample):
    assert printed(sample("resnet50"), verbosity=-1, terminal=True) == ""
    assert printed(sample("unverified"), verbosity=-1) == ""
    assert printed(sample("broken"), verbosity=-1).splitlines() == BREAK_LINES


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_failure_begins_with_its_two_lines_and_says_where(sample, terminal, width):
    text = printed(sample("broken"), terminal=terminal, width=width)
    assert "\n".join(BREAK_LINES) + "\n" in text
    assert text.count(BREAK_LINES[0]) == 1
    for told in ["#58 BreakAdds", "Add(bn2, shortcut2) -> add2", "Add(bn2, bn2) -> add2"]:
        assert told in text
    for told in ["resnetv17_dense0_fwd at [0, 463]", "12.25", "21.5625", "limit 0 (equality)"]:
        assert told in text


def test_a_failure_in_a_pipe_comes_before_all_else(sample):
    assert printed(sample("broken")).splitlines()[:2] == BREAK_LINES


def test_an_unknown_culprit_is_called_unknown(sample):
    report = sample("broken")
    report.passes[-1].culprits = []
    assert "one of 16; not known which" in printed(report)


def test_an_error_without_a_pass_is_printed_once(sample):
    text = printed(sample("unreadable"))
    assert text.count("model.onnx is not an ONNX model") == 1


@pytest.mark.parametrize("terminal", [True, False])
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


@pytest.mark.parametrize("width", range(60, 201, 7))
def test_lines_fit_and_verdicts_are_whole_at_every_width(any_report, width):
    for done in any_report.passes[:20]:
        lines = [
            line.plain for line in ConsoleText(Glyphs.of("utf-8")).pass_lines(done, width)
        ]
        assert all(len(line) <= width for line in lines)
        assert any(verdict_words(done).head in line for line in lines)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("terminal", [True, False])
def test_any_terminal_can_show_any_report(any_report, encoding, terminal):
    any_report.passes = any_report.passes[:20]
    any_report.notes.append("naïve 名前 → \U0001f600")
    text = printed(any_report, encoding=encoding, terminal=terminal, verbosity=2)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_colour_is_used_where_it_is_wanted(sample, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in printed(sample("broken"), terminal=True)


def test_a_hostile_name_cannot_flood_the_terminal(sample):
    report = sample("broken")
    report.passes[-1].rewrites[2].nodes = ["x" * 1_000_000]
    assert len(printed(report, terminal=True)) < 10_000


def test_the_terminal_is_given_back_when_a_pass_raises(sample, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Stream(terminal=True, encoding="utf-8")
    report = sample("resnet50")

    def interrupted():
        with ConsoleReporter(stream, width=80) as console:
            console.start(report)
            console.pass_started(report.passes[3])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    text = stream.text()
    assert "4/9 fold-constants" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_saved_run_is_shown_in_full_even_in_a_pipe(sample):
    stream = Stream(terminal=False, encoding="utf-8")
    ConsoleReporter(stream, width=100).replay(sample("resnet50"))
    assert "fold-batch-normalization" in stream.text()
    assert "agrees" in stream.text()
