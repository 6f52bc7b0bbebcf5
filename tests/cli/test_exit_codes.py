"""How commands end: one table, and what may not change a code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_passes.cli.exit_codes import EXIT_CODES
from onnx_passes.cli.main import CLOSED, COMMANDS, INTERNAL
from onnx_passes.errors import OnnxPassesError

WRONG = """\
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation

@passes.verify.equality
@passes.register()
class DropRelu(Transformation, RewriteRulePass):
    def pattern(self, op, x): return op.Relu(x)
    def rewrite(self, op, x): return op.Abs(x)
"""


def kinds(cls):
    yield cls
    for inner in cls.__subclasses__():
        yield from kinds(inner)


def test_every_code_is_in_the_table(cli):
    known = {cls.exit_code for cls in kinds(OnnxPassesError)} | {INTERNAL, CLOSED, 0, 130}
    assert known <= set(EXIT_CODES)
    listed = cli("--help").out
    assert all(f"  {code} " in listed for code in EXIT_CODES)


def test_no_command_has_a_table_of_its_own(cli):
    assert not [name for name in COMMANDS if "Exit codes:" in cli(name, "-h").out]


@pytest.mark.parametrize("engine", ["tensorrt", "tensorrt-rtx", "openvino", "onnxruntime:ACL"])
def test_an_engine_that_is_asked_for_and_absent_is_told(cli, model, monkeypatch, engine):
    from onnx_passes.runtime import openvino
    from onnx_passes.runtime.tensorrt import engine as tensorrt

    monkeypatch.setattr(tensorrt, "installed_version", lambda package: None)
    openvino.load_openvino.cache_clear()
    monkeypatch.setitem(sys.modules, "openvino", None)
    done = cli("-c", "optimize", "-e", engine, "-o", "out.onnx", model)
    assert done.code == 3, done.err
    assert "error[engine-unavailable]" in done.err
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("words", [("list",), ("report", "run.json", "-v"), ("--help",)])
def test_a_reader_that_goes_away_ends_a_command_quietly(cli, model, tmp_path, words):
    assert cli(model, "--json", "run.json").code == 0
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


@pytest.mark.parametrize(("wrong", "code"), [(True, 1), (False, 2)])
def test_a_report_that_cannot_be_written_hides_no_verdict(
    cli, model, write, monkeypatch, wrong, code
):
    from onnx_passes.report import report_files

    write("drop_relu.py", WRONG)
    config = write("cfg.yaml", "imports: [drop_relu]\npasses: [drop-relu]\n")
    words = ["-c", config] if wrong else ["-c", "cleanup"]

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_files, "pending", full)
    done = cli(*words, model, "--json", "r.json", "--html", "r.html")
    assert done.code == code, done.err
    assert "r.json: No space left on device" in done.err
    assert "r.html: No space left on device" in done.err
