"""What a pipeline file accepts, what it costs, and how it is reported."""

import json
from xml.etree import ElementTree

import pytest

from tests.cli.modules import BREAK_ADDS, read_json, rule_pass
from tests.tables import each_of, each_row

SILENT = BREAK_ADDS.replace("@passes.verify.equality\n", "").replace("BreakAdds", "SilentAdds")


@pytest.fixture
def run(cli, model, write):
    """Run the broken pass with the given waivers; return the outcome and the report."""
    write("breaking.py", BREAK_ADDS)
    write("silent.py", SILENT)

    def call(waivers, *words, passes=("BreakAdds",)):
        config = {"imports": ["breaking", "silent"], "passes": list(passes)}
        config |= {"waivers": waivers, "reproducers": False}
        path = write("cfg.yaml", json.dumps(config))
        done = cli("-c", path, "-o", "out.onnx", model, "--json", "report.json", *words)
        try:
            return done, read_json("report.json")
        except FileNotFoundError:
            return done, {}

    return call


@each_of("what", {"pass": "BreakAdds"}, {"rule": "break-adds"})
def test_a_waived_failure_is_kept_and_is_not_an_error(run, what, tmp_path):
    done, report = run([{**what, "reason": "see issue 7"}], "--strict")
    assert done.code == 0, done.err
    (step,) = report["passes"]
    assert (step["verdict"], step["action"]) == ("failed", "waived")
    assert (tmp_path / "out.onnx").is_file()
    assert report["waivers"] == [
        {
            "what": f"{next(iter(what))} {next(iter(what.values()))}",
            "model": "*",
            "reason": "see issue 7",
            "expires": None,
            "used": True,
            "expired": False,
        }
    ]


def test_a_waiver_does_not_hide_another_fault(run, write):
    write("silent.py", rule_pass("BreakRelus", "op.Relu(x)", "op.Neg(x)"))
    waiver = {"pass": "break-adds", "reason": "see issue 7"}
    done, report = run([waiver], passes=("BreakAdds", "BreakRelus"))
    assert done.code == 1
    assert [p["action"] for p in report["passes"]] == ["waived", "stopped"]


def test_the_first_line_does_not_say_verified(run):
    done, report = run([{"pass": "break-adds", "reason": "see issue 7"}], "-v")
    assert "\nNOT VERIFIED  " in done.err
    assert "break-adds failed and is accepted by a waiver" in done.err
    assert "FAILED, waived" in done.err
    assert all("see issue 7" in sentence for sentence in report["not_verified"])
    assert report["waived"] == report["not_verified"] != []


@each_of(
    "waiver",
    {"pass": "BreakAdds", "expires": "2020-01-31"},
    {"pass": "BreakAdds", "model": "other-*.onnx"},
    {"pass": "SilentAdds"},
    {"rule": "another-rule"},
)
def test_a_waiver_that_is_over_or_for_something_else_accepts_nothing(run, waiver):
    done, report = run([{**waiver, "reason": "see issue 7"}])
    assert done.code == 1
    (told,) = report["waivers"]
    assert not told["used"]
    assert told["expired"] == ("expires" in waiver)


def test_what_strict_refuses_can_be_accepted(run):
    silent = {"passes": ("SilentAdds",)}
    assert run([], "--strict", "-s", "verify.drift.atol=1e9", **silent)[0].code == 4
    waiver = {"pass": "silent-adds", "reason": "has no contract yet"}
    words = ("--strict", "-s", "verify.drift.atol=1e9")
    done, report = run([waiver], *words, **silent)
    assert done.code == 0, done.err
    assert report["waivers"][0]["used"]
    assert "(waived: has no contract yet)" in done.err


@each_of("words", (), ("-v",))
def test_every_report_shows_all_waivers(run, words, tmp_path):
    waivers = [
        {"pass": "BreakAdds", "reason": "see issue 7", "expires": "2999-12-31"},
        {"rule": "another-rule", "model": "m*.onnx", "reason": "of a model of last year"},
        {"pass": "BreakAdds", "reason": "an old one", "expires": "2020-01-31"},
    ]
    done, _ = run(waivers, "--html", "report.html", "--junit", "report.xml", *words)
    assert done.code == 0
    page = (tmp_path / "report.html").read_text()
    tree = ElementTree.parse(tmp_path / "report.xml").getroot()
    log = tree.findtext(".//system-out")
    for sentence in (
        "waiver of pass BreakAdds, used, until 2999-12-31: see issue 7",
        "waiver of rule another-rule on m*.onnx, not used, without an end: of a model of last",
        "waiver of pass BreakAdds, expired 2020-01-31, and does not count: an old one",
    ):
        assert sentence in done.err
        assert sentence in page
        assert sentence in log
    assert not tree.findall(".//failure")
    assert tree.findall(".//skipped")


def test_a_model_that_is_not_valid_is_never_accepted(run, write):
    write("breaking.py", BREAK_ADDS.replace("op.Add(x, x)", "op.NoSuchOperator(x, y)"))
    done, report = run([{"pass": "BreakAdds", "reason": "see issue 7"}])
    assert done.code == 1
    assert not report["waivers"][0]["used"]


@each_row("""line | told
- {pass: merge-relus} | 'reason' is missing in 'waivers.0'
- {pass: merge-relus, reason: ' '} | waivers.0.reason: expected text that is not
- {reason: why} | waivers.0: expected either 'rule' or 'pass'
- {pass: a, rule: b, reason: c} | waivers.0: expected either 'rule' or 'pass'
- {pass: a, reason: c, expires: soon} | waivers.0.expires: expected a date such as
- {pass: a, reason: c, until: 2027-01-31} | unknown key 'until' in 'waivers.0'
- {pass: eliminate-identty, reason: c} | did you mean 'eliminate-identity'?
- {pass: fuse, reason: c} | 'fuse' is a group of passes, and a waiver is of one pass
""")
def test_a_wrong_waiver_is_an_error_with_its_place(cli, model, write, line, told):
    path = write("cfg.yaml", f"passes: [eliminate-identity]\nwaivers:\n  - {line}\n")
    cli("-c", path, "-o", "out.onnx", model).tells(2, told, f"{path}:3:")
