from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.block_terms import ONE, Ambiguous, Contradiction, Refined, Sizes
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


COLUMN, ROW = ("o", 0), ("o", 1)
K = ("o", 7)


def matrix(name, row, column):
    return terms.factor(("sym", name, (0, 0), (row, column)))


def contracted(left, right):
    return terms.substitute(terms.multiply(left, right), {K: ("b", 0, 5)})


def test_bound_indices_of_factors_are_kept_apart():
    trace = contracted(matrix("a", K, K), terms.ONE_FORM)
    square = terms.multiply(trace, trace)
    ((monomial, coefficient),) = square
    assert coefficient == 1
    assert len({index for f in monomial for index in f[3]}) == 2


def test_an_index_brought_in_is_not_captured():
    inner = contracted(matrix("a", ROW, K), matrix("b", K, COLUMN))
    wrapped = terms.function("relu", inner)
    outer = terms.substitute(wrapped, {COLUMN: ("b", 0, 5)})
    again = terms.function("relu", outer)
    assert again != terms.function("relu", terms.substitute(wrapped, {COLUMN: ("b", 0, 6)}))
    assert terms.has_index(outer[0][0], ("b", 0, 5))


def test_terms_cancel():
    a = matrix("a", ROW, COLUMN)
    assert terms.add(a, terms.scale(a, Fraction(-1))) == terms.ZERO


forms = st.recursive(
    st.sampled_from(
        [
            matrix("a", ROW, COLUMN),
            matrix("b", ROW, COLUMN),
            matrix("a", COLUMN, ROW),
            terms.number(2),
        ]
    ),
    lambda inner: st.one_of(
        st.builds(terms.add, inner, inner),
        st.builds(terms.multiply, inner, inner),
        st.builds(lambda f: terms.function("f", f), inner),
        st.builds(lambda f: terms.substitute(f, {COLUMN: ("b", 0, 5)}), inner),
    ),
    max_leaves=4,
)


@given(forms, forms, forms)
def test_forms_are_a_commutative_ring(x, y, z):
    assert terms.add(x, y) == terms.add(y, x)
    assert terms.multiply(x, y) == terms.multiply(y, x)
    assert terms.multiply(x, terms.multiply(y, z)) == terms.multiply(terms.multiply(x, y), z)
    distributed = terms.add(terms.multiply(x, y), terms.multiply(x, z))
    assert terms.multiply(x, terms.add(y, z)) == distributed
