import numpy as np

from onnx_passes.certifying.operand_choice import RecordedGenerator


def _drawn(draws):
    numbers = [int(draws.integers(1000)) for _ in range(20)]
    return [*numbers, draws.random(), *draws.permutation(4).tolist()]


def test_what_was_drawn_is_repeated_but_for_the_places_drawn_anew():
    first = RecordedGenerator(np.random.default_rng(0))
    numbers = _drawn(first)
    again = _drawn(RecordedGenerator(np.random.default_rng(1), tuple(first.trace), changes=1))
    differing = sum(a != b for a, b in zip(numbers[:21], again[:21], strict=True))
    assert differing <= 1
