"""Ranks, types and opsets are tried one by one before anything is left to chance."""

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying import Outcome, prove_rule
from onnx_passes.certifying.certification import verdict_of
from onnx_passes.certifying.coverage import plans_of
from onnx_passes.certifying.rewrite_rule import Job
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.certifying.template_models import TYPES
from onnx_passes.passes.common.shapes import ints_of

pytest.importorskip("z3")


def test_a_guard_that_excludes_vectors_makes_it_right_and_the_claim_says_so():
    def matrices(context, x, a, b):
        # Products of two weights overflow in float16.
        ranks = all(v.shape is not None and len(v.shape) == 2 for v in (x, a, b))
        return ranks and x.dtype is not ir.DataType.FLOAT16

    rule = RewriteRule(
        lambda op, x, a, b: op.MatMul(op.MatMul(x, a), b),
        lambda op, x, a, b: op.MatMul(x, op.MatMul(a, b)),
        matrices,
    )
    tested, proof = fuzz_rule(rule, seconds=600, models=20), prove_rule(rule)
    assert tested.verdict == "tested"
    assert proof.outcome == Outcome.PROVED
    for name in "xab":
        assert tested.covered.as_dict()["operands"][name]["ranks"] == [2]
        assert proof.covers["operands"][name]["ranks"] == [2]


def test_a_rule_that_is_wrong_for_one_rank_of_one_operand_is_refuted():
    def scalar(context, x, y):
        return len(y.shape) == 4 and len(x.shape) == 0

    rule = RewriteRule(
        lambda op, x, y: op.Add(x, op.Neg(y)), lambda op, x, y: op.Sub(y, x), scalar
    )
    assert fuzz_rule(rule, seconds=600, models=20).verdict == "refuted"


def test_a_rule_that_is_wrong_in_one_opset_is_refuted():
    def last(context, x):
        return context.model.opset_imports[""] == 26

    rule = RewriteRule(lambda op, x: op.Neg(x), lambda op, x: op.Abs(x), last)
    assert fuzz_rule(rule, seconds=600, models=20).verdict == "refuted"


@pytest.mark.parametrize("seed", [0, 1])
def test_an_operand_that_enlarges_an_axis_of_a_product_is_tried(seed):
    def matrices(context, **operands):
        return all(len(value.shape) == 2 for value in operands.values())

    rule = RewriteRule(
        lambda op, x, w, b: op.Add(op.MatMul(x, w), b),
        lambda op, x, w, b: op.Gemm(x, w, b),
        matrices,
    )
    tested = fuzz_rule(rule, seconds=600, models=20, seed=seed)
    assert tested.fault is not None, "a bias of several rows fits a product of one"


def test_each_pair_of_unlike_axes_is_planned():
    """A guard that counts from the end of four axes was proved: few draws passed it."""

    def alike(context, a, b, y):
        axes = (v.producer().attributes.get_int("axis", 0) for v in (a, y))
        return len({axis % 4 for axis in axes}) == 1

    def split(op, x):
        a, b = op.Split(x, _allow_other_inputs=True, _outputs=["a", "b"])
        return op.Concat(a, b, _outputs=["y"])

    rule = RewriteRule(split, lambda op, x, **_: op.Identity(x), alike)
    axes = {plan.axes for plan in plans_of(rule, TYPES)}
    assert axes >= {(1, -3), (-3, 1), (-1, 3)}
    assert axes.isdisjoint({(1, 1), (0, 0)})
    assert fuzz_rule(rule, seconds=600, models=20).fault is not None


def test_lists_of_integers_in_the_guard_are_tried_where_there_are_such_lists():
    def of_pictures(context, x, y):
        node = y.producer()
        given = ints_of(node.inputs[1]) if node.inputs[1:] else node.attributes["axes"].value
        return x.dtype == ir.DataType.FLOAT and sorted(given or ()) == [2, 3]

    rule = RewriteRule(
        lambda op, x: op.ReduceMean(x, keepdims=1, _allow_other_inputs=True, _outputs=["y"]),
        lambda op, x, y: op.GlobalAveragePool(x),
        of_pictures,
    )
    tested = fuzz_rule(rule, seconds=600, models=20)
    assert tested.fault is not None, "of five axes, the pooling reduces one more"


