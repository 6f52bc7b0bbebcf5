"""What pages show of the examples is what the program prints on a terminal of 90 columns."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.tables import each_of

ROOT = Path(__file__).parents[2]
RUN = "onnx-passes -c pipeline.yaml -o {}.onnx model.onnx"
SHOWN = {
    "digits": {RUN.format("digits"): ("README.md", "examples/digits/README.md")},
    "break_adds": {
        RUN.format("broken"): (
            *("README.md", "docs/find-a-culprit.md"),
            "examples/break_adds/README.md",
        ),
        "python onnx-passes-failures/model-0000-break-adds/repro.py": (
            "docs/find-a-culprit.md",
        ),
        "onnx-passes bisect -c pipeline.yaml ../digits/model.onnx": (
            "docs/find-a-culprit.md",
        ),
    },
}


@pytest.fixture(scope="module")
def console():
    spec = importlib.util.spec_from_file_location("console", ROOT / "docs" / "console.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
