"""Guards that forget a constant, an attribute or a type of a kind are refuted."""

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying import prove, rule_fuzzing
from onnx_passes.certifying.arithmetic_verdicts import GAVE_UP
from onnx_passes.certifying.proof import Arithmetic, ArithmeticVerdict, Outcome, Proof
from onnx_passes.passes.constants import constant_of

WHOLE = (ir.DataType.INT32, ir.DataType.INT64)


def array_of(value):
    tensor = None if value is None else constant_of(value)
    return None if tensor is None or tensor.size == 0 else tensor.numpy()


def number_of(value):
    array = array_of(value)
    return None if array is None or array.ndim else array.item()


def attribute(value, name, default=None):
    found = value.producer().attributes.get(name)
    return default if found is None else found.value


def zero_points():
    def all_zero(context, y, **_):
        found = [v for v in y.producer().inputs[2:] if v is not None]
        arrays = [array_of(v) for v in found]
        return bool(found) and all(a is not None and a.flat[0] == 0 for a in arrays)

    return RewriteRule(
        lambda op, a, b: op.MatMulInteger(a, b, _allow_other_inputs=True, _outputs=["y"]),
        lambda op, a, b, y: op.MatMulInteger(a, b),
        all_zero,
    )


def factor_of_one():
    def fits(context, x, c):
        array = array_of(c)
        return array is not None and array.flat[0] == 1 and [*array.shape] == [*x.shape]

    return RewriteRule(lambda op, x, c: op.Mul(x, c), lambda op, x, c: op.Identity(x), fits)


def divided_twice():
    def at_once(op, x, a, b):
        whole = np.array(number_of(a) * number_of(b)).astype(x.dtype.numpy())
        return op.Div(x, op.Constant(value=ir.tensor(whole)))

    def fits(context, x, a, b):
        numbers = number_of(a), number_of(b)
        if x.dtype != ir.DataType.INT32 or None in numbers:
            return False
        return min(numbers) > 0 and numbers[0] * numbers[1] < 2**63

    return RewriteRule(lambda op, x, a, b: op.Div(op.Div(x, a), b), at_once, fits)


def compared_with_a_difference():
    def fits(context, x, a, b):
        return x.dtype in WHOLE and None not in (number_of(a), number_of(b))

    def moved(op, x, a, b):
        number = np.array(number_of(b) - number_of(a)).astype(x.dtype.numpy())
        return op.Less(x, op.Constant(value=ir.tensor(number)))

    return RewriteRule(lambda op, x, a, b: op.Less(op.Add(x, a), b), moved, fits)


def scaled_by_another_axis():
    def swapped(op, x, s, t, y):
        rank = len(x.shape)
        perm = attribute(t, "perm", [*range(rank)][::-1])
        axis = list(perm).index(attribute(y, "axis", 1) % rank)
        return op.Transpose(op.DequantizeLinear(x, s, axis=axis), perm=perm)

    return RewriteRule(
        lambda op, x, s: op.DequantizeLinear(
            op.Transpose(x, _outputs=["t"]), s, _outputs=["y"]
        ),
        swapped,
        lambda context, x, s, **_: len(s.shape) == 1 and len(x.shape) > 1,
    )


def softmax_along_another_axis():
    def swapped(op, x, t, y):
        rank = len(x.shape)
        perm = attribute(t, "perm", [*range(rank)][::-1])
        axis = list(perm).index(attribute(y, "axis", -1) % rank)
        return op.Transpose(op.Softmax(x, axis=axis), perm=perm)

    return RewriteRule(
        lambda op, x: op.Softmax(op.Transpose(x, _outputs=["t"]), _outputs=["y"]),
        swapped,
        lambda context, x, **_: context.model.opset_imports[""] > 12 and len(x.shape) > 0,
    )


