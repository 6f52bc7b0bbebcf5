"""What follows from sizes alone is compared at sizes that no sample has."""

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of, rule_pass

POSITIONS = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,8] x, float[M,8] z) => (float[N,8] y, float[M,8] w)
<int64 zero = {0}, int64 one = {1}, float half = {0.5}, float top = {TOP},
 int64[1] last = {1}> {
    shape = Shape(x)
    rows = Gather(shape, zero)
    at = Range(zero, rows, one)
    wide = Cast<to = 1>(at)
    root = Pow(wide, half)
    length = Shape(wide)
    many = Expand(top, length)
    bounded = Min(root, many)
    column = Unsqueeze(bounded, last)
    y = Add(x, column)
    w = Neg(z)
}"""


def model(top):
    return ir.from_onnx_text(POSITIONS.replace("TOP", str(top)))


rule_pass("SizesWithoutMin", "Min(x, many) => Identity(x)")
rule_pass("SizesByWhere", "Min(x, many) => Where(Less(x, many), x, many)")


def run(text, step, *given):
    settings = ["reproducers=false", "on_failure=rollback", *given]
    return run_pipeline(text, default_config(settings, [step])).report


@each_of("top, size", (12.5, 259), (30.25, 2051))
def test_a_fault_beyond_all_samples_fails_on_a_sample_of_its_size(top, size):
    (done,) = run(model(top), "sizes-without-min").passes
    assert done.verdict == "failed"
    assert "in sample" in done.error
    assert any(str(size) in check.reason for check in done.checks if check.reason)


def test_nothing_is_said_where_no_size_that_was_tried_shows_a_difference():
    report = run(model(1e6), "sizes-without-min")
    assert report.passes[0].verdict == "passed"
    assert not report.preconditions


def test_a_right_rewrite_passes_at_all_sizes():
    report = run(model(12.5), "sizes-by-where")
    assert (report.passes[0].verdict, report.preconditions) == ("passed", [])


TWICE = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,8] x, float[M,8] z) => (float[N,8] y, float[K,8] w)
<int64 zero = {0}, float none = {0.0}> {
    both = Concat<axis = 0>(x, x)
    long = Shape(both)
    short = Shape(x)
    l = Gather(long, zero)
    s = Gather(short, zero)
    sum = Add(s, s)
    same = Equal(l, sum)
    one = Cast<to = 1>(same)
    y = Add(x, one)
    w = Neg(z)
}"""


SAME = "Equal(long, Add(short, short))"
rule_pass("SizesAreTwice", f"{SAME} => LessOrEqual(long, Add(short, short))")
rule_pass("SizesAreNotTwice", f"{SAME} => Less(long, Add(short, Constant(value_int=100)))")


@each_of("dim", "M", "N", "2*N")
@each_of("step, verdict", ("sizes-are-twice", "passed"), ("sizes-are-not-twice", "failed"))
def test_sizes_that_follow_from_others_follow_when_these_grow(dim, step, verdict):
    model = ir.from_onnx_text(TWICE)
    model.graph.inputs[1].shape = ir.Shape([dim, 8])
    report = run(model, step)
    assert (report.passes[0].verdict, report.preconditions) == (verdict, [])
