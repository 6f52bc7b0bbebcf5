"""Passes that are right on ordinary numbers and wrong on special ones."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest

from tests.cli.modules import rule_pass
from tests.tables import cases, each_of


class Case(NamedTuple):
    graph: str
    before: str
    after: str
    shown_by: str
    arguments: str = "x"
    contract: str = "equality"
    settings: str = ""
    outputs: str = "float[N,3] y"


ROWS = cases("""
x * 0 is 0: z = Constant<value_float = 0.0>() y = Mul(x, z) | op.Mul(x, z)
  | op.Expand(z, op.Shape(x)) | NaN in x | x, z
x / x is 1: y = Div(x, x) | op.Div(x, x)
  | op.Expand(op.Constant(value_float=1.0), op.Shape(x)) | zeros in x
the bounds of the first Clip do: a = Constant<value_float = -9.0>() b = Constant<value_float =
  9.0>() c = Constant<value_float = -8.0>() d = Constant<value_float = 8.0>() m = Clip(x, a, b)
  y = Clip(m, c, d) | op.Clip(op.Clip(x, a, b), c, d) | op.Clip(x, a, b) | Inf in x
  | x, a, b, c, d
what is not negative is its own absolute value: y = Abs(x) | op.Abs(x)
  | op.Where(op.Less(x, op.Constant(value_float=0.0)), op.Neg(x), x) | -0 in x | x | equality
  | , negative_zero: true
log(exp(-|x|)) is -|x|: a = Abs(x) n = Neg(a) e = Exp(n) y = Log(e) | op.Log(op.Exp(x))
  | op.Identity(x) | extremes in x | x | tolerance(rtol=1e-3, atol=1e-3)
what is not 0 is far from it: y = Sign(x) | op.Sign(x) | op.Clip(op.Mul(x,
  op.Constant(value_float=3e38)), op.Constant(value_float=-1.0), op.Constant(value_float=1.0))
  | denormals in x
a sum over a size is a mean: a = Constant<value_ints = [0]>() s = ReduceSum<keepdims = 1>(x, a)
  h = Shape(x) z = Constant<value_int = 0>() n = Gather(h, z) f = Cast<to = 1>(n) y = Div(s, f)
  | op.Div(op.ReduceSum(x, a), f) | op.ReduceMean(x, a) | size 0 of N | x, a, f | tolerance
  | ='' | float[1,3] y
""")
CASES = {row.id: Case(*row.values) for row in ROWS}


@pytest.fixture
def go(cli, write):
    def go(case, inputs, reference="{}"):
        write(
            "wrong.py",
            rule_pass("Wrong", case.before, case.after, case.arguments, case.contract),
        )
        text = f"""<ir_version: 10, opset_import: ["" : 20]>
        main (float[N,3] x) => ({case.outputs}) {{ {case.graph} }}"""
        Path("model.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
        config = write(
            "cfg.yaml",
            f"imports: [wrong]\npasses: [Wrong]\nreproducers: false\nreference: {reference}\n"
            f"verify: {{inputs: {inputs}{case.settings}}}\n",
        )
        done = cli("-c", config, "-o", "out.onnx", "--json", "run.json", "model.onnx")
        return done, json.loads(Path("run.json").read_text())

    return go


BOUNDS = "the bounds of the first Clip do"


def test_both_sides_of_a_bound_are_among_the_ordinary_samples(go):
    done, _ = go(CASES[BOUNDS], "random")
    done.tells(1, "(edge: limits in x)")


OVERFLOWS = "log(exp(-|x|)) is -|x|"
EMPTY = "a sum over a size is a mean"


def test_what_the_original_alone_makes_infinite_is_not_held(go):
    done, _ = go(CASES[OVERFLOWS], "adversarial")
    assert done.code == 0


def test_what_the_standard_admits_of_nothing_is_a_precondition(go):
    done, report = go(CASES[EMPTY], "adversarial")
    assert done.code == 0
    assert f"(adversarial: {CASES[EMPTY].shown_by})" in report["preconditions"][0]


@each_of("name", *[n for n in CASES if n not in (BOUNDS, OVERFLOWS, EMPTY)])
def test_special_values_show_what_random_ones_do_not(go, name):
    done, report = go(CASES[name], "random")
    assert done.code in (0, 4)  # verified, or not: never failed
    # Edges are among the random samples, special values are not.
    kinds = "size ", "multiples of 1/2", "limits", "large floats"
    edges = tuple(f"edge: {kind}" for kind in kinds)
    assert all(not n or n.startswith(edges) for n in report["reference"]["names"])
    done, report = go(CASES[name], "adversarial")
    assert done.code == 1
    names = report["reference"]["names"]
    assert f"adversarial: {CASES[name].shown_by}" in names
    (check,) = [c for c in report["passes"][0]["checks"] if c["verdict"] == "failed"][:1]
    assert names[check["sample"]].startswith("adversarial: ")
    assert f"in sample {check['sample']} ({names[check['sample']]})" in done.err


def test_special_values_are_added_to_given_data(go, tmp_path):
    np.save(tmp_path / "x.npy", np.float32([[1, 2, 3]]))
    given = "{inputs: x.npy}"
    done, report = go(CASES["x / x is 1"], "random", given)
    assert (done.code, report["reference"]["samples"]) == (4, 1)
    done, report = go(CASES["x / x is 1"], "adversarial", given)
    assert done.code == 1
    assert report["reference"]["source"] == "x.npy and adversarial"
    assert report["reference"]["names"][:2] == ["", "adversarial: zeros in x"]


def test_a_range_of_the_user_is_kept(go):
    reference = "{ranges: {x: [1, 2]}, dims: {N: [2, 5]}}"
    done, report = go(CASES["x / x is 1"], "adversarial", reference)
    assert done.code == 4
    assert not any("size" in name for name in report["reference"]["names"])
    assert "adversarial: extremes in x" in report["reference"]["names"]
    assert not any("NaN" in name for name in report["reference"]["names"])
    assert report["reference"]["source"] == "generated (seed 0) and adversarial"


def test_what_the_original_does_not_run_on_is_counted(cli, write, tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 20]>
    main (float[N,3] x) => (float[2,K] y)
    { s = Constant<value_ints = [2, -1]>() r = Reshape(x, s) i = Identity(r) y = Relu(i) }"""
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    config = write("cfg.yaml", "passes: [eliminate-identity]\nverify: {inputs: adversarial}\n")
    assert cli("-c", config, "-o", "out.onnx", "--json", "run.json", path).code == 0
    notes = json.loads(Path("run.json").read_text())["notes"]
    (note,) = [n for n in notes if "adversarial" in n]
    assert "the original does not run on 1 of the adversarial inputs on onnxruntime" in note
    assert "they were left out: 1 of size 1; adversarial: size 1 of N: " in note


@each_of("inputs", "default", "adversarial")
@each_of("size", 256, 257)
def test_a_model_that_divides_by_a_large_constant_is_verified(cli, tmp_path, inputs, size):
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        main (float[{size}] x) => (float[{size}] y) {{ i = Identity(x) y = Div(i, d) }}""")
    weights = np.full(size, 2, np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "d"))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    words = () if inputs == "default" else ("-s", "verify.inputs=adversarial")
    done = cli("-c", "cleanup", "-o", "out.onnx", "m.onnx", *words)
    assert done.code == 0, done.err
    assert done.err.startswith("VERIFIED")
