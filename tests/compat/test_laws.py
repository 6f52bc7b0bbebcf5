"""Passes derived from the templates of the seed system run."""

from onnx_passes import passes, testing
from onnx_passes.compat import laws
from tests.tables import each_of

HEAD = "(bool[2,3] x, bool[2,3] u, bool[2,3] v) => (bool[2,3] y) <bool f = {0}, bool t = {1}> "


@passes.verify.equality
class Grouped(laws._Associative, laws._Commutative):
    __OP__ = lambda _, op, x, y: op.And(x, y)  # noqa: E731


@passes.verify.equality
class Distributed(laws._Distributive):
    __MUL__ = lambda _, op, x, y: op.And(x, y)  # noqa: E731
    __ADD__ = lambda _, op, x, y: op.Or(x, y)  # noqa: E731


@passes.verify.equality
class DistributedRight(laws._DistributiveRhs):
    __MUL__ = lambda _, op, x, y: op.And(x, y)  # noqa: E731
    __ADD__ = lambda _, op, x, y: op.Xor(x, y)  # noqa: E731


@passes.verify.equality
class Twice(laws._Involution):
    __OP__ = lambda _, op, x: op.Not(x)  # noqa: E731


@passes.verify.equality
class Both(laws._Idempotence):
    __OP__ = lambda _, op, x, y: op.And(x, y)  # noqa: E731


@passes.verify.equality
class Absorbed(laws._Absorption):
    __OP1__ = lambda _, op, x, y: op.And(x, y)  # noqa: E731
    __OP2__ = lambda _, op, x, y: op.Or(x, y)  # noqa: E731


@passes.verify.equality
class Annihilated(laws._Annihilator):
    __OP__ = lambda _, op, x, y: op.And(x, y)  # noqa: E731
    __ANNIHILATOR__ = False


@passes.verify.equality
class Turned(laws._Converse):
    __OP__ = lambda _, op, x, y: op.Less(x, y)  # noqa: E731
    __CONVERSE__ = lambda _, op, x, y: op.Greater(x, y)  # noqa: E731


@each_of(
    "cls, body, kinds",
    (Grouped, "a = And(x, t) y = And(a, f)", ["And", "And"]),
    (Distributed, "a = And(x, u) b = And(x, v) y = Or(a, b)", ["Or", "And"]),
    (DistributedRight, "a = And(u, x) b = And(v, x) y = Xor(a, b)", ["Xor", "And"]),
    (Twice, "a = Not(x) y = Not(a)", ["Identity"]),
    (Both, "y = And(x, x)", ["Identity"]),
    (Absorbed, "a = And(x, u) y = Or(x, a)", ["Identity"]),
    (Annihilated, "y = And(x, f)", ["Constant", "Expand"]),
)
def test_fires(cls, body, kinds):
    model = testing.parse(HEAD + "{ " + body + " }")
    before = testing.Snapshot(model)
    assert cls()(model).modified
    testing.assert_verified(cls(), before, model)
    assert [node.op_type for node in model.graph] == kinds


def test_a_comparison_is_turned():
    model = testing.parse("(float[N] x, float[N] u) => (bool[N] y) { y = Less(x, u) }")
    assert Turned()(model).modified
    assert [node.op_type for node in model.graph] == ["Greater"]
