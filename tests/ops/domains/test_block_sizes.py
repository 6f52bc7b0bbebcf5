import pytest

from onnx_passes.ops.domains.block_sizes import ONE, Ambiguous, Contradiction, Refined, Sizes
from onnx_passes.ops.semantics import Unsupported


@pytest.fixture
def sizes():
    return Sizes()


def test_an_axis_is_cut_like_the_one_it_meets(sizes):
    a, b, c = (sizes.fresh(n) for n in (5, 2, 3))
    with pytest.raises(Refined):
        sizes.unify((a,), (b, c))
    assert sizes.resolve((a,)) == (b, c)


def test_equal_ends_are_dropped_first(sizes):
    a, b, c = (sizes.fresh(n) for n in (2, 3, 3))
    with pytest.raises(Refined):
        sizes.unify((a, b), (a, c))
    assert sizes.resolve((b,)) == sizes.resolve((c,))


def test_no_size_is_that_of_itself_and_more(sizes):
    a, b = sizes.fresh(2), sizes.fresh(3)
    with pytest.raises(Contradiction):
        sizes.unify((a,), (b, a, b))


def test_every_order_is_tried_the_template_s_first(sizes):
    a, b, c, d = (sizes.fresh(n) for n in (2, 4, 3, 3))
    with pytest.raises(Ambiguous) as choice:
        sizes.unify((a, b), (c, d))
    orders = sizes.orders(choice.value.left, choice.value.right)
    assert len(orders) == 3
    assert [len(o.resolve((c,))) for o in orders] == [2, 1, 1]
    assert orders[0].template(orders[0].resolve((c,))) == 3


def test_an_axis_of_size_one_does_not_grow(sizes):
    with pytest.raises(Unsupported):
        sizes.unify((ONE,), (sizes.fresh(3),))


def test_a_cut_falls_between_atoms_or_makes_one(sizes):
    a, b = sizes.fresh(2), sizes.fresh(4)
    assert sizes.cut_at((a, b), 2) == 1
    with pytest.raises(Refined):
        sizes.cut_at((a, b), 5)
    assert sizes.template(sizes.resolve((a, b))) == 6
    assert len(sizes.resolve((a, b))) == 3
