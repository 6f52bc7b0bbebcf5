"""Networks of known forms become integers between thresholds, and decide the same."""

import numpy as np
import onnx_ir as ir
import pytest

from tests.corpus.quantised_networks import outcome
from tests.corpus.settled import quiet
from tests.corpus.ties import ties_of
from tests.corpus.topologies import HELD_OUT, SEEN
from tests.tables import each_of

SAMPLES = 6
FLOATS = {"attention": {"Softmax", "Mul"}}
"""What stays in floating point: a Softmax with its factor."""


def streamlined(build):
    model = build()
    shape = model.graph.inputs[0].shape.numpy()
    draws = (np.random.default_rng(seed).normal(0, 1, shape) for seed in range(SAMPLES))
    feeds = [{"x": draw.astype(np.float32)} for draw in draws]
    return model, feeds, outcome(model, quiet("streamline"), feeds)


def check(name, build):
    _, _, found = streamlined(build)
    assert not found.ties.unexplained, found.ties
    assert not found.quantisers
    left = {node.op_type for node in found.floats}
    assert left <= FLOATS.get(name.split(",")[0], set())
    assert found.ties.found == found.ties.steps


@each_of("name", *SEEN)
def test_they_become_integers_and_decide_the_same(name):
    check(name, SEEN[name])


@pytest.mark.slow
@each_of("name", *HELD_OUT)
def test_others_become_integers_and_decide_the_same(name):
    check(name, HELD_OUT[name])


def test_ties_are_told_from_faults():
    """Networks with scales of round numbers have many ties, and faults beside them show."""
    model, feeds, found = streamlined(SEEN["residual, 4 bits"])
    assert found.ties.changed
    assert found.ties.flipped <= found.ties.undecided
    faulty = found.model.clone()
    nodes = [node for node in faulty.graph if node.op_type == "MultiThreshold"]
    for node in nodes[-4:-1]:
        tensor = ir.convenience.get_const_tensor(node.inputs[1]).numpy()
        moved = ir.Value(name=f"{node.name}_moved", const_value=ir.tensor(tensor + 1))
        faulty.graph.register_initializer(moved)
        node.replace_input_with(1, moved)
        assert ties_of(model, faulty, feeds).unexplained
