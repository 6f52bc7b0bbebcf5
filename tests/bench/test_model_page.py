import base64
import hashlib
import json
import re
import shutil
import subprocess
from importlib import resources

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.bench.model_page import (
    Groups,
    Mark,
    PageContent,
    facts_of,
    marks_of,
    scope_of,
    to_page,
)
from onnx_passes.report.run_report import PassReport, RewriteSummary, RunReport
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Evidence, Kind
from tests.tables import each_of


def node(name, **metadata):
    return ir.Node("", "Relu", [], name=name, metadata_props=metadata)


@each_of(
    "named, scope",
    ("/encoder/layer.0/Relu", ["encoder", "layer.0"]),
    ("Relu_3", []),
    (None, []),
    ("a/b", ["a"]),
)
def test_a_scope_is_what_stands_before_the_last_slash(named, scope):
    assert scope_of(node(named)) == scope


def test_metadata_of_an_exporter_comes_first():
    names = "['', 'model', 'model.layer1', 'model.layer1.conv', 'relu']"
    given = node("node_relu_3", **{"pkg.torch.onnx.name_scopes": names})
    assert scope_of(given) == ["model", "layer1", "conv"]
    assert scope_of(node("x", namespace="a/b/relu")) == ["a", "b"]


def leaves(groups, place=0):
    for is_group, child in groups.groups[place].children:
        if is_group:
            assert groups.groups[child].parent == place
            yield from leaves(groups, child)
        else:
            yield child


@each_of("count", 1, 48, 49, 500, 5000)
def test_no_group_is_larger_than_a_screen_and_no_node_is_lost(count):
    groups = Groups()
    for place in range(count):
        groups.place(groups.find(0, [f"layer{place // 30}"] if place % 2 else []), place)
    groups.tidy()
    assert sorted(leaves(groups)) == list(range(count))
    assert max(len(group.children) for group in groups.groups) <= 48


def test_what_is_alone_in_its_group_is_lifted():
    groups = Groups()
    groups.place(groups.find(0, ["a", "b"]), 0)
    groups.place(groups.find(0, ["c", "d"]), 1)
    groups.place(groups.find(0, ["c", "d"]), 2)
    groups.tidy()
    assert [kind for kind, _ in groups.groups[0].children] == [False, True]
    (_, place) = groups.groups[0].children[1]
    assert groups.groups[place].name == "c / d"
    assert groups.groups[place].children == [(False, 1), (False, 2)]


def test_parts_of_a_large_group_say_which_nodes_they_hold():
    groups = Groups()
    for place in range(100):
        groups.place(0, place)
    groups.tidy()
    names = [groups.groups[place].name for _, place in groups.groups[0].children]
    assert names == ["nodes 1 to 33", "nodes 34 to 66", "nodes 67 to 100"]


