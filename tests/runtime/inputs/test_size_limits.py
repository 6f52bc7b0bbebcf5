"""One sample has sizes beyond the integers that sizes meet, or the report names them."""

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes import register, verify
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.inputs.boundary_values import edge_samples
from onnx_passes.runtime.inputs.size_limits import size_limits, trip_inputs
from onnx_passes.testing import parse
from tests.tables import each_of, each_row, rule_pass

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
SLICE = """g (float[n,3] x) => (float[m,3] y) <int64[1] a = {0}, int64[1] b = {64}>
    { s = Slice(x, a, b) y = Relu(s) }"""


@each_row("""text | found
- =SLICE | ={64: 'Slice ends at 64'}
- =SLICE.replace('float[n,3] x', 'float[80,3] x') | ={}
- g (float[n,3] x) => (int64[1] y) <int64[1] b = {512}> { s = Shape<start = 0, end = 1>(x) y =
  Min(s, b) } | ={512: 'Min holds 512'}
- g (float[n,3] x) => (bool y) <int64 b = {100}> { s = Size(x) y = Less(s, b) } | ={100: 'Less
  holds 100'}
- g (int64[n] x) => (bool[n] y) <int64 b = {9}> { y = Less(x, b) } | ={}
- g (float[n] x) => (uint8[1] y) { s = Shape(x) y = Cast<to = 2>(s) } | ={255: 'Cast holds at
  most 255'}
- g (float[2,n] x) => (float[2,5] y, int64[2,5] i) <int64[1] k = {5}> { y, i = TopK(x, k) } |
  ={5: 'TopK takes 5'}
- g (float[n,3] x) => (float[n,2] y) <int64[1] a = {0}, int64[1] b = {2}, int64[1] c = {1}> {
  y = Slice(x, a, b, c) } | ={}
- g (float[n,3] x) => (float[m,3] y) <int64[1] a = {0}, int64[1] b = {9223372036854775807}> {
  y = Slice(x, a, b) } | ={}
""")
def test_integers_that_sizes_meet(text, found):
    assert {one.number: one.what for one in size_limits(parse(HEAD + text))} == found


rule_pass("DropSliceBeyond", "Slice(x, a, b) => Identity(x)")


@each_of("end", 64, -1000)
def test_a_rewrite_that_is_wrong_beyond_an_integer_fails(end):
    config = default_config(
        ("reproducers=false", "on_failure=rollback"), ["drop-slice-beyond"]
    )
    done = run_pipeline(parse(HEAD + SLICE.replace("{64}", f"{{{end}}}")), config)
    assert [p.action for p in done.report.passes] == ["rolled back"]


def test_what_costs_too_much_is_named_and_strict_refuses_it():
    text = SLICE.replace("{64}", "{900000}")
    config = default_config(("reproducers=false",), ["drop-slice-beyond"])
    report = run_pipeline(parse(HEAD + text), config).report
    assert report.preconditions == ["sizes of n up to 4 were tried; Slice ends at 900000"]
    strict = default_config(("reproducers=false", "strict=true"), ["drop-slice-beyond"])
    assert run_pipeline(parse(HEAD + text), strict).report.exit_code == 4


POOL = """g (float[1,2,h,w] x) => (float[1,2,a,b] y)
    { s = AveragePool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x)
    y = Relu(s) }"""


class FloorPools(Transformation):
    """Leave out windows that a picture only begins."""

    def call(self, model):
        for node in model.graph:
            node.attributes.pop("ceil_mode", None)
        return ir.passes.PassResult(model, modified=True)


verify.equality(register("floor-pools")(FloorPools))


def test_what_shows_on_odd_pictures_alone_fails():
    config = default_config(("reproducers=false", "on_failure=rollback"), ["floor-pools"])
    done = run_pipeline(parse(HEAD + POOL), config)
    assert [p.action for p in done.report.passes] == ["rolled back"]


def test_a_waiver_of_the_pass_accepts_it_and_fixed_sizes_do_not_meet_it():
    text = SLICE.replace("{64}", "{900000}")
    settings = "reproducers=false", "strict=true"
    waiver = "waivers=[{pass: drop-slice-beyond, reason: short sequences}]"
    config = default_config((*settings, waiver), ["drop-slice-beyond"])
    report = run_pipeline(parse(HEAD + text), config).report
    assert report.exit_code == 0
    assert report.preconditions[0].endswith("(waived: short sequences)")
    fixed = default_config(settings, ["drop-slice-beyond"])
    assert run_pipeline(parse(HEAD + text.replace("[n,", "[9,")), fixed).report.exit_code == 0


def test_a_total_follows_from_what_it_adds_up():
    text = """g (float[b,sequence] x, float[b,past] p, float[b,total] m) => (float[b,t] y)
        <int64[1] a = {0}, int64[1] e = {300}, int64[1] i = {1}> { c = Concat<axis = 1>(p, x)
        d = Add(c, m) y = Slice(d, a, e, i) }"""
    for feeds in edge_samples(parse(HEAD + text)):
        if "over 300" in feeds.name:
            assert feeds["m"].shape[1] == feeds["x"].shape[1] + feeds["p"].shape[1]


LOOP = """g (int64 n, float[4] x) => (float[4] y) <bool go = {1}> { y = Loop(n, go, x) <
    body = b (int64 i, bool c, float[4] a) => (bool d, float[4] z)
    <int64 last = {10}, float one = {1.0}>
    { d = Identity(c) l = Less(i, last) s = Where(l, one, a) z = Add(a, s) }> }"""


def test_a_loop_runs_beyond_the_integers_that_its_iterations_meet():
    model = parse(HEAD + LOOP)
    assert [one.what for one in size_limits(model)] == ["Less holds 10"]
    assert trip_inputs(model) == {"n"}
    found = {feeds.name: feeds["n"].item() for feeds in edge_samples(model, seed=0)}
    assert found["edge: count 12 in n"] == 12
    assert trip_inputs(parse(HEAD + LOOP.replace("Loop(n,", "Loop(,"))) == set()


def test_a_wrong_last_iteration_is_caught():
    rule_pass("TakesTheFirst", "Where(c, x, y) => Identity(x)")
    config = default_config(["reproducers=false"], ["takes-the-first"])
    assert "edge: count 12 in n" in str(run_pipeline(parse(HEAD + LOOP), config).error)
