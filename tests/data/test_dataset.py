import numpy as np

from onnx_passes.data.dataset import Order
from tests.tables import each_of


@each_of("count", 1, 2, 3, 5, 64, 65, 1000, 4097)
def test_a_shuffled_order_is_a_permutation(count):
    assert sorted(Order(count, 7).rows(0, count)) == list(range(count))


def test_each_sample_is_as_likely_in_each_place():
    first = np.array([Order(10, seed).rows(0, 1)[0] for seed in range(4000)])
    counts = np.bincount(first, minlength=10)
    # Chi squared with 9 degrees of freedom is above 27.9 once in 1,000.
    assert ((counts - 400) ** 2 / 400).sum() < 27.9
