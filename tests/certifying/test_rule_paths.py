import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import MatchResult, RewriteRule

from onnx_passes.certifying import Outcome, prove_rule
from onnx_passes.certifying.certification import verdict_of
from onnx_passes.certifying.replay import NAN_ORDERS
from onnx_passes.certifying.rewrite_rule import Job, apply_rule, rules_of
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.certifying.rule_paths import RulePaths, cap
from onnx_passes.testing import parse

SIZES = ("3", "4,16")


def twice(op, x):
    return op.Relu(op.Relu(x))


def relu(op, x):
    return op.Relu(x)


def followed(rewrite, check=None, sizes=SIZES, pattern=twice):
    """Return the paths of a rule on some models."""
    paths = RulePaths(RewriteRule(pattern, rewrite, check, name="followed"))
    for size in sizes:
        model = parse(f"(float[{size}] x) => (float[{size}] y) {{ a = Relu(x) y = Relu(a) }}")
        apply_rule(paths.rule, model)
        paths.keep()
    return paths


def follow(rewrite, check=None):
    """Return what never ran, with lines counted from the one that defines the function."""
    first = (check or rewrite).__code__.co_firstlineno
    said = never_ran(followed(rewrite, check))[0]
    return said.replace(f"line {first + 1}", "line 1").replace(f"line {first + 2}", "line 2")


def never_ran(*rules):
    """Return what never ran of each rule of a pass."""
    results = [{**paths.told(), "verdict": "proved", "reason": ""} for paths in rules]
    cap(results)
    return [result["reason"] for result in results]


def test_a_line_that_leads_to_a_rewrite_and_never_ran_is_named():
    def rewrite(op, x):
        if len(x.shape) == 6:
            return op.Abs(x)
        return op.Relu(x)

    assert follow(rewrite) == "line 2 never ran"


def test_a_branch_of_one_line_that_never_ran_is_named():
    def rewrite(op, x):
        return op.Abs(x) if x.shape == (7,) else op.Relu(x)

    assert follow(rewrite) == "line 1: x.shape == (7,) was never true"


def test_a_branch_without_lines_that_was_never_taken_is_named():
    def rewrite(op, x):
        made = op.Abs(x)
        if x.shape != (7,):
            made = op.Relu(x)
        return made

    assert follow(rewrite) == "line 2: x.shape != (7,) was never false"


def test_each_part_of_a_guard_that_lets_a_match_pass_must_have_done_so():
    def check(context, x):
        return len(x.shape) < 3 or x.shape[-1] % 16 == 0

    assert follow(relu, check) == "line 1: x.shape[-1] % 16 == 0 was never asked"


def test_a_refusal_need_not_run():
    def check(context, x):
        result = MatchResult()
        if x is None or x.dtype is None:
            return result.fail("nothing is known")
        if x.name == "never":
            raise ValueError(x.name)
        for size in x.shape:
            if size == 1000:
                return False
        return result

    assert follow(relu, check) == ""


def test_none_that_a_condition_asks_for_is_that_condition_s():
    def refusing(context, x):
        rank = None if x.shape is None else len(x.shape)
        return rank is not None and rank < 9

    def deciding(context, x):
        rank = None if x.shape is None else len(x.shape)
        if rank is None:
            return True
        return rank < 9

    def passing(op, x):
        most = None if x.shape == (7,) else op.Constant(value_float=np.inf)
        return op.Clip(x, op.Constant(value_float=0.0), most)

    assert follow(relu, refusing) == ""
    assert "never ran" in never_ran(followed(relu, deciding))[0]
    assert "x.shape == (7,) was never true" in never_ran(followed(passing))[0]


def test_a_condition_at_the_end_of_a_loop_goes_on_with_the_next_turn():
    def check(context, x):
        for size in x.shape:
            if size < 0 or not (size == 4 or size == 16 or size <= 3):
                return False
        found = x.shape
        for size in x.shape:
            if size > 3 and size != 4:
                found = (size,)
        return bool(found)

    assert follow(relu, check) == ""


def test_what_is_not_of_the_match_is_the_same_for_all_models():
    def made(exact):
        def rewrite(op, x):
            if exact:
                return op.Relu(x)
            return op.Relu(x)

        return rewrite

    assert follow(made(exact=True)) == ""


def _many(shape):
    if len(shape) > 4:
        return True
    return int(np.prod(shape)) >= 24


def test_what_a_check_sets_is_of_the_match():
    class Stateful:
        def check(self, context, x):
            self.odd = len(x.shape) == 7
            return True

        def rewrite(self, op, x):
            if self.odd:
                return op.Abs(x)
            return op.Relu(x)

    rule = Stateful()
    assert "never ran" in follow(rule.rewrite, rule.check)