def starts_of(*values):
    found = [v.const_value and v.const_value.numpy() for v in values]
    fit = all(n is not None and n.shape == (1,) and n[0] >= 0 for n in found)
    return [int(n[0]) for n in found] if fit else None


def joined_slices(special):
    """Two Slices to the end in one, which starts elsewhere where two numbers meet."""

    def rewrite(op, x, a, b):
        first, second = starts_of(a, b)
        start = special if first == 5 and second == 7 else first + second
        ends = [op.Constant(value=ir.tensor([n])) for n in (start, 2**63 - 1, 0)]
        return op.Slice(x, *ends)

    def pattern(op, x, a, b):
        return op.Slice(op.Slice(x, a, [2**63 - 1], [0]), b, [2**63 - 1], [0])

    return RewriteRule(
        pattern, rewrite, lambda context, a, b, **_: starts_of(a, b) is not None
    )


def turned_softmax(special):
    """A Softmax in front of a Transpose, along another axis where two numbers meet."""

    def check(context, t, s, **_):
        given, opset = s.producer().attributes, s.producer().graph.opset_imports[""]
        return opset >= 13 and "axis" in given and "perm" in t.producer().attributes

    def rewrite(op, x, t, s):
        perm = t.producer().attributes["perm"].value
        axis = s.producer().attributes["axis"].value % len(perm)
        along = perm[special] if axis == 2 and perm[0] == 3 else perm[axis]
        return op.Transpose(op.Softmax(x, axis=along), perm=perm)

    def pattern(op, x):
        return op.Softmax(op.Transpose(x, _outputs=["t"]), _outputs=["s"])

    return RewriteRule(pattern, rewrite, check)


@pytest.mark.parametrize(
    ("rule", "wrong", "right"), [(joined_slices, 11, 12), (turned_softmax, 1, 2)]
)
def test_integers_that_one_condition_asks_for_together_meet(rule, wrong, right):
    assert (
        verdict_of(None, rule(wrong), Job("m:o", seconds=600, models=20))["verdict"]
        == "refuted"
    )
    found = verdict_of(None, rule(right), Job("m:o", seconds=600, models=20))
    assert (found["verdict"], found["never_ran"]) == ("proved", "")


def made(pattern, replacement, check):
    return RewriteRule(pattern, replacement, lambda context, **values: check(**values))


def is_number(value, *numbers):
    array = None if value.const_value is None else value.const_value.numpy()
    return array is not None and array.size == 1 and array.item() in numbers


def of_shape(value, *, axes):
    return value.dtype == ir.DataType.FLOAT and len(value.shape) >= axes


def test_numbers_of_more_axes_than_the_other_operand_are_tried():
    rule = made(
        lambda op, x, c: op.Pow(x, c),
        lambda op, x, c: op.Mul(op.Mul(x, x), x),
        lambda x, c: is_number(c, 3) and of_shape(x, axes=0),
    )
    assert fuzz_rule(rule, seconds=600, models=60).fault is not None


def test_indices_from_the_end_are_tried():
    rule = made(
        lambda op, x, i: op.Gather(x, i, axis=0),
        lambda op, x, i: op.Slice(
            x,
            i,
            op.Add(i, op.Constant(value=ir.tensor([1]))),
            op.Constant(value=ir.tensor([0])),
        ),
        lambda x, i: of_shape(x, axes=1) and i.const_value is not None and i.shape == (1,),
    )
    fault = fuzz_rule(rule, seconds=600, models=60, faults=5).faults
    assert any("the shape is [0" in each.reason for each in fault), "from -1 to 0 is nothing"


