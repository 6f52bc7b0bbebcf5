"""How commands end: one table, and what may not change a code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from onnx_passes.cli.main import CLOSED
from tests.cli.modules import rule_pass
from tests.tables import each_of

WRONG = rule_pass("DropRelu", "op.Relu(x)", "op.Abs(x)")


SILENT = """\
import onnx_ir as ir
from onnx_passes import passes
from onnx_passes.passes.base import Transformation

@passes.register()
class Silent(Transformation):
    def call(self, model):
        for node in list(model.graph):
            if node.op_type == "Identity":
                node.op_type = "Relu"
        return ir.passes.PassResult(model, True)
"""
HALF = ("--precision", "float16")
TABLE = [
    ("VERIFIED", 0, ("-c", "cleanup")),
    ("VERIFIED", 0, ("-c", "cleanup", "--strict")),
    ("UNCHANGED", 0, ("topological-sort", "--strict")),
    ("PARTLY VERIFIED", 0, HALF),
    ("PARTLY VERIFIED", 4, (*HALF, "--strict")),
    ("NOT VERIFIED", 4, ("-c", "silent.yaml")),
    ("NOT VERIFIED", 4, ("-c", "silent.yaml", "--strict")),
    ("NOT VERIFIED", 0, ("-c", "silent.yaml", "--no-verify")),
    ("FAILED", 1, ("-c", "wrong.yaml")),
    ("FAILED", 1, ("-c", "wrong.yaml", "-s", "on_failure=warn")),
    ("error[reference-data]: ", 2, (*HALF, "--inputs", "a.npz", "--metric", "accuracy=0:1")),
    ("error[reference-data]: ", 2, (*HALF, "--inputs", "none.npz")),
    ("error[reference-data]: ", 2, (*HALF, "--labels", "a.npz")),
    ("error[unknown-metric]: ", 2, (*HALF, "--metric", "acuracy=0:1")),
    ("error[config]: ", 2, ("-s", "verify.scope=all")),
    ("error[engine-unavailable]: ", 3, ("-e", "onnxruntime:ACL")),
]


@each_of("head, code, words", *TABLE)
def test_a_verdict_has_its_code(cli, model, write, head, code, words):
    for name, module, passes in (("wrong", WRONG, "drop-relu"), ("silent", SILENT, "silent")):
        write(f"{name}_pass.py", module)
        write(f"{name}.yaml", f"imports: [{name}_pass]\npasses: [{passes}]\n")
    np.savez("a.npz", a=np.ones((3, 2), np.float32), b=np.ones((3, 2), np.float32))
    done = cli(model, "-o", "out.onnx", "--json", "r.json", *words)
    assert done.err.startswith(head), done.err
    assert done.code == code, done.err
    ran = not head.startswith("error")
    assert Path("r.json").exists() is ran
    assert Path("out.onnx").exists() is (ran and (code != 1 or "on_failure=warn" in words))
    if ran:
        assert json.loads(Path("r.json").read_text())["exit_code"] == code


@each_of("engine", "tensorrt", "tensorrt-rtx", "openvino", "onnxruntime:ACL")
def test_an_engine_that_is_asked_for_and_absent_is_told(cli, model, monkeypatch, engine):
    from onnx_passes.runtime import openvino
    from onnx_passes.runtime.tensorrt import engine as tensorrt

    monkeypatch.setattr(tensorrt, "installed_version", lambda package: None)
    openvino.load_openvino.cache_clear()
    monkeypatch.setitem(sys.modules, "openvino", None)
    done = cli("-c", "optimize", "-e", engine, "-o", "out.onnx", model)
    done.tells(3, "error[engine-unavailable]")
    assert not Path("out.onnx").exists()


@each_of("words", ("list",), ("run.onnx", "-q", "-o-"))
def test_a_reader_that_goes_away_ends_a_command_quietly(cli, model, tmp_path, words):
    assert cli(model, "--json", "run.json", "-o", "run.onnx").code == 0
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "onnx_passes", *words]
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(writing)
    assert done.returncode == CLOSED
    assert not done.stderr


def test_a_full_disk_is_told_with_a_way_on(tmp_path):
    program = [sys.executable, "-m", "onnx_passes", "list"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"make room there" in done.stderr


@each_of("wrong, code", (True, 1), (False, 2))
def test_a_report_that_fails_hides_no_verdict(cli, model, write, monkeypatch, wrong, code):
    from onnx_passes.model import save

    write("drop_relu.py", WRONG)
    config = write("cfg.yaml", "imports: [drop_relu]\npasses: [drop-relu]\n")
    words = ["-c", config] if wrong else ["-c", "cleanup"]

    real = save.pending

    def full(path):
        if path.suffix == ".onnx":
            return real(path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(save, "pending", full)
    done = cli(*words, model, "--json", "r.json", "--html", "r.html")
    done.tells(code, "r.json: No space left on device", "r.html: No space left on device")