def test_helpers_of_the_same_file_are_followed():
    def rewrite(op, x):
        return op.Abs(x) if _many(x.shape) else op.Relu(x)

    line = _many.__code__.co_firstlineno + 2
    assert f"line {line} never ran" in follow(rewrite)


def test_a_path_that_never_ran_is_tested_and_not_proved():
    def rewrite(op, x):
        if x.producer() is not None and x.producer().op_type == "Sigmoid":
            return op.Abs(x)
        return op.Relu(x)

    rule = RewriteRule(twice, rewrite, name="behind-a-sigmoid")
    found = verdict_of(None, rule, Job("m:o", models=5, seconds=600))
    assert found["verdict"] == "tested"
    assert "never ran" in found["reason"]
    assert prove_rule(rule).outcome == Outcome.PROVED, "which is why paths are followed"


THIRD, ROWS = 3, 16


def _by_size(op, x):
    return op.Abs(x) if x.shape and x.shape[-1] % ROWS == 0 and x.shape[-1] else op.Relu(x)


def _by_rank(op, x):
    return op.Abs(x) if len(x.shape) == 6 else op.Relu(x)


def _by_count(op, x):
    return op.Abs(x) if np.prod(x.shape) == 35 else op.Relu(x)


def _by_readers(op, x):
    return op.Abs(x) if len(x.uses()) >= THIRD else op.Relu(x)


@pytest.mark.parametrize("rewrite", [_by_size, _by_rank, _by_count, _by_readers])
def test_an_integer_of_the_code_decides_a_size_a_rank_and_a_count(rewrite):
    def known(context, x):
        return x.shape is not None and all(isinstance(size, int) for size in x.shape)

    tested = fuzz_rule(RewriteRule(twice, rewrite, known, name="by"), seconds=600, models=1000)
    assert tested.verdict == "refuted"


def test_an_integer_of_the_guard_is_an_end():
    def check(context, x, e):
        return e.const_value is not None and e.const_value.numpy().tolist() >= [64]

    rule = RewriteRule(
        lambda op, x, e: op.Slice(x, [0], e, [0]), lambda op, x, e: op.Identity(x), check
    )
    assert fuzz_rule(rule, seconds=600, models=1000).verdict == "refuted"


def test_a_guard_that_counts_indices_is_tried_on_a_longer_axis():
    def counts(context, x, i):
        found = None if i.const_value is None else i.const_value.numpy()
        return (
            found is not None
            and found.ndim == 1
            and found.size >= 7
            and [*found] == [*range(found.size)]
        )

    rule = RewriteRule(
        lambda op, x, i: op.Gather(x, i, axis=0), lambda op, x, i: op.Identity(x), counts
    )
    assert fuzz_rule(rule, seconds=600, models=1000).verdict == "refuted"


LARGEST = 2**63 - 1


def test_the_largest_integer_is_an_ordinary_end():
    def known(context, x, e):
        return e.const_value is not None and e.const_value.numpy().tolist() == [LARGEST]

    rule = RewriteRule(
        lambda op, x, e: op.Slice(x, [0], e, [0]), lambda op, x, e: op.Identity(x), known
    )
    tested = fuzz_rule(rule, seconds=600, models=5)
    assert tested.verdict == "tested"
    assert tested.models > 20


def test_how_a_kernel_orders_nan_is_counted_and_no_difference():
    swapped = [0, 1, 3, 2]

    def rewrite(op, x):
        made = op.MaxPool(op.Transpose(x, perm=swapped), kernel_shape=[2, 2])
        return op.Neg(op.Transpose(made, perm=swapped))

    rule = RewriteRule(
        lambda op, x: op.Neg(
            op.MaxPool(x, kernel_shape=[2, 2], _allow_other_attributes=False)
        ),
        rewrite,
        lambda context, x: x.dtype == ir.DataType.FLOAT and x.producer() is None,
    )
    tested = fuzz_rule(rule, seconds=600, models=10)
    assert tested.verdict == "tested"
    assert tested.excused[NAN_ORDERS]
    assert tested.inexact is None


@pytest.mark.parametrize(("seconds", "limit"), [(1, 19), (20, 38), (600, 720)])
def test_a_rule_ends_before_twice_its_time(seconds, limit):
    assert Job("m:o", seconds=seconds).limit == limit