TEXT = """(float[N,4] x, bool c) => (float[N,4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
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
    kinds = sorted(node["o"] for node in data["nodes"])
    assert kinds == ["Abs", "If", "Mul", "Mul", "Neg", "Relu"]
    names = [value["n"] for value in data["values"]]
    assert [names[value] for value in data["inputs"]] == ["x", "c"]
    assert [names[value] for value in data["outputs"]] == ["y"]
    weight = data["values"][names.index("w")]
    assert (weight["k"], weight["t"], weight["b"]) == (2, "float[4]", "16 bytes")
    assert [group["n"] for group in data["groups"] if group["c"]][:2] == ["", "s"]


def test_bodies_are_wired_to_their_node_and_constants_are_no_nodes():
    model = parse(TEXT)
    data = PageContent().of(model)
    (branch,) = by_op(data, "If")
    made = {value for node in by_op(data, "Abs") + by_op(data, "Mul") for value in node["u"]}
    assert len(made & set(branch["i"])) == 2
    assert not by_op(data, "Constant")
    assert "1 Constant" in facts_of(model)


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
        PassReport(1, "first", "equality", rewrites=[one], evidence=parts),
        PassReport(2, "second", "equality", rewrites=[one], evidence=again),
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


TEXT_PAGE = """<ir_version: 10, opset_import: ["" : 20]>
main (float[N,4] x) => (float[N,4] y) { ["a/n"] t = Neg(x) ["a/r"] u = Relu(t) y = Abs(u) }"""
VENDOR = resources.files("onnx_passes.report").joinpath("vendor", "dagre")


@pytest.fixture(scope="module")
def page():
    model = parse(TEXT_PAGE)
    return to_page("m.onnx", PageContent().of(model), facts_of(model), "none")


def test_the_policy_knows_each_script_and_the_style(page):
    (policy,) = re.findall(r'Policy" content="([^"]+)"', page)
    texts = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", page, re.S)
    assert len(texts) == 3
    for text in texts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_nothing_is_asked_for(page):
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "sourceMappingURL" not in page
    assert "fetch(" not in page
    assert "XMLHttpRequest" not in page


def test_the_layout_library_is_the_released_file_with_its_licence(page):
    data = VENDOR.joinpath("dagre.min.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() in VENDOR.joinpath("README.md").read_text()
    licence = VENDOR.joinpath("LICENSE").read_text()
    assert "Permission is hereby granted" in licence
    assert licence.strip().splitlines()[0] in page


NODE = shutil.which("node")
LAYOUT = """
const text = process.argv[1];
const letter = Number(process.argv[4]);
const context = { measureText: (label) => ({ width: letter * label.length }) };
globalThis.document = { body: {}, getElementById: () => ({ textContent: text }), createElement: () => ({ getContext: () => context }) };
globalThis.getComputedStyle = () => ({ fontFamily: "" });
const { readFileSync } = require("fs");
const read = (name) => readFileSync(`${process.argv[2]}/${name}`, "utf-8");
const source = ["vendor/dagre/dagre.min.js", "templates/view/tree.js", "templates/view/layout.js"].map(read).join("\\n");
const asked = `
  openSome(${process.argv[3]});
  const view = shown();
  const found = layout(view);
  return { items: [...view.items.values()].map((i) => ({ id: i.id, at: i.at, lines: i.lines })), frames: found.frames, lines: found.lines, height: found.height };
`;
console.log(JSON.stringify(new Function(source + asked)()));
"""  # noqa: E501


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's scripts")
@each_of("limit, letter", (3, 6), (300, 6), (300, 14))
def test_the_layout_places_all_that_is_shown_without_overlap(limit, letter):
    lines = [f'["s{i // 6}/n{i}"] v{i + 1} = Relu(v{i})' for i in range(24)]
    lines += ["y = Add(v24, v3)"]
    head = '<ir_version: 10, opset_import: ["" : 20]> main (float[4] v0) => (float[4] y)'
    data = PageContent().of(parse(f"{head} {{ {' '.join(lines)} }}"))
    folder = str(resources.files("onnx_passes.report"))
    words = [NODE, "-e", LAYOUT, json.dumps(data), folder, str(limit), str(letter)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    places = {item["id"]: item["at"] for item in found["items"]}
    assert len(places) == (7 if limit == 3 else 27)  # four groups, or their nodes
    assert len(found["frames"]) == (0 if limit == 3 else 4)
    for item in found["items"]:
        assert item["at"]["width"] > letter * max(map(len, item["lines"]))
    for a, first in places.items():
        for b, second in places.items():
            apart = abs(first["x"] - second["x"]) >= (first["width"] + second["width"]) / 2
            above = abs(first["y"] - second["y"]) >= (first["height"] + second["height"]) / 2
            assert a == b or apart or above
    assert places["i0"]["y"] < places["n24"]["y"] < places[f"o{data['outputs'][0]}"]["y"]
    for line in found["lines"]:
        assert line["points"][0]["y"] <= line["points"][-1]["y"]
