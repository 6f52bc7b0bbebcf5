"""What is reduced still fails, nothing is judged twice, and useless checks are found out."""

import pytest

from onnx_passes.errors import UsageError
from onnx_passes.verify.reduce import Reducer, reduce


def test_the_nodes_that_fail_together_are_left(diamond, boundary_of, operators):
    found = reduce(diamond, operators("Neg", "Tanh"), boundary_of(diamond))
    assert [node.op_type for node in found.model.graph] == ["Neg", "Tanh"]
    assert (found.before, found.after) == (6, 2)
    assert found.good is not None


def test_nothing_is_judged_twice(parts_of, chain, operators):
    check = operators("Abs", "Neg", "Tanh")
    model = chain(*["Relu", "Abs", "Sin", "Neg", "Cos", "Tanh", "Relu"] * 2)
    reducer = Reducer(parts_of(model), check)
    reducer.run()
    keys = list(reducer.ledger.seen)
    assert len(check.judged) == len(keys) == len(set(keys))


def test_every_failing_part_is_found_where_asked_for(parts_of, chain, operators):
    model = chain("Abs", "Neg", "Sin", "Abs", "Cos", "Neg")
    found = Reducer(parts_of(model), operators("Abs"), every=True).run()
    assert [node.op_type for other in found.others for node in other.graph] == ["Abs"]


def test_a_check_that_never_fails_is_told(diamond, boundary_of, operators):
    with pytest.raises(UsageError, match="does not fail on the whole model"):
        reduce(diamond, operators("Softmax"), boundary_of(diamond))


def test_a_check_that_always_fails_is_told(diamond, boundary_of, operators):
    with pytest.raises(UsageError, match=r"fails on every model, even .* a single Identity"):
        reduce(diamond, operators(), boundary_of(diamond))


def test_a_first_node_that_fails_alone_is_no_check_that_always_fails(
    parts_of, chain, operators
):
    found = Reducer(parts_of(chain("Abs", "Neg")), operators("Abs")).run()
    assert found.after == 1


def test_answers_are_replayed(parts_of, diamond, operators, tmp_path):
    file = tmp_path / "replay.json"
    first = Reducer(parts_of(diamond), operators("Neg", "Add"), replay=file).run()
    check = operators("Neg", "Add")
    again = Reducer(parts_of(diamond), check, replay=file).run()
    assert check.judged == []
    assert (again.checks, again.replayed) == (0, first.checks)
    assert again.after == first.after == 2


def test_answers_to_another_question_are_refused(
    parts_of, diamond, chain, operators, tmp_path
):
    file = tmp_path / "replay.json"
    Reducer(parts_of(diamond), operators("Neg"), replay=file).run()
    with pytest.raises(UsageError, match="answers are to another check"):
        Reducer(parts_of(diamond), operators("Add"), replay=file)
    with pytest.raises(UsageError, match="answers are to another model"):
        Reducer(parts_of(chain("Neg", "Abs")), operators("Neg"), replay=file)
    file.write_text("[1, 2]")
    with pytest.raises(UsageError, match="holds no answers"):
        Reducer(parts_of(diamond), operators("Neg"), replay=file)
