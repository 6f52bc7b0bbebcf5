"""Every mode ends with a set that fails, and none but bisect leaves a node that could go."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.verify.reduce.search import MODES, search


class Sets:
    """Fails for a part that holds one of some sets of nodes."""

    def __init__(self, *culprits, width=1):
        self.culprits, self.width, self.asked = culprits, width, []

    def fail(self, parts):
        assert 0 < len(parts) <= self.width
        self.asked += parts
        return [any(c <= kept for c in self.culprits) for kept in parts]


class Flat:
    """The parts of a model if only the number of nodes and edges is known."""

    def __init__(self, count, edges=()):
        self.nodes = list(range(count))
        self.parents = [{a for a, b in edges if b == n} for n in self.nodes]
        self.children = [{b for a, b in edges if a == n} for n in self.nodes]
        self.whole = frozenset(self.nodes)

    def grow(self, kept):
        return frozenset(kept)

    trim = grow


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 3])
def test_a_single_node_is_found(mode, width):
    judge = Sets({17}, width=width)
    assert search(Flat(40), judge, mode, Flat(40).whole) == {17}


@pytest.mark.parametrize("mode", ["auto", "linear", "ddmin"])
def test_nodes_far_apart_are_found_together(mode):
    judge = Sets({3, 30})
    assert search(Flat(40), judge, mode, Flat(40).whole) == {3, 30}


def test_bisection_keeps_what_lies_between():
    assert search(Flat(40), Sets({3, 30}), "bisect", Flat(40).whole) == set(range(3, 31))


def test_a_connected_pair_takes_a_logarithmic_number_of_checks():
    chain = Flat(4096, list(itertools.pairwise(range(4096))))
    judge = Sets({1000, 1001})
    assert search(chain, judge, "auto", chain.whole) == {1000, 1001}
    assert len(judge.asked) <= 12 + 5


def test_a_whole_path_is_found_when_all_of_it_is_needed():
    chain = Flat(200, list(itertools.pairwise(range(200))))
    path = set(range(50, 70))
    assert search(chain, Sets(path), "auto", chain.whole) == path


@settings(max_examples=60)
@given(
    st.lists(st.sets(st.integers(0, 29), min_size=1, max_size=5), min_size=1, max_size=3),
    st.sampled_from(["auto", "linear", "ddmin"]),
    st.integers(1, 4),
)
def test_no_node_can_be_taken_out_of_a_result(culprits, mode, width):
    judge = Sets(*culprits, width=width)
    found = search(Flat(30), judge, mode, Flat(30).whole)
    assert any(culprit <= found for culprit in culprits)
    assert not any(any(c <= found - {node} for c in culprits) for node in found)
