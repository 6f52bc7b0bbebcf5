"""Pages for those who come from another tool: every command runs, every name is there."""

import importlib
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnx_passes.cli import main
from onnx_passes.runtime.tensorrt.bindings import installed_version
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
PAGES = {
    "polygraphy": "digits",
    "graphsurgeon": "digits",
    "onnxsim": "digits",
    "onnxslim": "digits",
    "finn": "quantised_digits",
}
HEAD = '<ir_version: 9, opset_import: ["" : 18]> main'
MODELS = {
    "bad_reshape.onnx": f"""{HEAD} (float[2,3] x) => (float[N] y) <int64[1] to = {{4}}>
        {{ a = Relu(x) b = Abs(a) r = Reshape(b, to) y = Neg(r) }}""",
    "unsupported.onnx": f"""{HEAD} (float[2,3] x) => (int64[2,N] y)
        {{ a = Relu(x) b = Abs(a) y = NonZero(b) }}""",
    "bounded.onnx": f"""{HEAD} (float[N] x, int64 count) => (float[M] y) <int64[1] one = {{1}}>
        {{ n = Reshape(count, one) y = Expand(x, n) }}""",
}
FILES = {
    "loader.py": """
import numpy as np
def batches():
    for seed in range(2):
        yield {"image": np.random.default_rng(seed).random((1, 1, 8, 8), np.float32)}
""",
    "hooks.py": "def network(trt, network):\n    print(network.num_layers)\n",
    "model.engine": "ftrt0000000000",
    "tune.yaml": """
reference: {inputs: {image: images.npy}, outputs: {scores: labels.npy}}
verify: {metrics: {accuracy: [0.9, 1.0]}}
tune: {formats: [bfloat16]}
""",
}


def commands(page):
    """Return the commands in the last column of the tables of a page."""
    text = (ROOT / "docs" / f"coming-from-{page}.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", row)[-2].replace("\\|", "|") for row in rows]
    return [c for cell in cells for c in re.findall(r"`(onnx-passes [^`]+)`", cell)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Copy an example, with the files that the pages speak of."""

    def make(example):
        place = tmp_path / "work"
        shutil.copytree(ROOT / "examples" / example, place)
        for name, text in MODELS.items():
            (place / name).write_bytes(onnx.parser.parse_model(text).SerializeToString())
        for name, text in FILES.items():
            (place / name).write_text(text)
        if example == "digits":
            np.savez(place / "inputs.npz", image=np.load(place / "images.npy")[:2])
        script = tmp_path / "bin" / "onnx-passes"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m onnx_passes "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.chdir(place)
        return place

    return make


def call(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["onnx-passes", *words])
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return end.value.code, captured.out + captured.err


@each_of("page", *PAGES)
def test_each_command_of_a_page_does_its_job(page, folder, monkeypatch, capsys):
    place = folder(PAGES[page])
    text = (ROOT / "docs" / f"coming-from-{page}.md").read_text("utf-8")
    for block, name in re.findall(r"```yaml\n(# (\S+)\n.*?)```", text, re.S):
        (place / name).write_text(block)
    found = commands(page)
    assert len(found) >= 7
    wrong = []
    for command in found:
        code, printed = call(shlex.split(command)[1:], monkeypatch, capsys)
        compiles = "tensorrt" in command or ".engine" in command
        if compiles and installed_version("tensorrt-rtx") is None:
            expected = code == 3 and "tensorrt" in printed.lower()
        elif compiles:
            expected = code in (0, 1, 3)
        else:
            expected = code == 0
        if not expected or "Traceback" in printed:
            wrong.append(f"{command}\n  exit code {code}\n{printed[-600:]}")
    assert not wrong, "\n\n".join(wrong)


def test_each_name_of_the_page_on_graphsurgeon_is_there():
    text = (ROOT / "docs" / "coming-from-graphsurgeon.md").read_text("utf-8")
    names = re.findall(r"`onnx_passes\.surgery\.([\w.]+)`", text)
    assert len(names) > 20
    surgery = importlib.import_module("onnx_passes.surgery")
    for name in names:
        found = surgery
        for part in name.split("."):
            found = getattr(found, part)


def test_the_calls_from_python_do_what_they_say(folder):
    import onnx_passes

    place = folder("digits")
    for pipeline in ("simplify", "optimize"):
        result = onnx_passes.run(str(place / "model.onnx"), pipeline)
        assert result.verdict == "VERIFIED"
        assert len(result.model.graph) < 20
