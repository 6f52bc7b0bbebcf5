"""``onnx-passes report``: what a saved run says, without running anything."""

import json

import onnx
import pytest
from click.testing import CliRunner

from onnx_passes.cli.main import program
from onnx_passes.errors import OnnxPassesError

MODEL = (
    '<ir_version: 10, opset_import: ["": 21]> g (float[2, 3] x) => (float[2, 3] y) '
    "<float[1] c = {2}> { a = Identity(x) y = Mul(a, c) }"
)


def invoke(*args):
    result = CliRunner().invoke(program, [str(a) for a in args])
    if isinstance(result.exception, OnnxPassesError):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "m.onnx")
    args = ["-o", folder / "o.onnx", "--json", folder / "run.json", folder / "m.onnx"]
    limits = ["-s", "verify.metrics.rmse=[0, 1]"]
    result = invoke("run", *limits, *args, "eliminate-identity")
    assert result.exit_code == 0, result.output
    return folder / "run.json"


def test_the_table_of_the_run_is_printed(saved):
    result = invoke("report", saved)
    assert result.exit_code == 0
    assert "eliminate-identity" in result.stdout
    assert "m.onnx" in result.stdout


def test_other_forms_are_written(saved, tmp_path):
    paths = [tmp_path / f"r.{kind}" for kind in ("html", "xml", "json")]
    options = zip(("--html", "--junit", "--json"), paths, strict=True)
    invoke("report", saved, *[a for pair in options for a in pair])
    html, junit, copy = (path.read_text() for path in paths)
    assert html.startswith("<!DOCTYPE html>")
    assert "<testcase" in junit
    assert json.loads(copy) == json.loads(saved.read_text())


def test_a_run_that_failed_ends_as_it_did(saved, tmp_path):
    data = json.loads(saved.read_text())
    data["exit_code"] = 4
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert invoke("report", tmp_path / "r.json", "-q").exit_code == 4