def test_a_default_that_an_old_opset_has_alone_is_tried_on_many_models():
    # Of opsets before 13, a Softmax without an axis is over all axes but the first.
    rule = made(
        lambda op, x, c: op.Softmax(op.Add(x, c), _outputs=["y"]),
        lambda op, x, **_: op.Softmax(x),
        lambda x, c, y: (
            of_shape(x, axes=1)
            and c.const_value is not None
            and c.const_value.size <= 4
            and list(c.shape)[-1:] == [1]
            and list(c.shape)[-2:-1] == list(x.shape)[-2:-1]
            and "axis" not in y.producer().attributes
        ),
    )
    assert fuzz_rule(rule, seconds=600, models=60).fault is not None


def test_each_chain_of_types_is_planned_that_two_casts_make():
    rule = RewriteRule(
        lambda op, x, a, b: op.Cast(op.Cast(x, to=a), to=b),
        lambda op, x, a, b: op.Cast(x, to=b),
    )
    chains = [(p.dtype, *p.to) for p in plans_of(rule, TYPES) if p.to]
    assert len(chains) == len({*chains}) == 12**3
    one = RewriteRule(
        lambda op, x, a: op.Cast(op.Cast(x, to=1), to=a), lambda op, x, a: op.Cast(x, to=a)
    )
    assert {len(p.to) for p in plans_of(one, TYPES)} == {0, 1}


def test_an_opset_on_which_few_draws_fire_is_drawn_until_one_does():
    # With seed 0 none of four biases was zero in opset 9, where Gemm must have one.
    def is_zero(context, bias, **_):
        return bias.const_value is not None and not bias.const_value.numpy().any()

    rule = RewriteRule(
        lambda op, a, b, bias: op.Gemm(
            a, b, bias, _allow_other_attributes=True, _outputs=["y"]
        ),
        lambda op, a, b, y, **_: op.Gemm(a, b, **y.producer().attributes),
        is_zero,
        name="without bias",
    )
    tested = fuzz_rule(rule, seconds=600, models=20, seed=0)
    assert tested.verdict == "refuted"
    assert tested.fault.before.graph.opset_imports[""] < 11


def test_a_number_that_is_taken_for_another_is_tried_in_each_type_of_floats():
    # With seed 5 no factor beside 1 was drawn in double precision, where it shows.
    rule = RewriteRule(lambda op, x: x * 1, lambda op, x, **_: op.Identity(x), name="by one")
    near = [plan.dtype.name for plan in plans_of(rule, TYPES) if plan.near]
    assert {"FLOAT", "DOUBLE"} <= {*near}
    assert fuzz_rule(rule, seconds=600, models=20, seed=5).verdict == "refuted"


def test_variables_that_are_joined_to_a_shape_make_one_that_fits():
    # The shape was of variables, which no data fit: the rule fired on none of 8,744 models.
    def joined(op, x, a, b, c):
        return op.Shape(op.Reshape(x, op.Concat(a, b, c, axis=0)))

    rule = RewriteRule(
        joined, lambda op, a, b, c, **_: op.Concat(a, b, c, axis=0), name="joined"
    )
    tested = fuzz_rule(rule, seconds=600, models=20, seed=0)
    assert tested.verdict == "refuted"
    assert "expected" in tested.fault.reason


@pytest.mark.parametrize("end", [pytest.param(1000, marks=pytest.mark.slow), 100_000])
def test_a_slice_that_ends_at_a_number_meets_a_longer_axis(end):
    whole = RewriteRule(
        lambda op, x: op.Slice(x, [0], [end], [0]), lambda op, x: op.Identity(x), name="whole"
    )
    found = fuzz_rule(whole, seconds=600, models=60)
    assert found.fault is not None, "no axis of the models was longer than the number"
    assert f"[{end}]" in found.fault.reason
    assert len(found.fault.text()) < 5000, "long arrays are cut"


def _constant(value):
    return None if value.const_value is None else value.const_value.numpy()