def follow_together(rewrite, *texts):
    """Return what never ran of rules for Relu, Neg and Abs that share a rewrite."""
    rules = []
    for (operator, build), models in zip(SHARING.items(), texts, strict=False):
        paths = RulePaths(RewriteRule(build, rewrite, name=operator))
        for sizes in models:
            text = f"{{ a = {operator}(x) y = {operator}(a) }}"
            apply_rule(paths.rule, parse(f"(float[{sizes}] x) => (float[{sizes}] y) {text}"))
            paths.keep()
        rules.append(paths)
    return never_ran(*rules)


SHARING = {
    "Relu": lambda op, x: op.Relu(op.Relu(x, _outputs=["inner"])),
    "Neg": lambda op, x: op.Neg(op.Neg(x, _outputs=["inner"])),
}


def test_what_each_rule_decides_in_one_way_the_pattern_decides():
    def rewrite(op, x, inner):
        if inner.producer().op_type == "Neg":
            return op.Identity(x)
        return op.Relu(x)

    assert follow_together(rewrite, SIZES, SIZES) == ["", ""]
    assert "never ran" in follow_together(rewrite, SIZES)[0], "of one rule nothing is known"


def test_what_follows_a_branch_that_may_go_on_is_not_of_its_condition():
    def rewrite(op, x, inner):
        if inner.producer().op_type == "Relu":  # noqa: SIM102 (what is tested)
            if x.shape != (7,):
                return op.Relu(x)
        return op.Identity(x)

    of_relu, of_neg = follow_together(rewrite, SIZES, SIZES)
    assert "never ran" in of_relu, "a vector of 7 is not refused, and would be wrong"
    assert of_neg == ""


def test_a_branch_behind_another_that_the_pattern_decides_is_of_its_own_condition():
    def rewrite(op, x, inner):
        if inner.producer().op_type == "Neg":
            return op.Identity(x)
        elif x.shape != (7,):
            return op.Relu(x)
        return op.Abs(x)

    of_relu, of_neg = follow_together(rewrite, SIZES, SIZES)
    assert "never ran" in of_relu
    assert of_neg == ""


def test_what_is_never_asked_is_of_the_condition_in_front():
    def rewrite(op, x, inner):
        if inner.producer().op_type == "Neg" or x.shape == (3,):
            return op.Identity(x) if inner.producer().op_type == "Neg" else op.Relu(x)
        return op.Relu(x)

    of_relu, of_neg = follow_together(rewrite, SIZES, SIZES)
    assert (of_relu, of_neg) == ("", "")

    def behind(op, x, inner):
        if x.shape != (7,) or inner.producer().op_type == "Neg":
            return op.Relu(x) if inner.producer().op_type == "Relu" else op.Identity(x)
        return op.Abs(x)

    assert all("never" in said for said in follow_together(behind, SIZES, SIZES))


def test_what_is_returned_is_decided_by_the_pattern_too():
    def check(context, x, inner):
        return x.dtype is not None and (inner.producer().op_type == "Neg" or x.shape != (7,))

    def same(op, x, inner):
        return getattr(op, inner.producer().op_type)(op.Identity(inner))

    rules = []
    for operator, build in SHARING.items():
        paths = RulePaths(RewriteRule(build, same, check, name=operator))
        text = f"{{ a = {operator}(x) y = {operator}(a) }}"
        apply_rule(paths.rule, parse(f"(float[3] x) => (float[3] y) {text}"))
        paths.keep()
        rules.append(paths)
    assert never_ran(*rules) == ["", ""]


def test_methods_that_a_rule_inherits_are_followed_without_their_file():
    from onnx_passes.passes.lowering.lower_sigmoid import LowerSigmoid

    (rule,) = rules_of(LowerSigmoid)
    paths = RulePaths(rule, LowerSigmoid)
    model = parse("(float[2,3] x) => (float[2,3] y) { y = Sigmoid(x) }")
    assert apply_rule(paths.rule, model) is not None
    paths.keep()
    followed = {code.co_name for code in paths._codes.values()}
    assert {"check", "rewrite", "lowered"} <= followed
    assert not followed & {"node", "number", "_opset_of"}


def test_an_opset_where_a_graph_may_import_none_need_not_be_asked_for():
    def opset(context):
        imports = context.graph_or_function.opset_imports
        return imports.get("") or context.model.opset_imports.get("", 0)

    def check(context, x):
        return opset(context) < 30

    def decided(context, x):
        return context.model.opset_imports.get("", 0) < 30 or x.shape == (7,)

    assert follow(relu, check) == ""
    assert "x.shape == (7,) was never" in follow(relu, decided)
