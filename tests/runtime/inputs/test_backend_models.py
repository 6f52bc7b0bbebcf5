"""Inputs are made up for every backend test model of onnx, and run."""

from __future__ import annotations

import fnmatch

import onnx_ir as ir
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.corpus import backend_models as corpus
from tests.tables import each_of

KNOWN_IR_VERSION = 13

OUT_OF_REACH = {
    "node/test_affine_grid_*_expanded": "a size whose elements meet other shapes one by one",
    "node/test_image_decoder_*": "bytes of a picture",
    "node/test_range_*_delta_expanded": "the evaluator fails on a loop of no turn",
    "simple/test_gradient_of_*": "no engine has the operator",
    "real/*": "minutes in the evaluator",
}
"""Models that may fail on made up inputs, and why."""


def runs(model: ir.Model, *, slowly: bool) -> str | None:
    """Why no engine runs the model on made up inputs; None if one does."""
    reason = ""
    feeds = generate(model, samples=2)
    for engine in (OnnxRuntimeEngine(), ReferenceEngine())[: 2 if slowly else 1]:
        try:
            with engine.prepare(model) as session:
                for sample in feeds:
                    session.run(sample)
        except EngineError as error:
            reason += f"{engine.name}: {error}\n"
        else:
            return None
    return reason


@pytest.mark.slow
@each_of("kind", *corpus.KINDS)
def test_made_up_inputs_run(kind):
    failures = {}
    for entry in corpus.load_all():
        if entry.kind != kind:
            continue
        # The version of the format alone, which ONNX Runtime refuses when it is new.
        entry.model.ir_version = min(entry.model.ir_version, KNOWN_IR_VERSION)
        known = any(fnmatch.fnmatch(entry.id, pattern) for pattern in OUT_OF_REACH)
        reason = runs(ir.from_proto(entry.model), slowly=not known)
        if reason is not None and not known:
            failures[entry.id] = reason
    assert not failures
