"""Pages with consoles: typed as they stand, everything prints what the page shows."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.tables import each_of

ROOT = Path(__file__).parents[2]
PAGES = ("tutorial.md", "write-a-pass.md", "maintainers/first-changes.md")


@pytest.fixture(scope="module")
def console():
    if os.name != "posix":
        pytest.skip("a terminal is opened as on Linux and macOS")
    spec = importlib.util.spec_from_file_location("console", ROOT / "docs" / "console.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@each_of("name", *PAGES)
def test_every_command_prints_what_the_page_shows(console, name):
    page = ROOT / "docs" / name
    made = console.run(page, ROOT / "examples" / "digits")
    assert console.same(made) == console.same(page.read_text("utf-8"))


def test_a_page_that_shows_something_else_is_found(console, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# a.py\nprint(2 + 2)\n```\n\n```console\n$ python a.py\n5\n```\n"
    )
    assert console.run(page) == page.read_text().replace("5", "4")


def test_only_what_differs_between_runs_is_left_out(console):
    assert console.same("took 3.2 ms, by 1.2e-7") == console.same("took <1 ms, by 9e-9")
    assert console.same("34 nodes") != console.same("33 nodes")


# What pages show of the examples is what the program prints on a terminal of 90 columns.


RUN = "onnx-passes -c pipeline.yaml -o {}.onnx model.onnx"
SHOWN = {
    "digits": {RUN.format("digits"): ("README.md", "examples/digits/README.md")},
    "break_adds": {
        RUN.format("broken"): (
            *("README.md", "docs/find-a-culprit.md"),
            "examples/break_adds/README.md",
        ),
        "python onnx-passes-failures/model-0001-break-adds/repro.py": (
            "docs/find-a-culprit.md",
        ),
        "onnx-passes bisect -c pipeline.yaml ../digits/model.onnx": (
            "docs/find-a-culprit.md",
        ),
    },
}


@each_of("example", *SHOWN)
def test_pages_show_what_is_printed(console, tmp_path, example):
    shutil.copytree(ROOT / "examples" / example, tmp_path / "work")
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "digits")
    console.install(tmp_path / "bin")
    for command, pages in SHOWN[example].items():
        printed = console.same(console.printed(command, tmp_path))
        assert printed.strip()
        for page in pages:
            assert printed in console.same((ROOT / page).read_text("utf-8")), page
