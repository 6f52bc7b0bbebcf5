"""Right rewrites of half models differ by roundings, and wrong ones by more."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.configs.sections import Verify
from onnx_passes.contracts import Tolerance
from onnx_passes.pipeline.output_checks import Thresholds
from onnx_passes.pipeline.rounding import excuse_outputs, is_rounding
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict
from onnx_passes.verify.recording import Recording

RNG = np.random.default_rng(7)
EXACT = RNG.normal(size=(4, 512))
FAILED = Check(
    "drift",
    Verdict.FAILED,
    "onnxruntime",
    reason="y too far from the original",
    outputs=(OutputCheck("y", False, "it differs", max_abs=0.01),),
)


def rounded(seed, by=1e-3):
    noise = np.random.default_rng(seed).normal(size=EXACT.shape)
    return [{"y": (EXACT * (1 + by * noise)).astype(np.float16)}]


def verdict_of(new):
    found = excuse_outputs(FAILED, rounded(1), new, [{"y": EXACT}], 2.0)
    return found.verdict


def test_outputs_that_are_as_near_to_float64_pass():
    found = excuse_outputs(FAILED, rounded(1), rounded(2), [{"y": EXACT}], 2.0)
    assert found.verdict is Verdict.PASSED
    assert "rounding below float32" in str(found.reason)
    assert all(output.passed for output in found.outputs)


def test_outputs_that_are_scaled_by_a_hundredth_fail():
    (right,) = rounded(2)
    assert verdict_of([{"y": (right["y"] * 1.01).astype(np.float16)}]) is Verdict.FAILED


def test_one_element_that_is_wrong_fails():
    (right,) = rounded(2)
    right["y"][2, 100] += np.float16(0.05)
    assert verdict_of([right]) is Verdict.FAILED


@pytest.mark.parametrize("wrong", [np.float16([1]), np.zeros((4, 512), np.float32)])
def test_another_shape_or_type_fails(wrong):
    assert verdict_of([{"y": wrong}]) is Verdict.FAILED


AFFINE = """<ir_version: 10, opset_import: ["" : 20]>
    g (float16[512] x, float16[512] s, float16[512] b) => (float16[512] y)
    { a = Mul(x, s) c = Add(a, b) y = Relu(c) }"""


def affine():
    x, s, b = (np.random.default_rng(k).normal(size=512).astype(np.float16) for k in (1, 2, 3))
    recording = Recording(1 << 20)
    c = (x * s).astype(np.float16) + b
    recording.update({"x": x, "s": s, "b": b, "c": c})
    fused = (x.astype(np.float64) * s + b).astype(np.float16)
    return ir.from_onnx_text(AFFINE), recording, fused


def test_a_value_that_is_rounded_once_less_is_rounding():
    model, recording, fused = affine()
    nodes = tuple(model.graph)[:2]
    assert (fused != recording["c"]).any()
    assert is_rounding(model, nodes, "c", [recording], [fused])


def test_a_few_elements_that_were_exact_by_chance_may_be_rounded():
    model = ir.from_onnx_text(AFFINE.replace("512", "3"))
    x, s, b = (np.float16([1, 2, k]) for k in (0.3, 0.5, 0.25))
    recording = Recording(1 << 20)
    c = (x.astype(np.float64) * s + b).astype(np.float16)
    recording.update({"x": x, "s": s, "b": b, "c": c})
    stepped = np.nextafter(c, np.float16(9), dtype=np.float16)
    assert is_rounding(model, tuple(model.graph)[:2], "c", [recording], [stepped])


def test_a_value_that_is_scaled_by_a_hundredth_is_not():
    model, recording, fused = affine()
    wrong = (fused * 1.01).astype(np.float16)
    assert not is_rounding(model, tuple(model.graph)[:2], "c", [recording], [wrong])


def test_a_value_of_float32_is_not_excused():
    model, recording, fused = affine()
    recording.update({"c": np.asarray(recording["c"], np.float32)})
    wide = fused.astype(np.float32)
    assert not is_rounding(model, tuple(model.graph)[:2], "c", [recording], [wide])


def test_a_value_of_float32_behind_float16_is():
    model, recording, fused = affine()
    a = model.graph[0].outputs[0]
    a.type = ir.TensorType(ir.DataType.FLOAT16)
    recording.update({"c": np.asarray(recording["c"], np.float32)})
    wide = fused.astype(np.float32)
    assert is_rounding(model, tuple(model.graph)[:2], "c", [recording], [wide])


def test_a_value_that_was_not_computed_before_is_not_excused():
    model, recording, fused = affine()
    assert not is_rounding(model, (), "c", [recording], [fused])


def convolutions():
    """Convolutions in half precision with a scale behind each, as detr has them."""
    rng = np.random.default_rng(5)
    text, x = [], "x"
    initializers = {}
    for k in range(3):
        initializers[f"w{k}"] = rng.normal(0, 0.25, (16, 16, 1, 1)).astype(np.float16)
        initializers[f"s{k}"] = rng.uniform(0.5, 1.5, (1, 16, 1, 1)).astype(np.float16)
        initializers[f"b{k}"] = rng.normal(0, 1, (1, 16, 1, 1)).astype(np.float16)
        text.append(
            f"c{k} = Conv({x}, w{k}) m{k} = Mul(c{k}, s{k}) a{k} = Add(m{k}, b{k}) "
            f"r{k} = Relu(a{k})"
        )
        x = f"r{k}"
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 20]> '
        "g (float16[1,16,48,48] x) => (float16[N,C,H,W] y) "
        + "{ "
        + " ".join(text)
        + f" y = Neg({x}) }}"
    )
    values = {v.name: v for node in model.graph for v in node.inputs}
    for name, array in initializers.items():
        values[name].const_value = ir.tensor(array, name=name)
        values[name].type, values[name].shape = (
            ir.TensorType(ir.DataType.FLOAT16),
            ir.Shape(array.shape),
        )
        model.graph.initializers[name] = values[name]
    return model


def run(model, *steps, **verify):
    engines = [
        {"onnxruntime": {"optimization": "none", "prepacking": False, "when": "each"}},
        {"onnxruntime": {"optimization": "all", "when": "end"}},
    ]
    data = {"passes": list(steps), "engines": engines, "verify": verify}
    return run_pipeline(model, config_from_data(data))


def test_a_scale_that_is_moved_into_half_weights_passes():
    """In float16 detr one of 163,840 elements was two roundings off, and was refused."""
    done = run(convolutions(), "shape-inference", "fuse-conv-affine")
    assert done.report.exit_code == 0, done.report.error
    assert any(p.rewrites for p in done.report.passes)


def test_a_value_within_its_limit_is_not_said_to_agree_again_behind():
    done = run(convolutions(), "shape-inference", "fuse-conv-affine")
    told = {o.reason for p in done.report.passes for c in p.checks for o in c.outputs}
    assert "it agrees again behind" not in told


def test_a_limit_that_was_given_holds_for_half_precision_too():
    steps = "shape-inference", "fuse-conv-affine"
    done = run(convolutions(), *steps, drift={"rtol": 1e-3, "atol": 1e-5})
    assert "y too far from the original" in str(done.report.error)


def test_the_default_limit_of_an_output_is_that_of_the_coarsest_type_before_it():
    low = {"y": Tolerance(1e-3, 1e-5)}
    thresholds = Thresholds(Verify(), [], lambda: low)
    _, limits = thresholds.above((Tolerance(), {}), [], frozenset(), "drift")
    assert limits == low
    given = {"y": Tolerance(1e-6, 0.0)}
    assert thresholds.above((Tolerance(), given), [], frozenset(), "drift")[1] == given
    exact = Tolerance(1e-6, 1e-6)
    assert thresholds.above((exact, {}), [], frozenset(), "drift") == (exact, {})
