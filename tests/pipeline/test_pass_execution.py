"""What a pass does besides changing the model."""

import os

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.model.load import load_model
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.pass_execution import Instrument
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from tests.tables import each_of

WEIGHTS = np.arange(1024, dtype=np.float32)


class WriteWeights(Transformation):
    """Overwrites the weights of the model on disk."""

    size: int = WEIGHTS.nbytes
    late: bool = False

    def call(self, model):
        tensor = model.graph.initializers["w"].const_value
        os.truncate(tensor.path, 0)
        with open(tensor.path, "wb") as file:
            file.write(b"\0" * self.size)
        if self.late:
            raise ValueError("written")
        return ir.passes.PassResult(model, False)


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    passes.verify.equality(passes.register()(WriteWeights))


def run(folder, steps=("cleanup",), on_failure="stop", verify=True, instruments=()):
    model = parse("(float[1024] x) => (float[1024] y) <float[1] w = {0}> { y = Add(x, w) }")
    model.graph.initializers["w"].const_value = ir.tensor(WEIGHTS, name="w")
    model.graph.initializers["w"].shape = ir.Shape([1024])
    path = folder / "m.onnx"
    ir.save(model, path, external_data="w.bin", size_threshold_bytes=0)
    config = {
        "passes": list(steps),
        "on_failure": on_failure,
        "verify": {"enabled": verify},
        "reproducers": False,
    }
    loaded = load_model(path).model
    return run_pipeline(loaded, config_from_data(config), instruments=instruments)


@each_of("options", {}, {"size": 0}, {"late": True})
@each_of("policy", "stop", "rollback", "warn")
@each_of("verify", True, False)
def test_a_pass_that_overwrote_weights_on_disk_changed_no_model(
    tmp_path, options, policy, verify
):
    done = run(tmp_path, [{"write-weights": options}], policy, verify)
    assert done.report.exit_code in (1, 3)
    assert not done.usable
    late = "late" in options
    told = str(done.report.passes[0].error if late else done.error)
    assert ("written" if late else "'write-weights' wrote to w.bin") in told


def test_weights_that_another_process_overwrites_end_the_run(tmp_path):
    class Other(Instrument):
        def before_pass(self, pass_, model, report):
            with open(tmp_path / "w.bin", "r+b") as file:
                file.write(b"\1")

    done = run(tmp_path, instruments=[Other()])
    assert done.report.exit_code == 3
    assert "w.bin changed while the run read weights from it" in str(done.error)
    assert not done.usable


def test_weights_that_nobody_writes_end_no_run(tmp_path):
    assert run(tmp_path).report.exit_code == 0
