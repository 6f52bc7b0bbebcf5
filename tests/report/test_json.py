import json
import math
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.errors import ConfigError, UsageError
from onnx_passes.report.json import from_json, read_json, to_json
from onnx_passes.report.report_files import write_text
from onnx_passes.report.run_report import (
    SCHEMA_VERSION,
    EngineReport,
    ModelSummary,
    PassReport,
    RewriteSummary,
    RunReport,
)
from onnx_passes.verify.evidence import Check, MetricCheck, OutputCheck, Verdict
from tests.tables import each_of

# The union of an engine's details cannot distinguish a NaN from the string "NaN".
numbers = st.floats(allow_nan=False, allow_infinity=False)
details = st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | numbers)
for kind in [OutputCheck, MetricCheck, Check, RewriteSummary, PassReport, ModelSummary]:
    every_field = dict.fromkeys(kind.__dataclass_fields__, ...)
    st.register_type_strategy(kind, st.builds(kind, **every_field))
engines = st.builds(EngineReport, details=details, noise=..., fallback_for=...)
st.register_type_strategy(EngineReport, engines)
reports = st.builds(
    RunReport,
    **dict.fromkeys(RunReport.__dataclass_fields__, ...)
    | {"schema_version": st.just(SCHEMA_VERSION)},
)


def same(a, b):
    return repr(a) == repr(b)  # repr shows every digit, and a NaN equals itself


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(reports)
def test_any_report_comes_back_as_it_was(report):
    text = to_json(report)
    assert same(from_json(text), report)

    def refuse(token):
        raise AssertionError(token)

    json.loads(text, parse_constant=refuse)


@each_of("value", math.nan, math.inf, -math.inf)
def test_numbers_that_json_lacks_come_back(sample, value):
    report = sample("resnet50")
    report.final = [
        Check(
            "metric",
            Verdict.PASSED,
            outputs=(OutputCheck("y", True, max_abs=value, atol=value),),
            metrics=(MetricCheck("psnr", value, -math.inf, math.inf, 3),),
        )
    ]
    read = from_json(to_json(report)).final[0]
    assert same(read.outputs[0].atol, value)
    assert same(read.metrics[0].value, value)
    assert read.metrics[0].high == math.inf


def test_a_path_that_is_no_utf8_does_not_stop_the_report(sample, tmp_path):
    report = sample("resnet50")
    report.model = os.fsdecode(b"mod\xe9l.onnx")
    write_text(to_json(report), tmp_path / "r.json")
    assert read_json(tmp_path / "r.json").model == "mod\\udce9l.onnx"


def complaint(text):
    with pytest.raises(ConfigError) as caught:
        from_json(text)
    return str(caught.value)


@each_of("text", "", "{", "[]", "3", "null", "[" * 100_000, '{"passes": []}')
def test_what_is_no_report_is_called_so(text):
    assert "not a report of onnx-passes" in complaint(text)


def changed(sample, **fields):
    data = json.loads(to_json(sample("broken")))
    data.update(fields)
    return complaint(json.dumps(data))


def test_other_layouts_are_refused_with_the_way_out(sample):
    for version in (SCHEMA_VERSION + 1, SCHEMA_VERSION - 1, "1"):
        told = changed(sample, schema_version=version)
        assert f"has layout {version}; this onnx-passes reads layout {SCHEMA_VERSION}" in told
        assert "run the pipeline again" in told


@each_of(
    "fields, told",
    ({"exit_code": "one"}, "exit_code: Input should be a valid integer"),
    ({"verify": 3}, "verify: Input should be a valid boolean"),
    ({"surprise": 1}, "surprise: Unexpected keyword argument"),
    ({"model": None}, "model: Input should be a valid string"),
    ({"seconds": "soon"}, "seconds: Input should be a valid number"),
    ({"seconds": "NaN", "model": 3}, "model: Input should be a valid string"),
)
def test_a_mangled_report_is_refused_field_by_field(sample, fields, told):
    assert told in changed(sample, **fields)


def test_files_that_cannot_be_read_or_written_are_named(sample, tmp_path):
    with pytest.raises(ConfigError, match="cannot read the report"):
        read_json(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\x08\x0a\xff\xfe")
    with pytest.raises(ConfigError, match="cannot read the report"):
        read_json(tmp_path / "binary.json")
    with pytest.raises(UsageError, match="cannot write the report"):
        write_text(to_json(sample("resnet50")), tmp_path / "binary.json" / "run.json")
    with pytest.raises(UsageError, match="cannot write the report"):
        write_text(to_json(sample("resnet50")), tmp_path)


def test_a_report_replaces_an_old_one_whole_and_leaves_nothing_beside(sample, tmp_path):
    path = tmp_path / "run.json"
    path.write_text("old")
    write_text(to_json(sample("broken")), path)
    write_text(to_json(sample("resnet50")), path)
    assert read_json(path).error is None
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_hash_that_was_put_off_is_computed_once_and_written():
    asked = []
    summary = ModelSummary(1, {"Relu": 1}, 0, 0, {"": 20}, "")
    summary.put_off_hash(lambda: asked.append(1) or "abc")
    report = RunReport("m", None, "", False, before=summary)
    assert asked == []
    assert json.loads(to_json(report))["before"]["hash"] == "abc"
    assert summary.hash == "abc"
    assert asked == [1]
    with pytest.raises(AttributeError, match="nothing"):
        summary.nothing  # noqa: B018
