"""Searches over the trained network of the examples."""

import math
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.format_scores import record
from onnx_passes.tuning.groups import BUILTIN, Observed, partition, prepare, read_by_layers
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Task

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="session")
def images():
    return np.load(DIGITS / "images.npy")


@pytest.fixture(scope="session")
def original():
    model = ir.load(DIGITS / "model.onnx")
    ConvertOpset(version=25).call(model)
    return prepare(model)


@pytest.fixture(scope="session")
def known(original, images):
    """Return what is recorded of the network."""
    wanted = read_by_layers(original)
    found = record(original, OnnxRuntimeEngine(), [{"image": images}], wanted)
    return Observed(found.ranges, found.rows)


@pytest.fixture(scope="session")
def ranges(known):
    return known.ranges


@pytest.fixture(scope="session")
def task(original, images):
    """Return what is asked: by default the smallest digits network within a loss."""

    def make(formats=("float16", "int8-static", "int8-weights"), limits=None, **given):
        names = ["float32", *formats]
        asked = {
            "model": original,
            "groups": partition(original, list(formats), {}, 24),
            "formats": {name: BUILTIN[name] for name in names},
            "engine": OnnxRuntimeEngine(optimization="all"),
            "objective": "size",
            "budget": LossBudget(
                limits or {"snr": (25.0, math.inf)}, given.pop("flips", None)
            ),
            "feeds": [{"image": images}],
            "sketch": [{"image": images[:64]}],
            "score_all": True,
            "evaluations": 6,
        }
        return Task(**asked | given)

    return make
