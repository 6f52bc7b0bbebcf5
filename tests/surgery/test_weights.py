"""A model without its weights is valid and small, and gets back what it had."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from onnx_passes.cli.main import program
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.surgery import canonical_hash, load, restore_weights, strip_weights
from onnx_passes.surgery.weights import large_tensors
from tests.tables import each_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


@pytest.fixture
def model():
    return load(DIGITS)


def size(model):
    return len(ir.to_proto(model).SerializeToString())


def test_stripped_it_is_small_valid_and_runs(model):
    before = size(model)
    names = strip_weights(model)
    assert names
    assert size(model) < before / 3
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    with OnnxRuntimeEngine().prepare(model) as session:
        assert session.run(generate(model)[0])


def test_restored_from_the_original_it_is_the_original(model):
    strip_weights(model)
    restore_weights(model, load(DIGITS))
    assert canonical_hash(model) == canonical_hash(load(DIGITS))


def test_random_weights_are_like_those_that_were_there(model):
    names = strip_weights(model)
    restore_weights(model, seed=1)
    for name in names:
        old = load(DIGITS).graph.initializers[name].const_value.numpy()
        new = model.graph.initializers[name].const_value.numpy()
        assert (new.dtype, new.shape) == (old.dtype, old.shape)
        assert abs(new.mean() - old.mean()) < old.std()
        assert old.min() <= new.min() <= new.max() <= old.max()
        assert not np.array_equal(old, new)


def test_other_weights_and_models_are_refused(model):
    with pytest.raises(UsageError, match="no weights were removed"):
        restore_weights(model)
    (name, *_) = strip_weights(model)
    with pytest.raises(UsageError, match="removed before"):
        strip_weights(model)
    other = load(DIGITS)
    value = other.graph.initializers[name]
    value.const_value = ir.tensor(value.const_value.numpy() + 1)
    with pytest.raises(ModelError, match="is not the one that was removed"):
        restore_weights(model, other)
    del other.graph.initializers[name]
    with pytest.raises(ModelError, match="the source has no weight"):
        restore_weights(model, other)


def hidden():
    """Return a model with weights in Constant nodes, a body, and functions of like names."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((16, 16)).astype(np.float32) for _ in range(6)]
    floats = [", ".join(map(repr, map(float, array.reshape(-1)))) for array in arrays]
    weight = "Constant <value = float[16,16] {{{}}}> ()".format
    row = f"Constant <value_floats = [{floats[5]}, {floats[4]}]> ()"
    text = f"""<ir_version: 10, opset_import: ["" : 18, "f" : 1]>
    main (float[n,16] x, bool b) => (float[n,16] y) {{
        w = {weight(floats[0])} h = MatMul(x, w) i = f.One(h) j = f.Two(i)
        r = {row} d = ReduceMax <keepdims = 0> (r) k = Add(j, d)
        y = If (b) <
            then_branch = g () => (float[n,16] t)
                {{ u = {weight(floats[1])} t = MatMul(k, u) }},
            else_branch = e () => (float[n,16] s) {{ s = Identity(k) }} > }}
    <opset_import: ["" : 18], domain: "f"> One (a) => (c)
        {{ w = {weight(floats[2])} c = MatMul(a, w) }}
    <opset_import: ["" : 18], domain: "f"> Two (a) => (c)
        {{ w = {weight(floats[3])} c = MatMul(a, w) }}"""
    return ir.from_onnx_text(text), arrays


def test_constants_bodies_and_functions_keep_no_weight():
    model, arrays = hidden()
    original = ir.to_proto(model)
    assert len(strip_weights(model)) == 5
    held = ir.to_proto(model).SerializeToString()
    assert not [array for array in arrays if array.tobytes() in held]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    feeds = {"x": np.ones((2, 16), np.float32), "b": np.array(True)}
    restore_weights(model, ir.from_proto(original))
    results = []
    for each in (ir.from_proto(original), model):
        with OnnxRuntimeEngine().prepare(each) as session:
            results.append(session.run(feeds)["y"])
    np.testing.assert_array_equal(*results)
    strip_weights(model)
    assert not large_tensors(model)


OVERRIDABLE = ", float[600] w"


@each_of("kind, given", ("bfloat16", ""), ("float", OVERRIDABLE))
def test_what_stays_is_named(kind, given, tmp_path):
    ones = ", ".join(["1"] * 600)
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 18]> g (float[600] x{given}) => (float[600] y)
        <{kind}[600] w = {{{ones}}}> {{ c = Cast <to = 1> (w) y = Add(x, c) }}"""
    )
    ir.save(model, tmp_path / "m.onnx")
    words = ["strip-weights", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "s.onnx")]
    done = CliRunner().invoke(program, words)
    assert "warning: 1 tensor of 1024 bytes or more stay in the file" in done.output
    assert "or for their type: w" in done.output