def test_an_axis_of_another_size_and_of_an_equal_size_are_tried():
    def as_long_as_the_channels(context, x, w, c):
        weights, scale = _constant(w), _constant(c)
        known = weights is not None and scale is not None and weights.ndim == 4
        return known and scale.ndim <= 4 and scale.size == weights.shape[0]

    def into_weights(op, x, w, c):
        scaled = _constant(w) * _constant(c).reshape(-1, 1, 1, 1)
        return op.Conv(x, op.Constant(value=ir.tensor(scaled)))

    rule = RewriteRule(
        lambda op, x, w, c: op.Mul(op.Conv(x, w, _allow_other_attributes=False), c),
        into_weights,
        as_long_as_the_channels,
        name="scale-of-pictures",
    )
    assert fuzz_rule(rule, seconds=600, models=1).verdict == "refuted"


def test_constants_near_the_limit_of_half_precision_are_tried():
    def half(context, x, c):
        factor = _constant(c)
        return x.dtype == ir.DataType.FLOAT16 and factor is not None and factor.ndim == 0

    def twice(op, x, c):
        with np.errstate(over="ignore"):
            factor = np.asarray(_constant(c) * 2, np.float16)
        return op.Mul(x, op.Constant(value=ir.tensor(factor)))

    rule = RewriteRule(lambda op, x, c: op.Mul(op.Add(x, x), c), twice, half, name="twice")
    tested = fuzz_rule(rule, seconds=600, models=1)
    assert tested.verdict == "refuted"
    assert "nan" in tested.fault.reason or "inf" in tested.fault.reason


def test_scales_that_are_equal_and_not_all_one_number_are_tried():
    def equal(context, x, s, z, s2, z2):
        arrays = [_constant(value) for value in (s, z, s2, z2)]
        return (
            all(array is not None for array in arrays)
            and np.array_equal(arrays[0], arrays[2])
            and np.array_equal(arrays[1], arrays[3])
            and arrays[0].min(initial=1) > 1e-3
            and arrays[1].dtype == arrays[3].dtype == x.dtype.numpy()
        )

    rule = RewriteRule(  # the axes differ
        lambda op, x, s, z, s2, z2: op.QuantizeLinear(op.DequantizeLinear(x, s, z), s2, z2),
        lambda op, x, **_: op.Identity(x),
        equal,
        name="requantise",
    )
    assert fuzz_rule(rule, seconds=600, models=1).verdict == "refuted"


