"""NVIDIA's compiler on whole models, before and after the pipeline ``tensorrt``; no GPU."""

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.model.load import load_model
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import LEVEL, Verdict
from tests.tables import each_of

pytestmark = [pytest.mark.tensorrt, pytest.mark.usefixtures("children_end")]

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def check(model):
    """The original and the result are built, the result agrees on ONNX Runtime."""
    done = run_pipeline(model, load_config("tensorrt", ["reference.samples=1"]))
    assert done.error is None
    levels = [c for c in done.report.final if c.kind == LEVEL]
    assert [c.level for c in levels] in ([], ["built"])
    assert done.report.engines[-1].level == "built"
    numbers = [c for c in done.report.final if c.kind != LEVEL]
    assert {c.verdict for c in numbers} <= {Verdict.PASSED}


def test_a_decomposed_transformer_is_built():
    from benchmarks.models.transformer import transformer

    check(ir.from_proto(transformer(layers=2)))


@pytest.mark.slow
@each_of("name", *sorted(p.stem for p in LIGHT.glob("*.onnx")))
def test_light_models_are_built(name):
    check(load_model(LIGHT / f"{name}.onnx").model)
