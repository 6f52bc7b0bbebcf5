"""Networks that are channels-last inside, as FINN's conversion makes them."""

from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.ops.bodies.operator_bodies import CHANNELS_LAST, QONNX
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "quantised_digits"
STEPS = ("channels-last", "decompose-thresholds", "export-qonnx", "annotate-integers")


def converted(name, first):
    steps = [*([first] if first else []), *STEPS]
    # One network of each form is verified, which takes the most time.
    unverified = [] if first else ["verify=false"]
    config = load_config("streamline", ["reproducers=false", *unverified], steps)
    done = run_pipeline(ir.load(EXAMPLES / f"{name}.onnx"), config)
    assert done.error is None, done.error
    return done.model.graph


@each_of(
    "name, first, left",
    # In front of the first Conv; rows of the last matrix are permuted.
    ("cnn_w4a4", "", [("MultiThreshold", "Conv")]),
    ("cnn_w4a4", "convert-layout{inputs={image: nhwc}}", []),
    pytest.param(
        "residual_w3a4", "convert-layout{inputs={image: nhwc}}", [], marks=pytest.mark.slow
    ),
)
def test_transposes_are_left_at_the_ends_alone(name, first, left):
    graph = converted(name, first)
    found = []
    for node in graph:
        if node.op_type == "Transpose":
            (reader,) = node.outputs[0].consumers()
            found.append((node.inputs[0].producer().op_type, reader.op_type))
    assert found == left
    assert {n.domain for n in graph if n.op_type in ("Conv", "MaxPool")} == {CHANNELS_LAST}
    layouts = [
        n.attributes.get_string("data_layout")
        for n in graph
        if (n.domain, n.op_type) == (QONNX, "MultiThreshold")
    ]
    assert layouts.count("NCHW") == (not first)
    products = [n for n in graph if (n.domain, n.op_type) == (CHANNELS_LAST, "Conv")]
    noted = [n.outputs[0].meta["quant_parameter_tensor_names"] for n in products]
    assert all(note["finn_datatype"].startswith("INT") for note in noted)
