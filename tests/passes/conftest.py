"""Assertions on passes: the graph they leave, and what it computes on ONNX Runtime."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.surgery.fingerprint import canonical_hash

HEADER = '<ir_version: 10, opset_import: ["" : 20]> main '


def parse(text: str) -> ir.Model:
    """Read ONNX text; the header may be left out."""
    model = ir.from_onnx_text(text if text.lstrip().startswith("<") else HEADER + text)
    onnx.checker.check_model(ir.to_proto(model))
    return model


def interface(model):
    values = (model.graph.inputs, model.graph.outputs)
    return [[(v.name, str(v.type), str(v.shape)) for v in side] for side in values]


def feeds_for(model, size=2):
    rng = np.random.default_rng(7)
    feeds = {}
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        shape = [d if isinstance(d, int) else size for d in value.shape]
        dtype = value.dtype.numpy()
        if dtype.kind == "b":
            feeds[value.name] = rng.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            feeds[value.name] = rng.integers(0, 3, shape).astype(dtype)
        else:
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
    return feeds


def run(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    proto = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_equal_outputs(before, after, feeds):
    for expected, produced in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(produced, expected)
        assert np.asarray(produced).dtype == np.asarray(expected).dtype


@pytest.fixture
def rewrites():
    """Apply a pass that must fire, and check all that it owes; returns the new model."""

    def check(pass_, before, after=None, *, feeds=None, same_interface=True):
        original, model = parse(before), parse(before)
        assert pass_(model).modified, f"{pass_.name} did not fire"
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
        if same_interface:
            assert interface(model) == interface(original)
        if after is not None:
            want = parse(after)
            same = canonical_hash(model, annotations=False) == canonical_hash(
                want, annotations=False
            )
            assert same, f"expected\n{ir.to_onnx_text(want)}\ngot\n{ir.to_onnx_text(model)}"
        for size in (2, 3):
            given = feeds if feeds is not None else feeds_for(model, size)
            assert_equal_outputs(original, model, given)
        assert not pass_(model).modified, f"{pass_.name} fires on its own output"
        return model

    return check


@pytest.fixture
def leaves_alone():
    """Apply a pass that must report no change and make none; returns the model."""

    def check(pass_, text):
        model, original = parse(text), parse(text)
        assert not pass_(model).modified, ir.to_onnx_text(model)
        assert ir.to_onnx_text(model) == ir.to_onnx_text(original)
        return model

    return check
