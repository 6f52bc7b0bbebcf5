import numpy as np

from onnx_passes.certifying.operand_choice import MatchTraces, RecordedGenerator


def _drawn(draws):
    numbers = [int(draws.integers(1000)) for _ in range(20)]
    return [*numbers, draws.random(), *draws.permutation(4).tolist()]


def test_what_was_drawn_is_repeated_but_for_the_places_drawn_anew():
    first = RecordedGenerator(np.random.default_rng(0))
    numbers = _drawn(first)
    again = _drawn(RecordedGenerator(np.random.default_rng(1), tuple(first.trace), changes=1))
    differing = sum(a != b for a, b in zip(numbers[:21], again[:21], strict=True))
    assert differing <= 1


def test_a_choice_more_does_not_shift_what_comes_behind_it():
    first = RecordedGenerator(np.random.default_rng(0))
    first.random()
    numbers = [int(first.integers(1000)) for _ in range(10)]
    varied = RecordedGenerator(np.random.default_rng(1), tuple(first.trace), changes=0)
    varied.random()
    varied.permutation(3)  # was not asked for before
    assert [int(varied.integers(1000)) for _ in range(10)] == numbers


def test_rare_kinds_are_varied_as_often_as_common_ones():
    hits = MatchTraces(np.random.default_rng(0))
    assert not hits
    for _ in range(100):
        hits.add(("float", 18, "Relu"), ())
    hits.add(("double", 9, "Relu"), ())
    kinds = [hits.pick()[0] for _ in range(200)]
    assert 60 < kinds.count(("double", 9, "Relu")) < 140
