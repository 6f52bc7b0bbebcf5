"""Every version of every operator of onnx passes the presets, verified and right."""

from contextlib import suppress

import numpy as np
import onnx
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.model.inference import infer
from tests.corpus.examine import contract_of, examine, preset
from tests.corpus.operator_versions import NotMadeError, make, schemas, with_constants
from tests.tables import each_of

PRESETS = ("cleanup", "simplify", "optimize", "optimize-ort")
EARLY = (
    *(("", "Add", 1), ("", "Add", 6), ("", "BatchNormalization", 6), ("", "Cast", 1)),
    *(("", "Reshape", 1), ("", "Slice", 1), ("", "Tile", 6), ("", "TopK", 1)),
)
"""Versions whose inputs were attributes, or whose attributes were words."""
NOT_MADE = 60
"""Versions without a model: withdrawn ones, and those that onnx has no test of."""
WRONG = ("failed", "refused", "interface")
RANDOM = ("Adagrad", "Adam", "Momentum")
"""Operators whose second output the reference gives in another order each time."""

DRAWS = "Bernoulli"
"""The operator that others draw anew where it is not known."""
UNCHECKED = ("", "DequantizeLinear", 28)
"""A version that onnx's reference alone runs, which lacks the versions before 19."""


def judge(key, name, folder):
    """Return what is wrong with the result of a preset; None if nothing is."""
    case = with_constants(make(key))
    given = not case.id.endswith("constants")
    outcome, wrong = examine(case, preset(name), contract_of(name), folder, given=given)
    if outcome in WRONG or (wrong and key[1] not in RANDOM):
        return f"{case.id}: {outcome}: {wrong}"
    return None


def check(keys, name, folder):
    """Return the versions without a model; fail if a result is wrong."""
    found, missing = [], []
    for key in keys:
        try:
            found.append(judge(key, name, folder))
        except NotMadeError as error:
            missing.append((key, str(error)))
    assert [wrong for wrong in found if wrong is not None] == []
    return missing


@pytest.mark.slow
@pytest.mark.timeout(3600)
@each_of("name", *PRESETS)
def test_each_version_passes_each_preset(name, tmp_path):
    assert len(check(schemas(), name, tmp_path)) <= NOT_MADE


@each_of("part", *range(4))
def test_versions_are_cleaned_up(part, tmp_path):
    """A twentieth of them; the slow test takes all."""
    keys = [key for key in schemas() if key[1] not in ("Loop", "If", "Scan")]
    check(keys[5 * part :: 80], "cleanup", tmp_path)


@each_of("name", *PRESETS)
@each_of("key", *EARLY, ids=lambda key: f"{key[1]}-{key[2]}")
def test_early_versions_pass_every_preset(key, name, tmp_path):
    assert judge(key, name, tmp_path) is None


def convert(key, target, folder):
    """Return what is wrong with the conversions to an opset."""
    case = make(key)
    config, wrong = default_config([], [f"convert-opset{{version={target}}}"]), []
    for one in {made.id: made for made in (case, with_constants(case))}.values():
        outcome, found = examine(
            one, config, contract_of("optimize"), folder, given=one is case
        )
        excused = outcome == "not verified" or "no equivalent in opset" in (found or "")
        if found is not None and not excused:
            wrong.append(f"{one.id} to {target}: {outcome}: {found}")
    return wrong


@each_of("target", 9, 13)
@each_of("key", *EARLY, ids=lambda key: f"{key[1]}-{key[2]}")
def test_early_versions_are_converted(key, target, tmp_path):
    assert convert(key, target, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@each_of("target", 9, 11, 13, 18, 21)
def test_each_version_is_converted_or_has_no_equivalent(target, tmp_path):
    wrong = []
    for key in schemas():
        with suppress(NotMadeError):
            if not key[0] and key[1] != DRAWS and key != UNCHECKED:
                wrong += convert(key, target, tmp_path)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@each_of("named", False, True)
def test_what_is_inferred_of_each_version_is_what_engines_compute(named):
    wrong = []
    for key in schemas():
        with suppress(NotMadeError):
            case = make(key)
            wrong += [
                name for one in (case, with_constants(case)) for name in misfits(one, named)
            ]
    assert wrong == []


def misfits(case, named):
    """Yield results whose inferred shape they do not have, with names for sizes of inputs."""
    feeds, results = case.samples[0]
    model, sizes = onnx.ModelProto(), {}
    model.CopyFrom(case.model)
    for value in model.graph.input if named else ():
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if isinstance(feeds.get(value.name), np.ndarray):
                dim.dim_param = f"{value.name}_{axis}"
                sizes[dim.dim_param] = feeds[value.name].shape[axis]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    for value in infer(model).graph.output:
        shape, found = value.type.tensor_type, results.get(value.name)
        if isinstance(found, np.ndarray) and shape.HasField("shape"):
            dims = [sizes.get(d.dim_param, d.dim_value or None) for d in shape.shape.dim]
            fits = len(dims) == found.ndim
            if not fits or any(
                d not in (None, s) for d, s in zip(dims, found.shape, strict=True)
            ):
                yield f"{case.id}: {value.name} is {found.shape}, not {dims}"
