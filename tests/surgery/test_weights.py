"""A model without its weights is valid and small, and gets back what it had."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError, UsageError
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.surgery import canonical_hash, load, restore_weights, strip_weights

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
