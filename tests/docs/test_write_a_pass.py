"""The page for pass authors: what its consoles do not run, and what they leave behind."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.S | re.M)


@pytest.fixture
def files(tmp_path):
    """Write the files of the page into a folder."""
    for name, text in BLOCK.findall((ROOT / "docs" / "write-a-pass.md").read_text("utf-8")):
        (tmp_path / name).write_text(text)
    return tmp_path


def onnx_passes(folder, *words):
    command = [sys.executable, "-m", "onnx_passes", *words]
    path = f"{ROOT}:{':'.join(sys.path)}"
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": path}, capture_output=True, text=True
    )


def test_a_file_with_a_function_of_ones_own_runs_where_nobody_knows_it(files):
    model = ROOT / "examples" / "digits" / "model.onnx"
    done = onnx_passes(
        files, "-o", "out.onnx", model, "fuse-standardise", "-s", "imports=[acme]"
    )
    assert done.returncode == 0, done.stderr
    assert {(f.domain, f.name) for f in onnx.load(files / "out.onnx").functions} == {
        ("acme", "Standardise")
    }
    np.save(files / "images.npy", np.load(ROOT / "examples" / "digits" / "images.npy"))
    script = f"""
import numpy, onnxruntime, sys
old, new = (
    onnxruntime.InferenceSession(p).run(None, {{"image": numpy.load("images.npy")}})[0]
    for p in ({str(model)!r}, "out.onnx")
)
assert "onnx_passes" not in sys.modules
numpy.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-4)
"""
    subprocess.run([sys.executable, "-c", script], cwd=files, check=True)


INVERSES = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.contrib" : 1]>
g (float[3,3] x) => (float[3,3] y) {
    e = EyeLike(x) z = Constant<value_float = 9.0>() d = Mul(e, z) a = Add(x, d)
    i = ai.onnx.contrib.Inverse(a) j = ai.onnx.contrib.Inverse(i) y = Neg(j)
}"""


def test_a_pass_over_operators_of_a_library_is_verified_by_it(files):
    extensions = pytest.importorskip(
        "onnxruntime_extensions", reason="pip install onnxruntime-extensions"
    )
    onnx.save(onnx.parser.parse_model(INVERSES), files / "model.onnx")
    np.save(files / "x.npy", np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32))
    pipeline = files / "inverses.yaml"
    library = extensions.get_library_path()
    pipeline.write_text(pipeline.read_text().replace("libortextensions.so", library))
    words = ["-c", "inverses.yaml", "--inputs", "x.npy", "-o", "out.onnx", "model.onnx"]
    done = onnx_passes(files, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("VERIFIED"), done.stderr
    assert [n.op_type for n in onnx.load(files / "out.onnx").graph.node][-2:] == ["Add", "Neg"]


def test_without_its_library_it_is_not_called_verified(files):
    onnx.save(onnx.parser.parse_model(INVERSES), files / "model.onnx")
    words = ["-s", "imports=[inverses]", "-o", "out.onnx", "model.onnx"]
    done = onnx_passes(files, *words, "remove-double-inverse")
    assert not done.stderr.startswith("VERIFIED")
