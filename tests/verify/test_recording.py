import numpy as np

from onnx_passes.testing import parse
from onnx_passes.verify.recording import Recording, exposed


def test_goes_to_disk_beyond_its_limit_and_reads_back_equal():
    recording = Recording(limit=100)
    arrays = {f"v{i}": np.full(20, i, np.float32) for i in range(4)}
    recording.update(arrays)
    assert recording.spilled == 3
    assert all(np.array_equal(recording[name], array) for name, array in arrays.items())


def test_what_is_forgotten_makes_room():
    recording = Recording(limit=100)
    recording.update({"a": np.zeros(20, np.float32)})
    recording.keep([])
    recording.update({"b": np.zeros(20, np.float32)})
    assert (list(recording), recording.spilled) == (["b"], 0)


def test_data_that_is_no_tensor_is_left_out():
    recording = Recording(limit=100)
    recording.update({"seq": [np.zeros(2)], "none": None})
    assert not recording


def test_exposes_every_value_once_and_leaves_the_model():
    model = parse("(float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")
    assert [v.name for v in exposed(model).graph.outputs] == ["y", "a"]
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_weights_that_the_graph_computes_are_not_recorded_for_every_sample():
    model = parse(
        """(float[N,1024] x) => (float[N,1024] y) {
        s = Constant<value_ints = [1024, 1024]>() w = ConstantOfShape(s) y = MatMul(x, w) }"""
    )
    assert [v.name for v in exposed(model, weights=False).graph.outputs] == ["y"]
    assert len(exposed(model).graph.outputs) == 2


def test_strings_have_no_size_to_judge_by():
    model = parse('(string[1] x) => (string[1] y) <string[1] w = {"a"}> { y = Identity(w) }')
    assert [v.name for v in exposed(model, weights=False).graph.outputs] == ["y"]
