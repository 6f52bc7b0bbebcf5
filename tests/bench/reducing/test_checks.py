import os
import re
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.bench.reducing import Reducer, checks
from onnx_passes.bench.reducing.candidates import CandidateStore, SmallerModel, Status
from onnx_passes.errors import EngineError, EngineUnavailableError, UsageError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.testing import parse
from tests.tables import each_of


class Wrong:
    """An engine that is off where a model has a Tanh."""

    name = "wrong"

    def __init__(self, error=None):
        self.error = error

    def describe(self):
        return {}

    def prepare(self, model):
        changed = model.clone()
        for node in changed.graph:
            if node.op_type == "Tanh":
                if self.error is not None:
                    raise self.error
                node.op_type = "Sigmoid"
        return OnnxRuntimeEngine().prepare(changed)


def operators(found):
    return [node.op_type for node in found.model.graph]


def test_what_an_engine_refuses_is_found(diamond, parts_of):
    check = checks.RunCheck(Wrong(EngineError("no Tanh here")))
    found = Reducer(parts_of(diamond), check).run()
    assert operators(found) == ["Tanh"]
    assert found.told == "no Tanh here"


def test_another_fault_does_not_count(diamond):
    check = checks.RunCheck(Wrong(), ReferenceEngine())
    check.kind = "engine"
    feeds = {"a": np.ones((1, 4), np.float32)}
    model = parse("""(float[1,4] a) => (float[1,4] y) { y = Tanh(a) }""")
    assert check.judge(SmallerModel(model, lambda: feeds), 1).status is Status.UNJUDGED


def test_an_engine_that_is_not_there_ends_it(diamond, parts_of):
    check = checks.RunCheck(Wrong(EngineUnavailableError("no GPU")), ReferenceEngine())
    with pytest.raises(EngineUnavailableError):
        Reducer(parts_of(diamond), check).run()


@each_of(
    "function, told",
    (lambda path: 1 / 0, "raised ZeroDivisionError"),
    (lambda path: "bad", "returns 'bad'"),
)
def test_a_function_that_does_not_judge_is_told(diamond, parts_of, function, told):
    with CandidateStore(diamond) as store, pytest.raises(UsageError, match=told):
        Reducer(parts_of(diamond), checks.FunctionCheck(function, store, "m:f")).run()


@pytest.fixture
def judge(diamond, tmp_path):
    """Judge the model by a Python script."""

    def call(script, *words, feeds=None, **given):
        command = shlex.join([sys.executable, "-c", script, *words])
        with CandidateStore(diamond) as store:
            check = checks.CommandCheck(command, store, **given)
            return check.judge(SmallerModel(diamond, lambda: feeds), 1)

    return call


@each_of(
    "rules, code, output, bad",
    (checks.FailureCriteria(), 0, "", False),
    (checks.FailureCriteria(), 3, "", True),
    (checks.FailureCriteria(), -11, "", True),
    (checks.FailureCriteria(codes=frozenset({3})), 2, "", False),
    (checks.FailureCriteria(codes=frozenset({0})), 0, "", True),
    (checks.FailureCriteria(ignored=frozenset({2})), 2, "", False),
    (checks.FailureCriteria(patterns=(re.compile("no+pe"),)), 0, "nooope", True),
    (checks.FailureCriteria(patterns=(re.compile("nope"),)), 1, "fine", False),
    (checks.FailureCriteria(frozenset({1}), patterns=(re.compile("nope"),)), 2, "nope", False),
    (checks.FailureCriteria(frozenset({1}), patterns=(re.compile("nope"),)), 1, "nope", True),
)
def test_what_counts_as_a_failure(rules, code, output, bad):
    assert rules.bad(code, output) is bad


def test_a_command_gets_the_model_and_the_values(judge):
    script = (
        "import sys, onnx, numpy\n"
        "assert len(onnx.load(sys.argv[1]).graph.node) == 6\n"
        "assert numpy.load(sys.argv[2])['x'].tolist() == [[1.0, 2.0, 3.0, 4.0]]\n"
        "sys.exit(7)"
    )
    feeds = {"x": np.array([[1, 2, 3, 4]], np.float32)}
    outcome = judge(script, "{model}", "{inputs}", feeds=feeds)
    assert (outcome.status, outcome.told) == (Status.BAD, "exit code 7"), outcome.log


