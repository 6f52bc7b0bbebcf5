import sys

import pytest

from onnx_passes.errors import UsageError
from onnx_passes.ops.domains import z3_module
from onnx_passes.verify.rules import solver


def test_a_missing_solver_is_one_sentence_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    z3_module.z3.cache_clear()
    try:
        with pytest.raises(UsageError, match="not installed") as error:
            z3_module.z3()
        assert error.value.help == "pip install 'onnx-passes[prove]'"
    finally:
        z3_module.z3.cache_clear()


def test_equal_terms_need_no_solver():
    z3 = pytest.importorskip("z3")
    x, y = z3.Reals("x y")
    assert solver.differs(x + y, x + y) is None
    assert solver.differs(x, y) is not None


def test_no_time_is_not_all_time():
    # z3 reads a timeout of 0 as none: a query once ran for three minutes.
    z3 = pytest.importorskip("z3")
    xs = [z3.FP(f"x{i}", z3.Float64()) for i in range(40)]
    products = [xs[i] * xs[i + 1] == xs[i + 1] / xs[i] for i in range(39)]
    answer = solver.refute([z3.And(*products)], milliseconds=0)
    assert answer.holds is None
    assert answer.reason.startswith(solver.GAVE_UP)


def test_a_preference_does_not_hide_a_counterexample():
    z3 = pytest.importorskip("z3")
    x = z3.Real("x")
    answer = solver.refute([x > 100], milliseconds=1000, prefer=[x < 10])
    assert answer.holds is False
    assert answer.model.eval(x > 100)
