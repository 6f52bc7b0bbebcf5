"""The drawing of what failed: nodes read from text, two graphs, the value that differs."""

import pytest

from onnx_passes.report.page.region_drawing import NodeText, drawing, read_nodes
from onnx_passes.report.page.rendering import environment
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
    before, after = drawing(blame(["s = Add(a, b)", "y = Relu(s)"], ["y = Relu(a)"]))
    assert [box.label for box in before["graph"].boxes] == ["a", "b", "Add", "Relu", "y"]
    assert [box.label for box in after["graph"].boxes] == ["a", "Relu", "y"]
    assert [box.style for box in before["graph"].boxes].count("right") == 1
    assert [box.style for box in after["graph"].boxes].count("wrong") == 1
    assert before["value"] == "y[1, 2] = 0.5"
    assert after["value"] == "y[1, 2] = 2.5"


def test_each_node_lies_below_what_it_reads():
    texts = ["b = Neg(a)", "c = Abs(b)", "y = Add(a, c)"]
    found = drawing(blame(texts, []))[0]["graph"]
    at = {box.label: box.top for box in found.boxes}
    assert at["a"] < at["Neg"] < at["Abs"] < at["Add"] < at["y"]
    assert len(found.wires) == 5


def test_names_stay_text_and_many_nodes_are_not_drawn():
    evil, _ = drawing(blame(["</svg><script> = Relu(a)"], []))
    charts = environment().get_template("charts.html").module
    assert "<script>" not in charts.graph(evil["graph"])
    assert drawing(blame([f"v{i} = Relu(x{i})" for i in range(13)], [])) is None


def test_long_names_are_read_once():
    hostile = " = a(" * 5_000 + ") {" * 5_000
    assert read_nodes([f"y = Relu({hostile}"]) is None
    assert read_nodes([f"y = Relu({hostile}{{}}"]) is not None
