import re
from xml.etree import ElementTree as ET

from onnx_passes.report.junit import to_junit
from onnx_passes.report.report_files import write_text
from onnx_passes.verify.evidence import Check, Verdict
from tests.tables import each_of


def suite(report):
    return ET.fromstring(to_junit(report).encode()).find("testsuite")


def case(report, name):
    return next(c for c in suite(report).iter("testcase") if c.get("name") == name)


def test_each_pass_and_each_final_check_is_a_case(sample):
    report = sample("resnet50")
    names = [c.get("name") for c in suite(report).iter("testcase")]
    assert names[:3] == [
        "model-checker",
        "shape-inference{data_prop=true}",
        "eliminate-identity",
    ]
    assert "cleanup#2/merge-clips" in names
    assert names[-3:] == [
        "drift on onnxruntime",
        "drift on onnxruntime (optimization=disabled)",
        "metric on onnxruntime",
    ]
    assert len(names) == len(report.passes) + len(report.final)


def test_a_broken_contract_is_a_failure_with_its_details(sample):
    failure = case(sample("broken"), "break-adds").find("failure")
    assert failure.get("type") == "PostconditionError"
    assert failure.get("message").endswith("Post-condition for pass 'BreakAdds' failed")
    for told in ["VerificationError: resnetv17_dense0_fwd", "#58 BreakAdds", "[0, 463]"]:
        assert told in failure.text


def test_a_pass_that_raised_is_an_error(sample, build):
    report = sample("resnet50")
    report.passes[6] = build.break_adds(error="PassError: 'x' raised ValueError")
    report.passes[6].checks = []
    error = case(report, "break-adds").find("error")
    assert error.get("type") == "PassError"
    assert suite(report).get("errors") == "1"


def test_what_was_not_verified_is_skipped_with_the_reason(sample):
    skipped = case(sample("partly"), "fold-batch-normalization").find("skipped")
    assert skipped.get("message").startswith("not verified: TensorRT 10.3 is not on")
    assert "TensorRT 10.3" in suite(sample("partly")).find("system-err").text
    off = case(sample("unverified"), "eliminate-identity").find("skipped")
    assert off.get("message") == "not verified: verification was off"


def test_a_doubt_that_no_case_shows_has_one_of_its_own(sample):
    report = sample("resnet50")
    assert suite(report).get("skipped") == "0"
    report.not_verified = ["convert-float16: numbers were held on made-up inputs"]
    message = case(report, "run").find("skipped").get("message")
    assert message == "not verified: convert-float16: numbers were held on made-up inputs"
    assert suite(report).get("skipped") == "1"
    assert "run" not in {c.get("name") for c in suite(sample("partly")).iter("testcase")}


def test_the_end_result_is_judged(sample):
    report = sample("resnet50")
    report.final[0] = Check("drift", Verdict.FAILED, "onnxruntime", reason="budget exceeded")
    report.final[1] = Check("drift", Verdict.NOT_VERIFIED, "b", reason="out of memory")
    assert (
        case(report, "drift on onnxruntime").find("failure").get("message")
        == "budget exceeded"
    )
    assert "out of memory" in case(report, "drift on b").find("skipped").get("message")


def test_counts_attributes_and_order_are_as_the_schemas_want_them(any_report):
    found = suite(any_report)
    cases = found.findall("testcase")
    assert found.get("tests") == str(len(cases))
    for kind in ("failure", "error", "skipped"):
        total = sum(c.find(kind) is not None for c in cases)
        assert found.get({"failure": "failures", "error": "errors"}.get(kind, kind)) == str(
            total
        )
    assert found.get("timestamp") is None or re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", found.get("timestamp")
    )
    order = [child.tag for child in found]
    assert order == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    for one in cases:
        assert {"name", "classname", "time"} == set(one.attrib)
        assert float(one.get("time")) >= 0
        assert len(one) <= 1


def test_hostile_names_stay_text(sample, tmp_path):
    write_text(to_junit(sample("hostile")), tmp_path / "junit.xml")
    text = (tmp_path / "junit.xml").read_text()
    assert "<script" not in text
    names = [c.get("name") for c in ET.fromstring(text.encode()).iter("testcase")]
    assert any("<script>alert(1)</script>" in name for name in names)


@each_of("char", "\x00", "\x1b", "\ufffe", "\uffff", "\udc80", "\U0001fffe")
def test_characters_that_xml_forbids_are_escaped(sample, char):
    report = sample("broken")
    report.passes[-1].name = report.passes[-1].error = report.error = f"a{char}b"
    assert "a\\" in suite(report).findall("testcase")[-1].get("name")