def test_output_is_looked_through_on_both_streams_and_may_be_binary(judge):
    rules = checks.FailureCriteria(patterns=(re.compile("^wrong$", re.MULTILINE),))
    script = (
        "import sys\n"
        "sys.stdout.buffer.write(bytes(range(256)))\n"
        "sys.stderr.write('\\nwrong\\n')"
    )
    assert judge(script, "{model}", rules=rules).bad


def test_a_command_that_hangs_is_ended_with_its_children(judge, tmp_path):
    mark = tmp_path / "child"
    script = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(mark)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(600)"
    )
    outcome = judge(script, "{model}", timeout=3)
    assert (outcome.status, outcome.told) == (Status.UNJUDGED, "ran longer than 3 s")
    child = int(mark.read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        # A zombie has ended: nobody has asked it for its exit code yet.
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child still runs")


@pytest.fixture
def heavy(tmp_path):
    """A model of two MatMuls, whose weights lie beside it."""
    shape = (64, 64)
    rng = np.random.default_rng(0)
    tensors = [
        onnx.numpy_helper.from_array(rng.random(shape, np.float32), n) for n in ("v", "w")
    ]
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        main (float[1,64] x) => (float[1,64] y) { h = MatMul(x, v) y = MatMul(h, w) }""")
    model.graph.initializer.extend(tensors)
    path = tmp_path / "model" / "heavy.onnx"
    path.parent.mkdir()
    onnx.save(model, path, save_as_external_data=True, location="heavy.data")
    return path


def test_weights_beside_the_model_are_referred_to(heavy):
    from onnx_passes.model.load import load_model

    before = sorted(heavy.parent.iterdir())
    model = load_model(heavy).model
    with CandidateStore(model, inline=0) as store, store.file(model) as path:
        assert path.parent == heavy.parent
        assert path.stat().st_size < 2000
        assert {
            e.value
            for t in onnx.load(path, load_external_data=False).graph.initializer
            for e in t.external_data
            if e.key == "location"
        } == {"heavy.data"}
        onnx.checker.check_model(path)
        assert sorted(heavy.parent.iterdir()) == sorted([*before, path])
    assert sorted(heavy.parent.iterdir()) == before


def test_weights_elsewhere_are_written_once(heavy, tmp_path):
    from onnx_passes.model.load import load_model

    model = load_model(heavy).model
    there = tmp_path / "there"
    there.mkdir()
    with CandidateStore(model, there, inline=0) as store:
        for name in ("a.onnx", "b.onnx"):
            store.write(model, there / name)
            assert np.array_equal(
                ir.load(there / name).graph.initializers["w"].const_value.numpy(),
                model.graph.initializers["w"].const_value.numpy(),
            )
        assert len([p for p in there.iterdir() if p.suffix == ".data"]) == 1
    assert sorted(p.name for p in there.iterdir()) == ["a.onnx", "b.onnx"]


OWN = f"{shlex.quote(sys.executable)} -m onnx_passes"


@each_of("words", "inspct {model}", "compare {model} --inputs none.npz")
def test_a_wrong_use_of_our_own_commands_ends_the_reduction(diamond, words):
    with (
        CandidateStore(diamond) as store,
        pytest.raises(UsageError, match="is used wrongly") as raised,
    ):
        checks.CommandCheck(f"{OWN} {words}", store).judge(
            SmallerModel(diamond, lambda: None), 1
        )
    assert "error[" in str(raised.value)


def test_data_of_the_whole_model_that_does_not_fit_a_part_says_nothing(diamond):
    with CandidateStore(diamond) as store:
        check = checks.CommandCheck(f"{OWN} compare {{model}} --inputs none.npz", store)
        assert check.judge(SmallerModel(diamond, lambda: None), 2).status is Status.UNJUDGED
        check.rules = checks.FailureCriteria(codes=frozenset({2}))
        assert check.judge(SmallerModel(diamond, lambda: None), 1).bad


def test_a_failure_of_our_own_commands_counts(diamond):
    with CandidateStore(diamond) as store:
        check = checks.CommandCheck(f"{OWN} diff {{model}} {{model}}", store)
        assert check.judge(SmallerModel(diamond, lambda: None), 1).status is Status.GOOD
