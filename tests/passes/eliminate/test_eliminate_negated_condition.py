import numpy as np

from onnx_passes import testing
from onnx_passes.certifying.replay import PairRunner, Replayer
from onnx_passes.contracts import Equality, contracts_of
from onnx_passes.passes.eliminate.eliminate_negated_condition import EliminateNegatedCondition
from tests.tables import pass_cases

test_cases = pass_cases("""
fires: (bool[2] c, float[3,2] x, float[1] y) => (float[3,2] z) { n = Not(c) z = Where(n, x, y)
  } | (bool[2] c, float[3,2] x, float[1] y) => (float[3,2] z) { z = Where(c, y, x) }
two negations leave the order: (bool[2] c, float[2] x, float[2] y) => (float[2] z) { n = Not(c)
  m = Not(n) z = Where(m, x, y) } | (bool[2] c, float[2] x, float[2] y) => (float[2] z) { z =
  Where(c, x, y) }
a negation that is read elsewhere is left: (bool[2] c, float[2] x, float[2] y) => (float[2] z,
  bool[2] n) { n = Not(c) z = Where(n, x, y) }
""")


def test_an_engine_may_lose_the_sign_of_a_zero_which_equality_does_not_ask_for():
    (contract,) = contracts_of(EliminateNegatedCondition)
    assert isinstance(contract, Equality)
    text = "(bool[1] c, float[1] x, float[1] y) => (float[1] z) {{ {} }}"
    before, after = (
        testing.parse(text.format(body))
        for body in ("n = Not(c) z = Where(n, x, y)", "z = Where(c, y, x)")
    )
    zeros = {"x": np.zeros(1, np.float32), "y": np.array([-0.0], np.float32)}
    feeds = {"c": np.array([True]), **zeros}
    old, new = PairRunner((before, after)).run(feeds)
    assert np.signbit(old[0]) != np.signbit(new[0]), "ONNX Runtime no longer loses it"
    assert Replayer(before, after).compare(feeds, real=False) is None
