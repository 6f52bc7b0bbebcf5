"""A decoder with a cache, run step by step: faults of one step, and drift along them."""

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.cli.main import main
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.errors import ReferenceDataError
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of, each_row, rule_pass

STEPS, WIDTH = 16, 8
RNG = np.random.default_rng(5)


def numbers(*shape):
    flat = ", ".join(f"{n:.5f}" for n in RNG.normal(0, 0.5, shape).ravel())
    return f"{{{flat}}}"


# The cache is as long as the tokens before; its length is the position of the new one.
DECODER = f"""<ir_version: 10, opset_import: ["" : 21]>
    decoder (int64[B,1] token, float[B,P,{WIDTH}] past)
      => (float[B,1,{WIDTH}] logits, float[B,T,{WIDTH}] present)
    <float[11,{WIDTH}] words = {numbers(11, WIDTH)},
     float[32,{WIDTH}] places = {numbers(32, WIDTH)},
     float[{WIDTH},{WIDTH}] wq = {numbers(WIDTH, WIDTH)},
     float[{WIDTH},{WIDTH}] wv = {numbers(WIDTH, WIDTH)},
     float[{WIDTH},{WIDTH}] wo = {numbers(WIDTH, WIDTH)},
     int64 one = {{1}}, float scale = {{0.35}}> {{
      e = Gather(words, token)
      shape = Shape(past)
      place = Gather(shape, one)
      row = Gather(places, place)
      h = Add(e, row)
      present = Concat<axis = 1>(past, h)
      q = MatMul(h, wq)
      keys = Transpose<perm = [0, 2, 1]>(present)
      raw = MatMul(q, keys)
      scores = Mul(raw, scale)
      weights = Softmax<axis = -1>(scores)
      v = MatMul(present, wv)
      mixed = MatMul(weights, v)
      o = MatMul(mixed, wo)
      logits = Add(o, h) }}"""


class Places(Transformation, RewriteRulePass):
    """Copy the table of places, with one row wrong, or none.

    Attributes:
        lost: The row that becomes 0; -1 for none.
        by: What all rows are multiplied by.
    """

    lost: int = -1
    by: float = 1.0

    def pattern(self, op, table, place):
        return op.Gather(table, place)

    def check(self, _, table, place):
        return table.name == "places"

    def rewrite(self, op, table, place):
        rows = table.const_value.numpy() * np.float32(self.by)
        if self.lost >= 0:
            rows[self.lost] = 0
        return op.Gather(op.Constant(value=ir.tensor(rows)), place)


rule_pass("Turned", "Add(a, b) => Add(b, a) when a.name == 'e'", passes.verify.tolerance)


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    passes.register()(passes.verify.tolerance(Places))


STATES = {"steps": STEPS, "feed": {"past": "present"}, "dims": {"P": 0, "B": 2}}


def run(*steps, **reference):
    data = {"passes": list(steps), "reference": reference, "reproducers": False}
    return run_pipeline(ir.from_onnx_text(DECODER), config_from_data(data))


def test_each_step_is_a_sample_that_reads_what_the_last_one_made():
    report = run("turned", **STATES).report
    assert report.exit_code == 0
    assert report.reference.samples >= STEPS
    assert f"{STEPS} steps: past from present" in report.reference.source


@each_of("step", 0, 9, 15)
def test_a_fault_that_one_step_shows_is_caught_at_that_step_and_named(step):
    right, wrong = run("turned", {"places": {"lost": step}}, **STATES).report.passes
    assert right.verdict is Verdict.PASSED
    assert wrong.verdict is Verdict.FAILED
    assert {c.sample for c in wrong.checks if c.verdict is Verdict.FAILED} == {step}
    assert wrong.culprits == [wrong.rewrites[0].number]


def test_without_steps_the_same_fault_is_not_seen():
    found = run({"places": {"lost": 9}}, dims={"P": [0, 3], "B": 2}).report
    assert found.passes[0].verdict is Verdict.PASSED


ACCUMULATOR = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4] x, float[4] s) => (float[4] y) <float k = {1.5}>
    { a = Mul(s, k) y = Add(a, x) }"""


rule_pass(
    "FactorOff",
    "Mul(s, k) => Mul(s, Constant(value=ir.tensor(np.float32(1.501)))) when k.name == 'k'",
    passes.verify.tolerance(rtol=0.01),
)


def test_errors_that_add_up_where_they_are_fed_back_fail():
    data = {
        "passes": ["factor-off"],
        "reproducers": False,
        "verify": {"drift": {"rtol": 5e-3, "atol": 1e-3}},
        "reference": {"steps": 12, "feed": {"s": "y"}},
    }
    done = run_pipeline(ir.from_onnx_text(ACCUMULATOR), config_from_data(data))
    along = [c for c in done.report.final if c.scope == "steps"]
    assert {c.verdict for c in along} == {Verdict.FAILED}
    assert done.report.exit_code == 1


def test_given_inputs_take_turns(tmp_path):
    tokens = []
    for index in range(3):
        np.save(tmp_path / f"t{index}.npy", np.full((1, 1), index))
        np.save(tmp_path / f"p{index}.npy", np.zeros((1, 0, WIDTH), np.float32))
        tokens.append(index)
    inputs = {
        "token": [str(tmp_path / f"t{i}.npy") for i in tokens],
        "past": [str(tmp_path / f"p{i}.npy") for i in tokens],
    }
    done = run({"places": {"lost": 5}}, inputs=inputs, steps=7, feed={"past": "present"})
    checks = done.report.passes[0].checks
    assert {c.sample for c in checks if c.verdict is Verdict.FAILED} == {5}
    assert done.report.reference.samples == 7


@each_of(
    "feed, told",
    ({"pasta": "present"}, "no input 'pasta'"),
    ({"past": "presents"}, "no output 'presents'"),
    ({"token": "logits"}, "'token' is int64, and 'logits' is float"),
)
def test_a_feed_that_does_not_fit_is_refused(feed, told):
    with pytest.raises(ReferenceDataError, match=told):
        run("turned", steps=2, feed=feed)


@each_row("""reference | told
- {steps: 3} | both 'steps' and 'feed'
- {feed: {past: present}} | both 'steps' and 'feed'
- {steps: 0, feed: {past: present}} | steps
- {steps: 3, samples: 2, feed: {past: present}} | each step is a sample
""")
def test_a_pipeline_file_is_checked(tmp_path, capsys, reference, told):
    assert execute(tmp_path, reference) == 2
    assert told in capsys.readouterr().err


def test_steps_from_the_command_line(tmp_path):
    assert execute(tmp_path, json.dumps(STATES)) == 0


def execute(folder, reference):
    """Run a pipeline over the decoder, and return the exit code."""
    onnx.save(onnx.parser.parse_model(DECODER), folder / "m.onnx")
    (folder / "p.yaml").write_text(f"passes: [fold-constants]\nreference: {reference}\n")
    with pytest.raises(SystemExit) as done:
        main(
            [
                "-c",
                str(folder / "p.yaml"),
                "-o",
                str(folder / "o.onnx"),
                str(folder / "m.onnx"),
            ]
        )
    return done.value.code
