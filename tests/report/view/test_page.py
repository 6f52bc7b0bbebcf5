"""The page of a model: one file, whose policy knows its own scripts, and what is bundled."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from importlib import resources

import pytest

from onnx_passes.report.view.graph import PageContent, facts_of
from onnx_passes.report.view.page import to_page
from onnx_passes.testing import parse

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
main (float[N,4] x) => (float[N,4] y) { ["a/n"] t = Neg(x) ["a/r"] u = Relu(t) y = Abs(u) }"""
VENDOR = resources.files("onnx_passes.report").joinpath("vendor", "dagre")


@pytest.fixture(scope="module")
def page():
    model = parse(TEXT)
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


def test_the_data_are_what_was_given(page):
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.S
    )
    assert [node["o"] for node in json.loads(text)["nodes"]] == ["Neg", "Relu", "Abs"]


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
@pytest.mark.parametrize(("limit", "letter"), [(3, 6), (300, 6), (300, 14)])
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
