import numpy as np

from onnx_passes.verify.runs.postprocess import read_postprocess, top_k


def test_the_largest_come_first_ties_in_order_and_nan_last():
    found = top_k(np.array([[1.0, np.nan, 3.0, 3.0]]), 4)
    assert found.tolist() == [[2, 3, 0, 1]]
    assert top_k(np.array([5, 7]), 9).tolist() == [1, 0]


def test_one_output_may_be_named():
    made = read_postprocess(["a:b:top-k=1"])
    values = {"a:b": np.array([1.0, 2.0]), "c": np.array([1.0, 2.0])}
    found = made(values, frozenset(values))
    assert found["a:b"].tolist() == [1]
    assert found["c"].tolist() == [1.0, 2.0]
    assert made(values, frozenset())["a:b"].tolist() == [1.0, 2.0]
