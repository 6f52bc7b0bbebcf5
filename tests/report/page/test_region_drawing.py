"""The drawing of what failed: nodes read from text, two graphs, the value that differs."""

import pytest

from onnx_passes.report.page.markup import render
from onnx_passes.report.page.region_drawing import NodeText, drawing, read_nodes
from onnx_passes.report.pass_report import Blame
from onnx_passes.verify.result import OutputCheck

WRONG = OutputCheck(
    "y", False, worst=(1, 2), expected="0.5", actual="2.5", mismatched=1, size=6
)


def blame(nodes, new_nodes, value=WRONG):
    return Blame(0, "p", "", 1, "rule", list(nodes), list(new_nodes), value)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("y = Add(a, b)", NodeText("Add", ("a", "b"), ("y",))),
        ("y = my.domain::Op() {k=[1, 2]}", NodeText("my.domain::Op", (), ("y",))),
        ("a, b = Split(x, ) {axis=0}", NodeText("Split", ("x",), ("a", "b"))),
    ],
)
def test_nodes_are_read_from_what_a_report_holds(text, node):
    assert read_nodes([text]) == [node]


def test_text_of_another_form_is_not_drawn():
    assert read_nodes(["y = Add(a, b)", "and 3 nodes more"]) is None
    assert drawing(blame(["what?"], ["y = Relu(x)"])) is None
    assert drawing(blame([], ["y = Relu(x)"])) is None


def test_each_side_has_its_nodes_and_the_value_that_differs():
    found = drawing(blame(["s = Add(a, b)", "y = Relu(s)"], ["y = Relu(a)"]))
    before, after = found.findall("figure")
    assert [t.text for t in before.iter("text")] == ["a", "b", "Add", "Relu", "y"]
    assert [t.text for t in after.iter("text")] == ["a", "Relu", "y"]
    assert [g.get("class") for g in before.iter("g")].count("right") == 1
    assert [g.get("class") for g in after.iter("g")].count("wrong") == 1
    assert "y[1, 2] = 0.5" in render(before)
    assert "y[1, 2] = 2.5" in render(after)


def test_each_node_lies_below_what_it_reads():
    texts = ["b = Neg(a)", "c = Abs(b)", "y = Add(a, c)"]
    svg = drawing(blame(texts, [])).find("figure").find("svg")
    at = {g.find("text").text: float(g.find("rect").get("y")) for g in svg.iter("g")}
    assert at["a"] < at["Neg"] < at["Abs"] < at["Add"] < at["y"]
    assert len(list(svg.iter("path"))) == 5


def test_names_stay_text_and_many_nodes_are_not_drawn():
    evil = drawing(blame(["</svg><script> = Relu(a)"], []))
    assert "<script>" not in render(evil)
    assert drawing(blame([f"v{i} = Relu(x{i})" for i in range(13)], [])) is None
