"""The corpus is complete, the same in every process, and its expectations are attainable."""

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import UnsupportedModelError
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.corpus import backend_models as corpus
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
FIRST_ON_ONNX_RUNTIME = {
    "node": "test_abs",
    "simple": "test_expand_shape_model1",
    # Those before these two use opset 6, which ONNX Runtime does not implement.
    "pytorch-converted": "test_ConstantPad2d",
    "pytorch-operator": "test_operator_chunk",
    "real": "test_bvlc_alexnet",
}


@pytest.mark.skipif(onnx.__version__ != "1.23.2", reason="the counts are those of onnx 1.23.2")
def test_all_2033_models_of_onnx_1_23_2_are_found():
    counts = Counter(name.partition("/")[0] for name in corpus.ids())
    assert counts == {
        "node": 1884,
        "simple": 23,
        "pytorch-converted": 82,
        "pytorch-operator": 35,
        "real": 9,
    }
    assert len(set(corpus.ids())) == sum(counts.values()) == 2033


def test_every_model_has_a_sample_of_its_inputs_and_outputs():
    for entry in corpus.load_all():
        initializers = {tensor.name for tensor in entry.model.graph.initializer}
        inputs = [v.name for v in entry.model.graph.input if v.name not in initializers]
        outputs = [v.name for v in entry.model.graph.output]
        assert entry.samples, entry.id
        for feeds, expected in entry.samples:
            assert (list(feeds), list(expected)) == (inputs, outputs), entry.id


def test_every_array_has_the_type_its_model_declares():
    for entry in corpus.load_all():
        graph = entry.model.graph
        declared = {value.name: value.type for value in [*graph.input, *graph.output]}
        for name, value in [
            item for sample in entry.samples for d in sample for item in d.items()
        ]:
            if isinstance(value, np.ndarray) and declared[name].HasField("tensor_type"):
                element = declared[name].tensor_type.elem_type
                assert value.dtype == onnx.helper.tensor_dtype_to_np_dtype(element), entry.id


def check_runs_and_matches(engine: Engine, model_id: str) -> None:
    entry = corpus.load(model_id)
    with engine.prepare(ir.from_proto(entry.model)) as session:
        for feeds, expected in entry.samples:
            actual = session.run(feeds)
            assert list(actual) == list(expected)
            for name in expected:
                np.testing.assert_allclose(
                    actual[name], expected[name], rtol=entry.rtol, atol=entry.atol
                )


@each_of("kind", *corpus.KINDS)
def test_first_model_of_a_kind_that_onnx_runtime_has_runs_and_matches(kind):
    check_runs_and_matches(OnnxRuntimeEngine(), f"{kind}/{FIRST_ON_ONNX_RUNTIME[kind]}")


@each_of("kind", "pytorch-converted", "pytorch-operator")
def test_first_model_of_a_kind_that_onnx_runtime_lacks_runs_on_the_reference(kind):
    first = corpus.ids(kind)[0]
    with (
        pytest.raises(UnsupportedModelError),
        OnnxRuntimeEngine().prepare(ir.from_proto(corpus.load(first).model)),
    ):
        pass
    check_runs_and_matches(ReferenceEngine(), first)


def digest_of_data():
    """Return a digest of the ids and samples of all models that onnx builds in memory."""
    digest = hashlib.sha256()
    for entry in corpus.load_all("node"):
        digest.update(entry.id.encode())
        for values in (values for sample in entry.samples for values in sample):
            for name, value in values.items():
                # The elements of an object array are strings; its bytes would be addresses.
                plain = isinstance(value, np.ndarray) and value.dtype != object
                data = value.tobytes() if plain else repr(value).encode()
                digest.update(name.encode() + data)
    return digest.hexdigest()


APART = """
import numpy as np
from tests.corpus.test_backend_models import digest_of_data

np.random.seed(5)
print(digest_of_data(), np.random.random() == np.random.RandomState(5).random())
"""


def test_ids_and_data_are_the_same_in_every_process_and_leave_its_random_state_alone():
    command = [sys.executable, "-W", "error", "-c", APART]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == [digest_of_data(), "True"], done.stderr