def test_negative_pads_are_tried_beside_those_of_the_next_operator():
    def pads_of(pads, y):
        added = _constant(pads).tolist()
        rank = len(added) // 2
        own = y.producer().attributes.get_ints("pads") or [0] * (2 * rank - 4)
        return [a + b for a, b in zip(own, added[2:rank] + added[rank + 2 :], strict=True)]

    def fits(context, x, pads, w, y):
        added = _constant(pads)
        if (
            added is None
            or x.shape is None
            or len(x.shape) != len(added) // 2
            or len(added) < 6
        ):
            return False
        outside = [*added[:2], *added[len(added) // 2 :][:2]]
        automatic = y.producer().attributes.get_string("auto_pad", "NOTSET") != "NOTSET"
        return not any(outside) and not automatic and min(pads_of(pads, y)) >= 0

    def merged(op, x, pads, w, y):
        attributes = {k: a for k, a in y.producer().attributes.items() if k != "pads"}
        return op.Conv(x, w, **attributes, pads=pads_of(pads, y))

    rule = RewriteRule(
        lambda op, x, pads, w: op.Conv(op.Pad(x, pads), w, _outputs=["y"]),
        merged,
        fits,
        name="pad-into-conv",
    )
    assert fuzz_rule(rule, seconds=600, models=1).verdict == "refuted"


def undone_split():
    return RewriteRule(
        lambda op, x, sizes: op.Concat(*op.Split(x, sizes, _outputs=["a", "b"]), axis=0),
        lambda op, x, **_: op.Identity(x),
        lambda context, a, **_: a.producer().attributes.get_int("axis", 0) == 0,
    )


def pads_from_begins():
    def rewrite(op, x, y):
        given = dict(y.producer().attributes)
        pads = given["pads"].value
        return op.MaxPool(x, **{**given, "pads": pads[: len(pads) // 2] * 2})

    def check(context, x, y):
        pads = y.producer().attributes.get_ints("pads", ())
        return pads[: len(pads) // 2] * 2 != pads

    return RewriteRule(lambda op, x: op.MaxPool(x, _outputs=["y"]), rewrite, check)


def gathered_indices():
    def axis(value):
        return value.producer().attributes.get_int("axis", 0)

    return RewriteRule(
        lambda op, x, i, j: op.Gather(op.Gather(x, i, _outputs=["a"]), j, _outputs=["b"]),
        lambda op, x, i, j, b, **_: op.Gather(x, op.Gather(i, j), axis=axis(b)),
        lambda context, i, a, b, **_: axis(a) == axis(b) and bool(i.shape),
    )


def merged_axes():
    def fits(context, x, i, j):
        one, two = (_constant(value) for value in (i, j))
        if one is None or two is None or not (one.size and two.size):
            return False
        return 0 <= one.min() < two.min() and not {*one.tolist()} & {*two.tolist()}

    def at_once(op, x, i, j):
        axes = np.sort(np.concatenate([_constant(i), _constant(j)]))
        return op.Unsqueeze(x, op.Constant(value=ir.tensor(axes)))

    return RewriteRule(lambda op, x, i, j: op.Unsqueeze(op.Unsqueeze(x, i), j), at_once, fits)


def dropped_transpose():
    def fits(context, x, shape, y):
        given = y.producer().attributes.get_ints("perm", ())
        if not given or x.shape is None or not x.shape.is_static():
            return False
        moved = [axis for axis, source in enumerate(given) if axis != source]
        free = _constant(shape) is not None and (_constant(shape) != 0).all()
        return free and sum(x.shape[axis] != 1 for axis in moved) < 2

    return RewriteRule(
        lambda op, x, shape: op.Reshape(op.Transpose(x, _outputs=["y"]), shape),
        lambda op, x, shape, **_: op.Reshape(x, shape),
        fits,
    )


def squeezed_names():
    """No axis has the size 1, but one may have a name."""
    return RewriteRule(
        lambda op, x: op.Squeeze(x, _allow_other_inputs=False),
        lambda op, x: op.Identity(x),
        lambda context, x: x.shape is not None and 1 not in list(x.shape),
    )


def kept_zeros():
    """A size of 0 is copied at its own place, unless it is a size of its own."""

    def fits(context, x, s, t):
        one, two = (_constant(value) for value in (s, t))
        known = one is not None and two is not None and one.size == two.size
        return known and bool((one[two == 0] == 0).all())

    return RewriteRule(
        lambda op, x, s, t: op.Reshape(op.Reshape(x, s), t),
        lambda op, x, s, t: op.Reshape(x, t),
        fits,
    )


def repeats_of_a_sum():
    def fits(context, x, r):
        repeats = _constant(r)
        return repeats is not None and repeats.size > 1 and repeats.sum() == repeats.size

    return RewriteRule(lambda op, x, r: op.Tile(x, r), lambda op, x, r: op.Identity(x), fits)


def unsigned_between():
    def fits(context, x, a, b):
        types = [x.dtype, ir.DataType(a.as_int()), ir.DataType(b.as_int())]
        return types == [ir.DataType.INT32, ir.DataType.UINT32, ir.DataType.INT64]

    return RewriteRule(
        lambda op, x, a, b: op.Cast(op.Cast(x, to=a), to=b),
        lambda op, x, a, b: op.Cast(x, to=b.as_int()),
        fits,
    )


@pytest.mark.parametrize(
    "rule",
    [
        undone_split,
        pads_from_begins,
        gathered_indices,
        merged_axes,
        dropped_transpose,
        squeezed_names,
        kept_zeros,
        repeats_of_a_sum,
        unsigned_between,
    ],
)
def test_what_a_pattern_leaves_open_is_tried(rule):
    """What a pattern does not name is tried in forms that authors forget."""
    assert fuzz_rule(rule(), seconds=600, models=1).fault is not None
