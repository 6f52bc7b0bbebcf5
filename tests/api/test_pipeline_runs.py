"""The main job from Python, with models in each form, and every way that it ends."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import passes
from onnx_passes.cli import main
from onnx_passes.errors import ReferenceDataError, UnknownPassError, UsageError
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.testing import parse
from tests.tables import each_of

TEXT = "(float[N,2] x) => (float[N,2] y) { a = Identity(x)  b = Relu(a)  y = Relu(b) }"


@pytest.fixture(params=["path", "proto", "ir"])
def model(request, tmp_path):
    made = parse(TEXT)
    if request.param == "ir":
        return made
    if request.param == "proto":
        return ir.to_proto(made)
    ir.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def nodes(model):
    if isinstance(model, ir.Model):
        return len(model.graph)
    return len((model if isinstance(model, onnx.ModelProto) else onnx.load(model)).graph.node)


def test_a_model_in_any_form_is_optimised_and_left_as_it_was(model, tmp_path):
    result = onnx_passes.run(model, ["eliminate-identity"])
    assert result.verdict == "VERIFIED"
    assert result.raise_for_verdict(strict=True) is result
    assert (nodes(model), len(result.model.graph), nodes(result.proto())) == (3, 2, 2)
    assert nodes(result.save(tmp_path / "out.onnx")) == 2
    assert repr(result) == "<VERIFIED, 3 -> 2 nodes, 1 pass>"
    assert result._repr_html_().startswith("<iframe srcdoc=")


@each_of(
    "pipeline",
    "cleanup",
    {"passes": ["eliminate-identity"]},
    [EliminateIdentity],
    ["eliminate"],
)
def test_a_pipeline_in_any_form(pipeline):
    assert len(onnx_passes.run(parse(TEXT), pipeline).model.graph) <= 2


def test_inputs_engines_and_options_reach_the_run():
    seen = []
    result = onnx_passes.run(
        parse(TEXT),
        ["eliminate-identity"],
        inputs=[{"x": np.ones((n, 2), np.float32)} for n in (1, 3)],
        engines=["reference"],
        options={"verify.scope": "model"},
        progress=lambda done: seen.append((done.name, done.verdict.value)),
    )
    assert result.report.reference.samples == 2
    assert [engine.name for engine in result.report.engines] == ["reference"]
    assert [name for name, _ in seen] == ["eliminate-identity"]


@passes.verify.equality
class BreaksIt(Transformation):
    name = "breaks-it"

    def call(self, model):
        model.graph[-1].op_type = "Neg"
        return ir.passes.PassResult(model, True)


def test_a_run_that_fails_is_a_verdict_that_raises_when_asked(own_registry):
    passes.register("breaks-it")(BreaksIt)
    result = onnx_passes.run(parse(TEXT), ["breaks-it"])
    assert result.verdict.startswith("FAILED")
    assert not result.passed
    with pytest.raises(onnx_passes.OnnxPassesError):
        result.raise_for_verdict()
    with pytest.raises(onnx_passes.OnnxPassesError):
        result.save("never.onnx")


def test_what_is_not_verified_raises_only_if_that_is_demanded():
    result = onnx_passes.run(parse(TEXT), ["eliminate-identity"], verify=False)
    assert result.raise_for_verdict().verdict == "NOT VERIFIED"
    with pytest.raises(onnx_passes.OnnxPassesError, match="verification was off"):
        result.raise_for_verdict(strict=True)


@each_of(
    "words, given, error",
    (["eliminate-identiti"], {}, UnknownPassError),
    ([EliminateIdentity()], {}, UsageError),
    (["eliminate-identity"], {"inputs": {"z": np.ones(2, np.float32)}}, ReferenceDataError),
    ({"passes": []}, {"verify": False}, UsageError),
)
def test_wrong_calls_raise_typed_errors(words, given, error):
    with pytest.raises(error):
        onnx_passes.run(parse(TEXT), words, **given)


def test_samples_in_one_array_are_split_for_a_fixed_batch(tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 20]>
    main (float[1,2] x) => (float[1,2] y) { i = Identity(x) y = Relu(i) }"""
    model = onnx.parser.parse_model(text)
    done = onnx_passes.run(model, inputs={"x": np.ones((5, 2), np.float32)})
    assert done.report.reference.samples == 5


def test_what_is_returned_and_saved_is_what_the_program_writes(tmp_path, monkeypatch):
    import onnxruntime as ort

    from onnx_passes.ops.bodies import attach

    monkeypatch.setattr(attach, "_FUNCTIONS", dict(attach._FUNCTIONS))
    body = onnx.parser.parse_function(
        '<domain: "acme", opset_import: ["" : 20]> Twice (x) => (y) { y = Add(x, x) }'
    )
    attach.register_function("acme", "Twice", lambda: body)
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
        main (float[2] x) => (float[2] y) { i = Identity(x) y = acme.Twice(i) }"""
    )
    done = onnx_passes.run(model, ["eliminate-identity"])
    done.save(tmp_path / "saved.onnx")
    onnx.save(done.proto(), tmp_path / "proto.onnx")
    onnx.save(model, tmp_path / "model.onnx")
    words = [str(tmp_path / "model.onnx"), "-o", str(tmp_path / "written.onnx")]
    with pytest.raises(SystemExit) as end:
        main([*words, "eliminate-identity"])
    assert end.value.code == 0
    for name in ("saved", "proto", "written"):
        session = ort.InferenceSession(tmp_path / f"{name}.onnx")
        assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [2, 2]
    assert not done.model.functions