def larger_and_smaller():
    def scales(value):
        inputs = value.producer().inputs
        return array_of(inputs[2]) if len(inputs) == 3 else None

    def fits(context, x, t, y):
        up, down = scales(t), scales(y)
        if up is None or down is None or len(up) != len(down) or any(up * down != 1):
            return False
        modes = [[attribute(v, name) for v in (t, y)] for name in ("mode", "nearest_mode")]
        places = [attribute(v, "coordinate_transformation_mode") for v in (t, y)]
        alike = all(one == other for one, other in (*modes, places))
        return alike and modes[0][0] in (None, "nearest") and modes[1][0] != "ceil"

    return RewriteRule(
        lambda op, x: op.Resize(
            op.Resize(x, _allow_other_inputs=True, _outputs=["t"]),
            _allow_other_inputs=True,
            _outputs=["y"],
        ),
        lambda op, x, **_: op.Identity(x),
        fits,
    )


def added_and_subtracted():
    def fits(context, x, a, b):
        numbers = number_of(a), number_of(b)
        return None not in numbers and x.dtype == ir.DataType.FLOAT and sum(numbers) == 0

    return RewriteRule(
        lambda op, x, a, b: op.Sub(op.Add(x, a), b), lambda op, x, **_: op.Identity(x), fits
    )


def last_of_equal():
    def fits(context, x, depth, values, i, y):
        pair, sizes, number = array_of(values), [*x.shape], array_of(depth)
        if x.dtype != ir.DataType.FLOAT or pair is None or number is None or 0 in sizes:
            return False
        if not sizes or attribute(i, "keepdims", 1) or pair.tolist() != [0.0, 1.0]:
            return False
        axis = attribute(i, "axis", 0) % len(sizes)
        same = attribute(y, "axis", -1) % len(sizes) == axis and pair.dtype == np.float32
        return same and number.item() == sizes[axis] and context.model.opset_imports[""] > 12

    return RewriteRule(
        lambda op, x, depth, values: op.OneHot(
            op.ArgMax(x, _outputs=["i"]), depth, values, _outputs=["y"]
        ),
        lambda op, x, i, **_: op.Hardmax(x, axis=attribute(i, "axis", 0)),
        fits,
    )


def smoothed():
    return RewriteRule(
        lambda op, x, c: op.Mul(x, c),
        lambda op, x, c: op.Identity(x),
        lambda context, x, c: (
            (a := array_of(c)) is not None
            and a.tolist() == [0.25, 0.5, 0.25]
            and [*x.shape][-1:] == [3]
        ),
    )


def pooled_twice():
    """It forgets what the first pool drops at the end, which padding of the second reaches."""

    def numbers(value, rank):
        found = [attribute(value, n) for n in ("auto_pad", "ceil_mode", "dilations")]
        if any(found) or len(kernel := attribute(value, "kernel_shape")) != rank:
            return None
        pads = attribute(value, "pads", [0] * 2 * rank)
        fits = all(p < k for p, k in zip(pads, [*kernel] * 2, strict=True))
        strides = np.array(attribute(value, "strides", [1] * rank))
        return (np.array(kernel), strides, np.array(pads)) if fits else None

    def window(x, t, y):
        rank = len(x.shape) - 2
        both = [numbers(v, rank) for v in (t, y)] if rank > 0 else [None]
        if None in both or any(both[0][1] > both[0][0]):
            return None
        (kernel, step, pads), (second, strides, more) = both
        shapes = kernel + (second - 1) * step, step * strides, pads + [*step, *step] * more
        return [[int(n) for n in each] for each in shapes]

    def once(op, x, t, y):
        kernel, strides, pads = window(x, t, y)
        return op.MaxPool(x, kernel_shape=kernel, strides=strides, pads=pads)

    return RewriteRule(
        lambda op, x: op.MaxPool(op.MaxPool(x, _outputs=["t"]), _outputs=["y"]),
        once,
        lambda context, x, t, y: window(x, t, y) is not None,
    )


def read_what_was_written():
    def unlike(context, i, **_):
        array = array_of(i)
        rows = [] if array is None or not array.ndim else array.reshape(-1, array.shape[-1])
        return 0 < len(rows) == len({*map(tuple, rows)})

    return RewriteRule(
        lambda op, x, i, u: op.GatherND(op.ScatterND(x, i, u), i),
        lambda op, u, **_: op.Identity(u),
        unlike,
    )


