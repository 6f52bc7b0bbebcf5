import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser

from onnx_passes.report.html import drawing, to_html
from onnx_passes.report.pages import environment
from onnx_passes.report.run_report import Blame
from onnx_passes.report.summary import outcome, verdict_words
from onnx_passes.verify.evidence import Check, MetricCheck, OutputCheck, Verdict
from tests.tables import each_of

WRONG = OutputCheck(
    "y", False, worst=(1, 2), expected="0.5", actual="2.5", mismatched=1, size=6
)


def blame(nodes, new_nodes, value=WRONG):
    return Blame(0, "p", "", 1, "rule", list(nodes), list(new_nodes), value)


def test_each_side_has_its_nodes_and_the_value_that_differs():
    before, after = drawing(blame(["s = Add(a, b)", "y = Relu(s)"], ["y = Relu(a)"]))
    assert [box.label for box in before["graph"].boxes] == ["a", "b", "Add", "Relu", "y"]
    assert [box.label for box in after["graph"].boxes] == ["a", "Relu", "y"]
    assert [box.style for box in before["graph"].boxes].count("right") == 1
    assert [box.style for box in after["graph"].boxes].count("wrong") == 1
    assert before["value"] == "y[1, 2] = 0.5"
    assert after["value"] == "y[1, 2] = 2.5"


def test_names_stay_text_and_many_nodes_are_not_drawn():
    evil, _ = drawing(blame(["</svg><script> = Relu(a)"], []))
    charts = environment().get_template("charts.html").module
    assert "<script>" not in charts.graph(evil["graph"])
    assert drawing(blame([f"v{i} = Relu(x{i})" for i in range(13)], [])) is None


VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """A page as a browser sees it: tags in order, balanced, with the text between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.stack = [], [], [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)

    def values(self, name):
        return [found[name] for _, found in self.attributes if name in found]


def test_every_report_is_a_balanced_page_with_its_verdict_and_passes(any_report):
    any_report.passes = any_report.passes[:50]
    page = Page(to_html(any_report))
    assert outcome(any_report).head in page.text
    assert page.tags.count("h1") == 1
    for done in any_report.passes:
        assert f"pass-{done.index}" in page.values("id")
        assert verdict_words(done).head in page.text
    assert len(set(page.values("id"))) == len(page.values("id"))
    for link in page.values("href"):
        assert link == "data:," or link.removeprefix("#") in [*page.values("id"), "passes"]


def test_the_page_needs_nothing_but_itself(any_report):
    text = to_html(any_report)
    page = Page(text)
    assert not {"script", "img", "iframe", "object", "form", "base"} & set(page.tags)
    assert page.tags.count("link") == 1
    names = {name for _, found in page.attributes for name in found}
    assert not {n for n in names if n.startswith("on") or n in ("src", "style", "srcset")}
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style


def test_the_policy_allows_this_style_sheet_and_no_other(sample):
    text = to_html(sample("hostile"))
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(v for v in Page(text).values("content") if "default-src" in v)
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_names_from_an_enemy_are_text(sample):
    text = to_html(sample("hostile"))
    page = Page(text)
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    for char in "\x1b\x00\u202e":
        assert char not in text


def test_what_was_not_verified_stands_before_the_numbers(sample):
    text = to_html(sample("partly"))
    assert text.index("fold-batch-normalization on tensorrt (fp16)") < text.index('"tiles"')
    off = to_html(sample("unverified"))
    assert off.index("Nothing that these passes did was checked") < off.index('"tiles"')
    assert "Verification was switched off by --no-verify" in off
    assert 'id="not-verified"' not in to_html(sample("resnet50"))


def test_a_pass_without_a_verdict_is_listed_though_nobody_wrote_a_sentence(sample):
    report = sample("resnet50")
    report.passes[7].verdict = Verdict.NOT_VERIFIED
    text = to_html(report)
    section = text[text.index('id="not-verified"') :].partition("</section>")[0]
    assert "merge-relus" in section
    assert 'href="#pass-8"' in section


def test_a_failure_is_told_in_full_at_the_top(sample):
    text = unescape(to_html(sample("broken")))
    top = text[: text.index('"tiles"')]
    told = Page(text).text
    assert "VerificationError" not in top  # a class of Python
    for part in ["#58 BreakAdds", "Add(bn2, bn2) -> add2", "at [0, 463]", "12.25", "21.5625"]:
        assert part in top
    assert "python out/reproducer-6-break-adds/repro.py" in told


@each_of("failed", False, True)
def test_passes_that_changed_the_model_are_shown_first_and_all_where_none_did(sample, failed):
    report = sample("broken" if failed else "resnet50")
    for changed in (True, False):
        report.passes[0].changed = changed
        for done in report.passes[1:]:
            done.changed = False
        found = dict(re.findall(r'id="show-(\w+)"( checked)?', to_html(report)))
        assert found == {"all": "", "changed": "", "open": ""} | {
            "changed" if changed else "all": " checked"
        }


def test_the_page_has_errors_with_their_limits_and_operators(sample):
    text = Page(to_html(sample("resnet50"))).text
    assert re.search(r"8.8e-6 of \S+ allowed, 34 % of the limit", text)
    assert re.search(r"Relu\s*53\s*45", text)


def test_drift_is_that_since_the_last_pass_that_a_metric_judged(sample):
    report = sample("resnet50")
    assert "drift since" not in to_html(report)
    judged = MetricCheck("cosine", 0.999, 0.99, 1.0, 1)
    report.passes[-2].checks = [Check("metric", Verdict.PASSED, metrics=[judged])]
    assert f"drift since {report.passes[-2].name}, model" in to_html(report)


def test_each_engine_has_its_verdict_and_versions(sample):
    report = sample("partly")
    report.engines[2].fallback_for = "onnxruntime, which lacks Einsum for float64"
    text = Page(to_html(report)).text
    assert "version 1.31.1, provider CPU, optimization all, threads 2" in text
    assert "2\u00a0could not be run" in text
    assert "Stands in for onnxruntime, which lacks Einsum for float64" in text
    assert "onnx-ir" in text
    assert "x86_64, 2 cores" in text


def test_a_verdict_is_never_colour_alone(any_report):
    text = to_html(any_report)
    badges = re.findall(
        r'<span class="verdict (\w+)"><span class="sign" [^>]*>(.)</span>', text
    )
    assert len(badges) == text.count('class="verdict ')
    signs = {"good": "✓", "bad": "✗", "warn": "!", "plain": "·"}
    assert all(signs[tone] == sign for tone, sign in badges)


def test_the_page_works_by_keyboard_and_without_scripts(sample):
    page = Page(to_html(sample("resnet50")))
    assert page.tags.count("details") >= 12
    assert page.tags.count("summary") == page.tags.count("details")
    assert "Skip to the passes" in page.text
    assert {"light dark", "width=device-width, initial-scale=1"} <= set(page.values("content"))


def test_a_huge_run_is_cut_with_the_counts_stated(sample):
    text = to_html(sample("huge"))
    assert len(text) < 5_000_000
    assert "7,000 rewrites are left out here" in text


def test_the_cut_keeps_failures(sample, build):
    report = sample("huge")
    report.passes = report.passes * 3
    for index, done in enumerate(report.passes):
        report.passes[index] = build.passed(index, done.name, (9, 8), [build.equal()])
    report.passes[2999] = build.break_adds(index=2999)
    text = to_html(report)
    assert 'id="pass-3000"' in text
    assert "1,000 passes are left out here" in text


def test_one_enormous_name_or_pass_does_not_make_an_enormous_page(sample):
    report = sample("broken")
    bad = report.passes[-1]
    bad.rewrites[2].nodes = ["x" * 1_000_000] * 500
    bad.rewrites[3].rule = "r" * 1_000_000
    bad.checks *= 1000
    report.not_verified = ["no engine"] * 100_000
    text = to_html(report)
    assert len(text) < 500_000
    assert "and 99,950 more" in text
    assert "and 492 nodes more" in text


@each_of("missing", "before", "after", "reference")
def test_a_report_that_lacks_a_part_still_makes_a_page(sample, missing):
    report = sample("resnet50")
    setattr(report, missing, None)
    Page(to_html(report))


def test_red_is_the_wrong_side_of_a_failure(sample):
    text = to_html(sample("broken"))
    sides = re.findall(r'<span class="(\w+)"><span class="mark">([-+]) ', text)
    assert {("right", "-"), ("wrong", "+")} <= set(sides)
    good = to_html(sample("resnet50"))
    found = set(re.findall(r'<span class="(\w+)"><span class="mark">([-+]) ', good))
    assert found == {("before", "-"), ("after", "+")}
