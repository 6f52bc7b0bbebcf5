"""How runs end early, and how the next one continues with ``--start-at``."""

import os
import signal
import subprocess
import sys

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.pipeline.gate import Gate
from tests.tables import each_of

TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) <float w = {2}>
{ a = Identity(x) b = Mul(a, w) c = Identity(b) y = Identity(c) }"""
PASSES = """\
import os
import numpy as np
import onnx_ir as ir
from onnx_passes import passes

@passes.verify.equality
@passes.register()
class OwnStop(passes.Transformation):
    def call(self, model):
        match os.environ.get("STOP", ""):
            case "wrong":
                for value in model.graph.initializers.values():
                    value.const_value = ir.tensor(value.const_value.numpy() * np.float32(2))
                return ir.passes.PassResult(model, True)
            case "raise":
                raise ValueError("broken")
            case number if number:
                os.kill(os.getpid(), int(number))
        return ir.passes.PassResult(model, False)
"""
STEPS = "[shape-inference, eliminate-identity, own-stop, remove-unused-nodes]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model, passes of its own and a pipeline."""
    monkeypatch.delenv("STOP", raising=False)
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "m.onnx")
    (tmp_path / "own.py").write_text(PASSES)
    (tmp_path / "p.yaml").write_text(f"imports: [own]\npasses: {STEPS}\nreproducers: false\n")
    return tmp_path


@pytest.fixture
def run(folder, cli, monkeypatch):
    """Run the pipeline in this process; return exit code and stderr."""

    def call(model, *words, stop=""):
        monkeypatch.setenv("STOP", stop)
        done = cli("-c", "p.yaml", "-o", "out.onnx", *words, model)
        return done.code, done.err

    return call


def is_right(folder):
    model = ir.load(folder / "out.onnx")
    (weight,) = model.graph.initializers.values()
    operators = [node.op_type for node in model.graph]
    return operators == ["Mul"] and float(weight.const_value.numpy().item()) == 2


@each_of("stop", "wrong", "raise")
@each_of("step", "own-stop", "3")
def test_a_failed_run_continues_from_the_model_before_the_step(folder, run, stop, step):
    code, err = run("m.onnx", stop=stop)
    assert code == 1
    assert "note: --start-at 3 continues from" in err
    assert not (folder / "out.onnx").exists()
    code, err = run("out.before-step-3.onnx", "--start-at", step)
    assert code == 0, err
    assert "steps before 3 are left out: the result is held against out.before-step-3" in err
    assert is_right(folder)


def test_an_engine_that_ends_says_where_the_run_continues(folder, run, monkeypatch):
    check = Gate.check

    def ends(self, pass_, *given):
        if pass_.name == "own-stop":
            raise EngineError("it ended", help="ask another")
        return check(self, pass_, *given)

    monkeypatch.setattr(Gate, "check", ends)
    code, err = run("m.onnx", stop="wrong")
    assert code == 3
    assert "ask another; --start-at 3 continues from" in err
    assert (folder / "out.before-step-3.onnx").exists()


@each_of("number", signal.SIGTERM, signal.SIGINT)
def test_so_does_an_interrupted_one(folder, number):
    command = [sys.executable, "-m", "onnx_passes", "-c", "p.yaml", "-o", "out.onnx", "m.onnx"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"STOP": str(int(number))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 128 + number
    assert "the result was not written; --start-at 3 continues from" in done.stderr
    assert [node.op_type for node in ir.load(folder / "out.before-step-3.onnx").graph] == [
        "Mul"
    ]


def test_a_wrong_pass_behind_the_start_is_found(run):
    code, err = run("m.onnx", "--start-at", "own-stop", stop="wrong")
    assert code == 1
    assert "own-stop" in err


@each_of("step", "0", "5", "fuse-gelu", "")
def test_steps_that_there_are_not_are_refused_with_those_there_are(run, step):
    code, err = run("m.onnx", "--start-at", step)
    assert code == 2
    assert f"no step is '{step}'" in err
    assert "1 shape-inference, 2 eliminate-identity, 3 own-stop" in err


def test_a_model_that_cannot_be_saved_is_told(folder, run):
    (folder / "out.before-step-3.onnx").mkdir()
    code, err = run("m.onnx", stop="wrong")
    assert code == 1
    assert "the model before step 3 could not be saved" in err


def test_weights_beside_the_model_stay_there(folder, cli, monkeypatch):
    model = onnx.load(folder / "m.onnx")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float32([2] * 4), "w"))
    onnx.save(
        model,
        folder / "big.onnx",
        save_as_external_data=True,
        location="big.data",
        size_threshold=0,
    )
    monkeypatch.setenv("STOP", "wrong")
    words = "-s", "save.size_threshold=4", "-c", "p.yaml", "-o", "out.onnx", "big.onnx"
    assert cli(*words).code == 1
    (data,) = folder.glob("out.before-step-3.onnx.*.data")
    assert data.stat().st_size == 16
