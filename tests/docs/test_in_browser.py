"""Pages in headless Chromium, by axe: ``make pages``.

Needs Chromium on the PATH, and the variable ``AXE`` with the path of ``axe.min.js``.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_of

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
AXE = os.environ.get("AXE")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not AXE, reason="AXE names no axe.min.js: make pages"),
]


@pytest.fixture(scope="module")
def find():
    """Return a function that lists what is wrong with a page."""
    place = ROOT / "docs" / "check_pages.py"
    spec = importlib.util.spec_from_file_location("check_pages", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = module.find_chromium()
    if path is None:
        pytest.skip("there is no Chromium on the PATH")
    axe = Path(AXE).read_text("utf-8")
    with module.Browser(path) as browser:
        yield lambda page: list(module.check(page, axe, browser))


def run(folder, *words, code=0):
    command = [sys.executable, "-m", "onnx_passes", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == code, done.stderr


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return a folder with a page of each kind that the program writes."""
    folder = tmp_path_factory.mktemp("pages")
    out, json = folder / "out.onnx", folder / "run.json"
    report = ("-o", out, "--html", folder / "report.html", "--json", json)
    run(DIGITS, "-q", "-c", "pipeline.yaml", *report, "model.onnx")
    run(folder, "view", out, "--report", json, "-o", "view.html")
    wrong = ("-s", "reproducers=false", "-o", folder / "no.onnx")
    failed = ("--html", folder / "failed.html")
    broken = ROOT / "examples" / "break_adds"
    run(broken, "-q", "-c", "pipeline.yaml", *wrong, *failed, "model.onnx", code=1)
    layers = ("--outputs", "all", "--html", "compare.html")
    run(folder, "compare", DIGITS / "model.onnx", out, out, *layers)
    return folder


def box(width, over):
    """Return a control, and a node of the page of a model."""
    return f"""<button id="in" style="{over}">+</button><div id="graph"><svg width="200">
        <g class="item"><rect width="{width}" height="40" fill="none" stroke="black" />
        <text y="20">a long label</text></g></svg></div>"""


@each_of("name", "report", "failed", "view", "compare")
def test_axe_finds_nothing_on_a_page_that_the_program_writes(find, pages, name):
    assert find(pages / f"{name}.html") == []


@each_of(
    "body, found",
    ('<p style="color: #aaa; background: #fff">grey on white', "color-contrast"),
    ("<h1>one</h1><h3>three</h3>", "heading-order"),
    ('<p style="width: 900px">wide</p>', "pixels wider than the screen"),
    ('<img src="x.png">', "image-alt"),
    (box(width=40, over="position: absolute; left: 0; top: 0"), "in covers a long label"),
    (box(width=40, over=""), "the label a long label is wider than its box"),
)
def test_what_is_wrong_with_a_page_is_found(find, tmp_path, body, found):
    page = tmp_path / "page.html"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page.write_text(
        f'<!doctype html><html lang="en"><head>{head}<title>t</title></head>'
        f"<body><main>{body}</main></body></html>"
    )
    assert any(found in line for line in find(page))
