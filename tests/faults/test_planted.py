"""Every planted fault is real, is caught, and is traced to the one rewrite that is wrong."""

from functools import cache

import pytest

from benchmarks.faults import oracle
from benchmarks.faults.models import RESNET
from benchmarks.faults.runner import examine, keep
from benchmarks.faults.suite import FAULTS, INNOCENTS, KINDS, NOT_YET, NOT_YET_SPARED
from onnx_passes.passes.base import RewriteRulePass, RewriteRuleSetPass
from tests.tables import each_of

SMALL = [
    pytest.param(f, id=f.name, marks=[pytest.mark.slow] if f.source is RESNET else [])
    for f in FAULTS
]


def expect_failures(names):
    mark = pytest.mark.xfail(strict=True, reason="beyond the gate of today")
    return [
        pytest.param(*c.values, id=c.id, marks=(*c.marks, mark) if c.id in names else c.marks)
        for c in SMALL
    ]


FULL = [pytest.param(f, id=f.name) for f in FAULTS if f.source.full is not f.source.small]


def faults(params):
    """Give a test the faults; by the scope, all tests of a fault follow one another."""
    return each_of("fault", *params, scope="module")


@cache
def examined(fault):
    return examine(fault, full=False)


def test_the_suite_is_as_big_as_it_says():
    assert len(FAULTS) >= 178
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    assert {f.name for f in FAULTS} >= NOT_YET
    assert len(KINDS.faults) + len(KINDS.innocents) == 120
    spared = {name.partition(" on ")[0] for name in NOT_YET_SPARED}
    assert {f.name for f in FAULTS} | {cls.name for cls, _ in INNOCENTS} >= spared


@faults(SMALL)
def test_the_fault_changes_a_result_and_the_pass_without_it_does_not(fault):
    assert oracle.real(fault, examined(fault).at, full=False)


@faults(expect_failures(NOT_YET))
def test_caught_and_named(fault):
    _assert_caught(examined(fault))


@faults(expect_failures(NOT_YET_SPARED))
def test_the_pass_without_its_fault_is_not_accused(fault):
    assert not examined(fault).accused


@pytest.mark.slow
@each_of("fault", *FULL)
def test_caught_and_named_in_the_full_network(fault):
    outcome = examine(fault, full=True)
    assert not outcome.accused
    assert oracle.real(fault, outcome.at, full=True)
    _assert_caught(outcome)


def _assert_caught(outcome):
    seen = outcome.decisive
    assert seen.caught, f"{outcome.fault.description}: {seen.verdict}"
    if seen.verdict == "failed" and outcome.applications:
        assert seen.named == "right", (
            f"named: {seen.named}, of {outcome.applications} rewrites"
        )
    # By the setting that the table names, not only on inputs made for the fault.
    assert outcome.seen[outcome.fault.needs].caught
    for other in outcome.seen.values():
        assert other.named != "wrong"


# Faults written without a look at the gate are real on the inputs that they bring.


SHOWN, ROUNDED = 1e-3, 1e-4
UNSEEN = [pytest.param(f, id=f.name) for f in FAULTS if f.family.startswith("unseen_")]


def nodes(graph):
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return len(graph.node) + sum(map(nodes, bodies))


def test_there_are_as_many_as_it_says_in_models_of_some_size():
    assert len(UNSEEN) == 32
    faults = [param.values[0] for param in UNSEEN]
    assert min([nodes(f.source.proto(full=False).graph) for f in faults]) >= 10


@each_of("fault", *UNSEEN)
def test_its_inputs_show_the_fault_and_do_not_accuse_the_pass_without_it(fault):
    original = fault.source.proto(full=False)
    right, wrong = (oracle.rewritten(fault, at, full=False) for at in ("", fault.place))
    assert right.graph != original.graph
    assert oracle.effect(original, right, list(fault.feeds)) < ROUNDED
    assert oracle.effect(original, wrong, list(fault.feeds)) > SHOWN


# Rewrites that round, reorder and reshape are not accused.


def marks(cls, source):
    found = [pytest.mark.slow] if source is RESNET else []
    if {cls.name, f"{cls.name} on {source.name}"} & NOT_YET_SPARED:
        found.append(pytest.mark.xfail(strict=True, reason="beyond the gate of today"))
    return found


CASES = [
    pytest.param(cls, source, id=f"{cls.name}-{source.name}", marks=marks(cls, source))
    for cls, source in INNOCENTS
]


@each_of("cls, source", *CASES)
def test_not_accused(cls, source):
    kept = keep(cls, source, full=False)
    assert kept.verdict != "unchanged"
    if issubclass(cls, RewriteRulePass | RewriteRuleSetPass):
        assert kept.applications >= 1
    assert kept.accused == 0, kept.verdict


@pytest.mark.slow
@each_of("cls, source", *[p for p in CASES if p.values[1].full is not p.values[1].small])
def test_not_accused_in_the_full_network(cls, source):
    kept = keep(cls, source, full=True)
    assert kept.accused == 0, kept.verdict
