"""An engine that breaks on what a pass made: the check fails, and the run continues."""

import json
from pathlib import Path

import onnx
import pytest

from onnx_passes.runtime.isolated import end_children
from tests.cli.modules import rule_pass
from tests.tables import each_of

MISBEHAVING = Path(__file__).parents[1] / "runtime" / "misbehaving_engine.py"

PASSES = rule_pass("NegateTwice", "op.Identity(x)", "op.Neg(op.Neg(x))")
PASSES += rule_pass("SwapAdd", "op.Add(x, y)", "op.Sum(y, x)", "x, y")


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    from onnx_passes.runtime import engines

    monkeypatch.setattr(engines, "_FACTORIES", dict(engines._FACTORIES))
    yield
    end_children()


@pytest.fixture
def go(cli, write, model):
    write("negate.py", PASSES)
    # A name of its own, as the module of another test may be imported already.
    write("fragile.py", MISBEHAVING.read_text().replace('"misbehaving"', '"fragile"'))

    def go(engine, policy, passes="NegateTwice, SwapAdd"):
        config = write(
            "cfg.yaml",
            f"imports: [negate, fragile]\npasses: [{passes}]\non_failure: {policy}\n"
            f"reproducers: false\nengines: [fragile: {engine}]\n",
        )
        done = cli("-c", config, "-o", "out.onnx", "--json", "run.json", model)
        path = Path("run.json")
        return done, json.loads(path.read_text()) if path.exists() else {}

    return go


SEGFAULT = "{isolate: true, how: segfault}"
FAULTS = [
    (SEGFAULT, "fragile crashed with SIGSEGV while running"),
    # A process is started for each model that is tried, which takes its time.
    pytest.param(
        "{isolate: true, how: hang, time_limit: 1}",
        "fragile did not end within 1 s",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "{isolate: true, how: allocate, memory_limit: 600MiB}",
        "fragile ran out of its 600 MiB of memory",
        marks=pytest.mark.slow,
    ),
]


@each_of("engine, message", *FAULTS)
def test_rollback_goes_on_with_a_new_process(go, engine, message):
    done, report = go(engine, "rollback")
    assert done.code == 0
    first, second = report["passes"]
    assert (first["verdict"], first["action"]) == ("failed", "rolled back")
    assert f"the result does not run: {message}" in first["error"]
    assert second["verdict"] == "passed"
    assert [c["verdict"] for c in report["final"]] == ["passed"]
    assert [n.op_type for n in onnx.load("out.onnx").graph.node] == ["Sum", "Identity", "Relu"]


def test_stop_is_exit_code_1_and_writes_nothing(go):
    done, report = go(SEGFAULT, "stop")
    done.tells(1, "fragile crashed with SIGSEGV while running; its last output: about to")
    assert [p["action"] for p in report["passes"]] == ["stopped"]
    assert not Path("out.onnx").exists()


def test_warn_keeps_it_and_blames_no_later_pass(go):
    done, report = go(SEGFAULT, "warn")
    assert done.code == 1
    first, second = report["passes"]
    assert (first["verdict"], first["action"]) == ("failed", "warned")
    assert second["verdict"] == "not verified"
    assert "the model before the pass does not run" in second["checks"][-1]["reason"]
    assert [c["verdict"] for c in report["final"]] == ["failed"]
    assert len(onnx.load("out.onnx").graph.node) == 4


def test_a_crash_on_the_original_leads_to_the_reference_evaluator(go, model):
    text = """<ir_version: 10, opset_import: ["" : 20]>
    main (float[N,2] a) => (float[N,2] y) { s = Neg(a) y = Identity(s) }"""
    Path(model).write_bytes(onnx.parser.parse_model(text).SerializeToString())
    done, report = go(SEGFAULT, "stop", "eliminate-identity")
    assert done.code == 0
    (engine,) = report["engines"]
    assert engine["name"] == "reference"
    assert "crashed with SIGSEGV" in engine["fallback_for"]


def test_a_crash_that_nothing_stands_in_for_is_exit_code_3(go, model):
    text = """<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    main (float[N,2] a) => (float[N,2] y) { s = Neg(a) t = my.Op(s) y = Identity(t) }"""
    Path(model).write_bytes(onnx.parser.parse_model(text).SerializeToString())
    done, _ = go("{isolate: true, how: segfault, at: prepare}", "stop", "eliminate-identity")
    done.tells(3, "fragile crashed with SIGSEGV while preparing the model")
