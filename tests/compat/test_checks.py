"""In onnx-ir's own PassManager, a pass checks itself if its configuration asks for it."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.errors import VerificationError
from onnx_passes.passes import collect
from onnx_passes.testing import parse
from tests.tables import each_of, rule_pass

pytestmark = pytest.mark.usefixtures("own_registry")
MODEL = """(float[2,2] a, float[2,2] b) => (float[2,2] y) { c = Add(a, b) y = Relu(c) }"""


def break_adds(contract):
    return rule_pass("BreakAdds", "Add(x, y) => Add(x, x) when x is not y", contract)


def config(tmp_path, **verify):
    np.save(tmp_path / "a.npy", np.ones((2, 2), np.float32))
    np.save(tmp_path / "y.npy", 3 * np.ones((2, 2), np.float32))
    files = [str(tmp_path / "a.npy"), np.full((2, 2), 2, np.float32)]
    reference = {"inp": files, "out": [str(tmp_path / "y.npy")]}
    return {"reference": reference, "verify": verify}


def run(cls, given, text=MODEL):
    return ir.passes.PassManager([cls(given, {})], steps=1)(parse(text))


def causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@each_of(
    "contract, verify, told",
    (passes.verify.equality, {"tolerance": {}}, "y is not as expected"),
    (passes.verify.tolerance, {"tolerance": {"atol": 1e-3}}, "the tolerance, by up to 1"),
    (passes.verify.tolerance, {True: True}, "the tolerance, by up to 1"),
    (passes.verify.metric, {"metrics": {"max_abs_error": [0, 0.5]}}, "is 1, not in"),
    ids=["equality", "tolerance", "defaults", "metric"],
)
def test_a_wrong_pass_raises(tmp_path, contract, verify, told):
    given = config(tmp_path) | {"verify": verify}
    with pytest.raises(ir.passes.PassError) as raised:
        run(break_adds(contract), given)
    found = list(causes(raised.value))
    assert any(isinstance(each, ir.passes.PostconditionError) for each in found)
    (cause,) = (each for each in found if isinstance(each, VerificationError))
    assert told in str(cause)


@each_of("verify", {}, None, {"tolerance": {"atol": 2}})
def test_it_is_accepted_where_nothing_asks_or_the_tolerance_is_wide(tmp_path, verify):
    given = config(tmp_path) | {"verify": verify}
    assert run(break_adds(passes.verify.tolerance), given).modified


def test_inputs_that_are_missing_are_a_precondition(tmp_path):
    given = config(tmp_path, tolerance={})
    del given["reference"]["inp"][1:]
    with pytest.raises(ir.passes.PassError) as raised:
        run(break_adds(passes.verify.equality), given)
    found = list(causes(raised.value))
    assert any(isinstance(each, ir.passes.PreconditionError) for each in found)
    assert any("reference.inp has 1 of 2 inputs" in str(each) for each in found)


@each_of("name", "cleanup", "streamline", "lower-conv")
def test_right_passes_of_the_library_pass(tmp_path, name):
    given = config(tmp_path, tolerance={"atol": 1e-5})
    given["reference"]["inp"] = [np.ones((1, 2, 4, 4), np.float32)]
    text = """(float[1,2,4,4] x) => (float[1,3,3,3] y) <float[3,2,2,2] w =
    {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float s = {0.5}>
    { i = Identity(x) m = Mul(i, s) y = Conv(m, w) }"""
    for cls in collect([name]):
        run(cls, given, text)


def test_a_pass_whose_interface_changes_is_compared_by_its_map(tmp_path):
    (cls,) = collect(["convert-io-types"])
    pass_ = cls(config(tmp_path, tolerance={"atol": 1e-2}), {}, all={"float32": "float16"})
    assert ir.passes.PassManager([pass_], steps=1)(parse(MODEL)).modified