def cut_from_a_run():
    def fits(context, i, **_):
        array = array_of(i)
        return array is not None and array.ndim == 1 and bool(np.all(np.diff(array) == 1))

    def cut(op, x, i, y):
        places = array_of(i)
        numbers = ([places[0]], [places[-1] + 1], [attribute(y, "axis", 0)])
        return op.Slice(x, *(op.Constant(value=ir.tensor(np.array(n))) for n in numbers))

    return RewriteRule(lambda op, x, i: op.Gather(x, i, _outputs=["y"]), cut, fits)


def product_in_any_order():
    """It forgets that the axes of a result without an arrow are sorted by name."""

    def fits(context, a, b, y):
        left, _, right = attribute(y, "equation").partition("->")[0].partition(",")
        letters = [*left, *right]
        chain = len(left) == len(right) == 2 and left[1] == right[0] and len({*letters}) == 3
        return chain and "->" not in attribute(y, "equation") and left.isalpha()

    return RewriteRule(
        lambda op, a, b: op.Einsum(a, b, _outputs=["y"]),
        lambda op, a, b, y: op.MatMul(a, b),
        fits,
    )


def mean_of_one_window():
    """It forgets that padding makes more windows."""

    def fits(context, x, y):
        return [*attribute(y, "kernel_shape")] == [*x.shape][2:] and 0 not in x.shape

    return RewriteRule(
        lambda op, x: op.AveragePool(x, _outputs=["y"]),
        lambda op, x, y: op.GlobalAveragePool(x),
        fits,
    )


def summed_twice_along_an_axis():
    """It forgets that a sum may run from the other end."""
    return RewriteRule(
        lambda op, x, k: op.CumSum(x, k, _outputs=["y"]),
        lambda op, x, k, y: op.CumSum(x, k, exclusive=attribute(y, "exclusive", 0)),
        lambda context, y, **_: attribute(y, "reverse", 0),
    )


def mixed_channels():
    """It forgets that a step leaves places between, of a kernel of one element too."""

    def fits(context, w, y, **_):
        found = array_of(w)
        alone = found is not None and found.ndim > 2 and not {*found.shape[2:]} - {1}
        return alone and attribute(y, "group", 1) == 1

    def as_conv(op, x, w, y):
        weights = np.ascontiguousarray(np.swapaxes(array_of(w), 0, 1))
        return op.Conv(x, op.Constant(value=ir.tensor(weights)))

    return RewriteRule(
        lambda op, x, w: op.ConvTranspose(x, w, _allow_other_inputs=False, _outputs=["y"]),
        as_conv,
        fits,
    )


def window_of_one():
    """It forgets that a step leaves elements out."""
    return RewriteRule(
        lambda op, x: op.MaxPool(x, _outputs=["y"]),
        lambda op, x, y: op.Identity(x),
        lambda context, x, y: not {*attribute(y, "kernel_shape")} - {1},
    )


def bias_of_groups():
    """It forgets that each group of a ConvTranspose makes as many channels."""

    def fits(context, w, b, **_):
        return len(w.shape) == 4 and [*b.shape] == [1, w.shape[1], 1, 1]

    def biased(op, x, w, b, y):
        row = op.Reshape(b, op.Constant(value=ir.tensor(np.array([-1]))))
        return op.ConvTranspose(x, w, row, **y.producer().attributes)

    return RewriteRule(
        lambda op, x, w, b: op.Add(op.ConvTranspose(x, w, _outputs=["y"]), b), biased, fits
    )


def expanded_to_fewer_axes():
    """It forgets that a number may have more axes than the shape that it is expanded to."""

    def filled(op, x, shape):
        return op.ConstantOfShape(shape, value=ir.tensor(array_of(x).reshape(1)))

    def fits(context, x, **_):
        array = array_of(x)
        return array is not None and array.size == 1 and x.dtype == ir.DataType.FLOAT

    return RewriteRule(lambda op, x, shape: op.Expand(x, shape), filled, fits)


def every_second_pixel():
    """It forgets that half of an odd size is rounded down."""

    def fits(context, x, y):
        inputs = y.producer().inputs
        scales = array_of(inputs[2]) if len(inputs) == 3 else None
        if scales is None or scales.tolist() != [1, 1, 0.5, 0.5] or len(x.shape) != 4:
            return False
        if attribute(y, "mode", "nearest") != "nearest" or attribute(y, "axes"):
            return False
        places = attribute(y, "coordinate_transformation_mode")
        return (places, attribute(y, "nearest_mode")) == ("asymmetric", "floor")

    def cut(op, x, y):
        numbers = ([0, 0], [2**31] * 2, [2, 3], [2, 2])
        return op.Slice(x, *(op.Constant(value=ir.tensor(np.array(n))) for n in numbers))

    return RewriteRule(
        lambda op, x: op.Resize(x, _allow_other_inputs=True, _outputs=["y"]), cut, fits
    )


