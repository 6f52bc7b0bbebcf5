"""What the page holds of a model, and what a run says of it."""

import json

import numpy as np
import onnx_ir as ir

from onnx_passes.report.pass_report import PassReport, RewriteSummary
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.view.graph import Mark, PageContent, facts_of
from onnx_passes.report.view.marks import marks_of
from onnx_passes.report.view.page import to_page
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Evidence, Kind

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
main (float[N,4] x, bool c) => (float[N,4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    ["s/mul"] m = Mul(x, w)
    ["s/neg"] n = Neg(m)
    k = Constant<value_float = 2.0>()
    i = If(c) <then_branch = t () => (float[N,4] a) { a = Mul(n, k) },
               else_branch = e () => (float[N,4] b) { b = Abs(n) }>
    y = Relu(i) }"""


def by_op(data, op):
    return [node for node in data["nodes"] if node["o"] == op]


def test_nodes_values_and_groups():
    data = PageContent().of(parse(TEXT))
    assert sorted(node["o"] for node in data["nodes"]) == [
        "Abs",
        "If",
        "Mul",
        "Mul",
        "Neg",
        "Relu",
    ]
    names = [value["n"] for value in data["values"]]
    assert [names[value] for value in data["inputs"]] == ["x", "c"]
    assert [names[value] for value in data["outputs"]] == ["y"]
    weight = data["values"][names.index("w")]
    assert (weight["k"], weight["t"], weight["b"]) == (2, "float[4]", "16 bytes")
    groups = [group["n"] for group in data["groups"] if group["c"]]
    assert groups[:2] == ["", "s"]


def test_bodies_are_wired_to_their_node_and_constants_are_no_nodes():
    data = PageContent().of(parse(TEXT))
    (branch,) = by_op(data, "If")
    made = {value for node in by_op(data, "Abs") + by_op(data, "Mul") for value in node["u"]}
    assert len(made & set(branch["i"])) == 2
    assert not by_op(data, "Constant")


def test_ranges_and_marks_are_beside_what_they_belong_to():
    ranges = {"y": (0.0, np.inf), "n": (-np.inf, np.inf)}
    data = PageContent(ranges, {"y": Mark("executed", "pass 1")}).of(parse(TEXT))
    values = {value["n"]: value for value in data["values"]}
    assert values["y"]["r"] == [0.0, "inf"]
    assert "r" not in values["n"]
    (relu,) = by_op(data, "Relu")
    assert (relu["e"], relu["r"]) == ("executed", "pass 1")
    json.dumps(data, allow_nan=False)


def test_the_weakest_evidence_of_a_node_is_kept():
    one = RewriteSummary(1, "r", ["y = Relu(i)"], [("y", "y")], ["y = Relu(i)"])
    parts = [
        Evidence("r", Kind.EXECUTED, (1,)),
        Evidence("Neg -> Neg", Kind.PROVED, values=("n",)),
    ]
    again = [Evidence("r", Kind.OUTPUTS_ONLY, (1,), reason="only the outputs agree")]
    report = RunReport("m.onnx", None, "", True)
    report.passes = [
        PassReport(0, "first", "equality", rewrites=[one], evidence=parts),
        PassReport(1, "second", "equality", rewrites=[one], evidence=again),
    ]
    found = marks_of(report, parse(TEXT))
    assert {name: mark.kind for name, mark in found.items()} == {
        "y": "outputs only",
        "n": "proved",
    }
    assert found["y"].region == "pass 2, second: r (only the outputs agree)"


def test_no_name_becomes_markup_or_a_control_character():
    evil = "</script><img src=x>\x1b[31m\u202e"
    model = parse(TEXT)
    for node in model.graph:
        if node.op_type == "Relu":
            node.name = evil
    page = to_page(evil, PageContent().of(model), facts_of(model), "none")
    assert "</script><img" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_long_names_lose_their_middle():
    model = parse(TEXT)
    node = next(iter(model.graph))
    node.name = "a" * 10_000
    data = PageContent().of(model)
    assert max(len(node["n"]) for node in data["nodes"]) < 310


def test_attributes_are_text():
    node = ir.Node("d", "Op", [], [ir.AttrInt64s("axes", [0, 1])], name="n")
    graph = ir.Graph([], list(node.outputs), nodes=[node], opset_imports={"d": 1})
    data = PageContent().of(ir.Model(graph, ir_version=10))
    assert data["nodes"][0]["a"] == [["axes", "(0, 1)"]]
