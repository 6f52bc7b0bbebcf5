"""Samples run at the same time where an engine gains by it, and in order in any case."""

import threading

import numpy as np
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.runtime import engine_base
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse


class Session:
    """Waits for a second run to begin, if two are to meet."""

    def __init__(self, meet=0):
        self.barrier = threading.Barrier(meet) if meet else None

    def run(self, feeds, names=None):
        if self.barrier is not None:
            self.barrier.wait(timeout=10)
        if "bad" in feeds:
            raise EngineError(f"sample {feeds['bad']}")
        return {"y": feeds["x"], "names": names}


class Beside:
    concurrent = True


SAMPLES = [{"x": np.float32(n)} for n in range(4)]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(engine_base, "cores", lambda: 2)


def test_two_runs_meet_where_the_engine_gains_by_it():
    assert len(engine_base.run_each(Beside(), Session(meet=2), SAMPLES)) == 4


def test_the_first_sample_that_fails_is_told():
    with pytest.raises(EngineError, match="sample 1"):
        engine_base.run_each(Beside(), Session(), [SAMPLES[0], {"bad": 1}, {"bad": 2}])


def test_one_core_or_another_engine_runs_nothing_beside(monkeypatch):
    assert not engine_base.concurrent(object())
    monkeypatch.setattr(engine_base, "cores", lambda: 1)
    assert not engine_base.concurrent(Beside())


def test_random_numbers_of_a_sample_do_not_depend_on_those_before_it():
    """A voice was refused: a sample alone drew otherwise than behind others."""
    model = parse("""(float[N] x) => (float[N] y) { y = RandomNormalLike<seed = 1.0>(x) }""")
    samples = [{"x": np.zeros(1 << 18, np.float32)}, {"x": np.zeros(2, np.float32)}]
    engine = OnnxRuntimeEngine()
    found = []
    for _ in range(2):
        with engine.prepare(model) as session:
            assert session.in_turn
            found.append(engine_base.run_each(engine, session, samples))
            found.append([{}, *engine_base.run_each(engine, session, samples[1:])])
    for some in found[1:]:
        np.testing.assert_array_equal(some[1]["y"], found[0][1]["y"])