def mean_over_an_image():
    """It forgets that the axes may be removed."""

    def axes_of(y):
        inputs = y.producer().inputs
        return None if len(inputs) > 1 else attribute(y, "axes")

    return RewriteRule(
        lambda op, x: op.ReduceMean(x, _allow_other_inputs=True, _outputs=["y"]),
        lambda op, x, y: op.GlobalAveragePool(x),
        lambda context, x, y: (
            len(x.shape) == 4 and sorted(axes_of(y) or ()) == [2, 3] and "axes"
        ),
    )


def norm_of_any_order():
    """It takes every order but the first one for the second."""

    def reduced(op, x, y):
        axes = op.Constant(value=ir.tensor(np.arange(2, len(x.shape))))
        name = "ReduceL1" if attribute(y, "p", 2) == 1 else "ReduceL2"
        return getattr(op, name)(x, axes, keepdims=1)

    return RewriteRule(
        lambda op, x: op.GlobalLpPool(x, _outputs=["y"]),
        reduced,
        lambda context, x, y: x.dtype == ir.DataType.FLOAT,
    )


def sizes_up_to_0():
    """It takes an end of 0 for no end."""

    def counted(op, x, s):
        sizes = range(len(x.shape))[attribute(s, "start", 0) : attribute(s, "end", 0) or None]
        return op.Constant(value=ir.tensor(np.array(len(sizes))))

    return RewriteRule(lambda op, x: op.Size(op.Shape(x, _outputs=["s"])), counted)


@pytest.mark.parametrize(
    "rule",
    [
        *(zero_points, factor_of_one),
        *(divided_twice, compared_with_a_difference),
        *(scaled_by_another_axis, softmax_along_another_axis),
        *(larger_and_smaller, added_and_subtracted),
        *(last_of_equal, smoothed),
        *(pooled_twice, read_what_was_written, cut_from_a_run),
        *(product_in_any_order, mean_of_one_window, summed_twice_along_an_axis),
        *(mixed_channels, bias_of_groups, expanded_to_fewer_axes, every_second_pixel),
        *(mean_over_an_image, window_of_one, norm_of_any_order, sizes_up_to_0),
    ],
)
def test_a_guard_that_forgets_is_refuted(monkeypatch, rule):
    """In pairs: a first element, wrapping, orders of axes, inverses, lists of numbers.

    Then: attributes of two nodes, two indices of one place, a run of indices past the end.
    Then: any equation, a window of all, an axis that is an operand, weights of one place.
    Then: groups of one channel, a constant that is data, texts and axes that a guard names,
    windows of one element, numbers beside those of the rule.
    """
    monkeypatch.setattr(rule_fuzzing, "ATTEMPTS", 100)  # ordinary models show few of these
    assert rule_fuzzing.fuzz_rule(rule(), seconds=600, models=1).fault is not None


@pytest.mark.parametrize(("proved", "asked"), [(False, 3), (True, 10)])
def test_a_proof_ends_after_some_templates_that_z3_gives_up(monkeypatch, proved, asked):
    pytest.importorskip("z3")
    outcomes = iter([Outcome.PROVED] * proved + [Outcome.UNDECIDED] * 100)
    calls = []

    def judged(before, after, *, effort):
        calls.append(before)
        outcome = next(outcomes)
        reason = GAVE_UP if outcome == Outcome.UNDECIDED else ""
        one = ArithmeticVerdict(Arithmetic.INT, outcome, reason=reason)
        return Proof(
            tuple(
                one if a == Arithmetic.INT else ArithmeticVerdict(a, Outcome.NOT_APPLICABLE)
                for a in Arithmetic
            )
        )

    monkeypatch.setattr(prove, "prove_pair", judged)
    rule = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
    prove.prove_rule(rule, effort=prove.Effort(was_tested=True))
    assert len(calls) == asked
