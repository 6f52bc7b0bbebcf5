"""What a verdict covers is data, and what it does not cover is excluded."""

import dataclasses

import numpy as np
import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.certifying.coverage import covered_by, describe

MODEL = """<ir_version: 10, opset_import: ["" : 18]> g
(float[2,3] x, int64[3] s) => (float[3,2] y) <float one = {1}>
{ t = Transpose<perm = [1, 0]>(x) y = Add(t, one) }"""


def described(text=MODEL):
    return describe(testing.parse(text), ("x", "one"))


def test_a_template_is_told_by_ranks_types_constants_opset_and_attributes():
    found = described()
    assert found.operands == {
        "x": ({2}, {"FLOAT"}, {False}),
        "one": ({0}, {"FLOAT"}, {True}),
    }
    assert found.opsets == {18}
    assert found.attributes == {"Transpose.perm": {"given"}}
    other = described(MODEL.replace("<perm = [1, 0]>", ""))
    assert other.attributes == {"Transpose.perm": {"left out"}}


def test_a_claim_holds_what_each_operand_was_and_nothing_else():
    claim, known = covered_by([described()]), described()
    assert claim.holds(known)
    for change in (
        {"operands": {**known.operands, "x": ({1}, {"FLOAT"}, {False})}},
        {"operands": {**known.operands, "x": ({2}, {"DOUBLE"}, {False})}},
        {"operands": {**known.operands, "x": ({2}, {"FLOAT"}, {True})}},
        {"operands": {**known.operands, "more": ({2}, {"FLOAT"}, {True})}},
        {"opsets": {17}},
        {"attributes": {"Transpose.perm": {"left out"}}},
    ):
        assert not claim.holds(dataclasses.replace(known, **change)), change


def test_a_claim_is_plain_data():
    wider = describe(
        ir.Model(
            ir.Graph(
                [x := ir.val("x", dtype=ir.DataType.DOUBLE, shape=[2])],
                (node := ir.node("Abs", [x])).outputs,
                nodes=[node],
                opset_imports={"": np.int64(21).item()},
                name="g",
            ),
            ir_version=10,
        ),
        ("x",),
    )
    assert covered_by([described(), wider]).as_dict() == {
        "templates": 2,
        "operands": {
            "one": {"ranks": [0], "types": ["FLOAT"], "constant": [True]},
            "x": {"ranks": [1, 2], "types": ["DOUBLE", "FLOAT"], "constant": [False]},
        },
        "opsets": [18, 21],
        "attributes": {"Transpose.perm": ["given"]},
    }
