"""Faults written without a look at the gate are real on the inputs that they bring."""

import pytest

from benchmarks.faults import oracle
from benchmarks.faults.suite import FAULTS
from tests.tables import each_of

SHOWN, ROUNDED = 1e-3, 1e-4
UNSEEN = [pytest.param(f, id=f.name) for f in FAULTS if f.family.startswith("unseen_")]


def nodes(graph):
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return len(graph.node) + sum(map(nodes, bodies))


def test_there_are_as_many_as_it_says_in_models_of_some_size():
    assert len(UNSEEN) == 32
    faults = [param.values[0] for param in UNSEEN]
    sizes = [nodes(f.source.proto(full=False).graph) for f in faults]
    assert min(sizes) >= 10


@each_of("fault", *UNSEEN)
def test_its_inputs_show_the_fault_and_do_not_accuse_the_pass_without_it(fault):
    original = fault.source.proto(full=False)
    right, wrong = (oracle.rewritten(fault, at, full=False) for at in ("", fault.place))
    assert right.graph != original.graph
    assert oracle.effect(original, right, list(fault.feeds)) < ROUNDED
    assert oracle.effect(original, wrong, list(fault.feeds)) > SHOWN
