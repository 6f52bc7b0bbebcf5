"""Passes that change numbers, through the program: judged by metrics, and by nothing else."""

import onnx
import onnx_ir as ir

from tests.cli.conftest import ROOT
from tests.passes.precision.bodies import cascade
from tests.tables import each_of

DIGITS = ROOT / "examples" / "digits"
STEPS = [
    "convert-float16",
    "convert-float16: {io: convert}",
    "convert-bfloat16: {missing: round}",
    "quantize-static: {calibration: percentile}",
    "quantize-dynamic: {least: 1}",
    "quantize-weights",
]


def pipeline(step, accuracy="[0.97, 1]"):
    return f"""
passes: [{{{step}}}]
reference:
  inputs: {{image: {DIGITS}/images.npy}}
  outputs: {{scores: {DIGITS}/labels.npy}}
verify: {{metrics: {{accuracy: {accuracy}}}}}
""".replace("[{convert-float16}]", "[convert-float16]").replace(
        "[{quantize-weights}]", "[quantize-weights]"
    )


@each_of("step", *STEPS)
def test_a_metric_that_holds_verifies_a_pass(cli, write, step):
    config = write("p.yaml", pipeline(step))
    found = cli("-c", config, "-o", "out.onnx", DIGITS / "model.onnx")
    assert (found.code, found.err.split()[0]) == (0, "VERIFIED"), found.err
    onnx.checker.check_model("out.onnx", full_check=True)


@each_of("step", *STEPS)
def test_networks_in_bodies_are_verified(cli, write, step):
    ir.save(cascade(), "cascade.onnx")
    config = write("p.yaml", pipeline(step, "[0.9, 1]").replace("image:", "small/image:"))
    found = cli("-c", config, "-o", "out.onnx", "cascade.onnx")
    assert (found.code, found.err.split()[0]) == (0, "VERIFIED"), found.err
    onnx.checker.check_model("out.onnx", full_check=True)


def test_a_metric_that_is_lost_fails_the_pass(cli, write):
    step = "quantize-static: {activations: uint8, percentile: 51, calibration: percentile}"
    config = write("p.yaml", pipeline(step, "[0.98, 1]"))
    found = cli("-c", config, "-o", "out.onnx", DIGITS / "model.onnx")
    found.tells(1, "accuracy", "quantize-static")
