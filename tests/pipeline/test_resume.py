"""``--resume``: whatever ended a run, the one that goes on gives what it would have given."""

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.config.load import default_config
from onnx_passes.io.detached import detach
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline import resume as resuming
from onnx_passes.pipeline import states as storing
from onnx_passes.pipeline.instruments import Instrument
from onnx_passes.pipeline.resume import Keeper, Resume
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.pipeline.states import States
from onnx_passes.verify.snapshot import Snapshot

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "examples" / "digits" / "model.onnx"
HEAD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) '
STEPS = ("resume-fold", "eliminate-identity", "resume-break", "remove-unused-nodes")
BROKEN = {"now": False}


@passes.verify.equality
@passes.register()
class ResumeFold(Transformation):
    """Put a constant of its own in place of each weight, and something unused beside it."""

    def call(self, model):
        for value in model.graph.initializers.values():
            value.const_value = ir.tensor(value.const_value.numpy() * 1, name="mine")
        text = ir.StringTensor(np.array([b"a", b"bc"]), shape=ir.Shape([2]))
        small = ir.PackedTensor(
            np.array([18], np.uint8), ir.DataType.INT4, shape=ir.Shape([2])
        )
        for tensor in (text, small):
            model.graph.append(ir.node("Constant", [], {"value": tensor}))
        return ir.passes.PassResult(model, True)


@passes.verify.equality
@passes.register()
class ResumeBreak(Transformation):
    """Spoil a weight, while it is broken."""

    def call(self, model):
        if BROKEN["now"]:
            for value in model.graph.initializers.values():
                value.const_value = ir.tensor(value.const_value.numpy() + 1)
        return ir.passes.PassResult(model, BROKEN["now"])


@passes.register()
class ResumeDrift(Transformation):
    """Make each weight half as large again, and promise nothing."""

    def call(self, model):
        for value in model.graph.initializers.values():
            value.const_value = ir.tensor(value.const_value.numpy() * np.float32(1.5))
        return ir.passes.PassResult(model, True)


class Interrupt(Instrument):
    def __init__(self, name):
        self.name = name

    def before_pass(self, pass_, model, report):
        if pass_.name == self.name:
            raise KeyboardInterrupt


def model(weight=2):
    text = (
        f"{HEAD} <float w = {{{weight}}}> {{ a = Identity(x) b = Mul(a, w) y = Identity(b) }}"
    )
    return ir.from_proto(onnx.parser.parse_model(text))


def run(folder, *overrides, broken=False, wanted=True, weight=2, steps=STEPS, **more):
    BROKEN["now"] = broken
    config = default_config(["reproducers=false", *overrides], steps)
    kept = Resume(folder, wanted, **more)
    done = run_pipeline(model(weight), config, name="m.onnx", resume=kept)
    if done.error is None:
        kept.done()
    return done


def written(done):
    graph, tensors = detach(done.model)
    return graph, [
        (t.name, t.tobytes() if t.dtype != ir.DataType.STRING else t) for t in tensors
    ]


def same(one, other):
    a, b = (
        ir.to_proto(done.model).SerializeToString(deterministic=True) for done in (one, other)
    )
    return a == b


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")


def test_a_failed_run_goes_on_after_its_last_verified_pass(tmp_path):
    failed = run(tmp_path, broken=True)
    assert failed.report.exit_code == 1
    assert failed.report.notes[-1].startswith("--resume goes on after pass 2 of 4 (verified 2")
    done = run(tmp_path)
    assert [p.resumed for p in done.report.passes] == [True, True, False, False]
    assert done.report.resumed.startswith("after pass 2 of 4 (verified 2")
    assert [r.number for p in done.report.passes for r in p.rewrites] == [1, 2]
    assert done.report.final
    assert done.report.exit_code == 0
    assert same(done, run(tmp_path, wanted=False))


def test_a_run_that_ends_well_leaves_nothing(tmp_path):
    run(tmp_path, broken=True)
    assert files(tmp_path)
    run(tmp_path)
    assert files(tmp_path) == []


def test_a_short_run_that_ends_well_writes_nothing(tmp_path):
    run(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_long_run_writes_states_as_it_goes_and_keeps_few(tmp_path, monkeypatch):
    monkeypatch.setattr(resuming, "SHARE", 1e9)
    monkeypatch.setattr(resuming, "KEPT", 2)
    config = default_config(["reproducers=false"], STEPS)
    kept = Resume(tmp_path, interval=0)
    run_pipeline(model(), config, resume=kept)
    assert 1 <= len(list(tmp_path.glob("runs/*/*.json"))) <= 3


def test_an_interrupted_run_keeps_its_state(tmp_path):
    kept = Resume(tmp_path)
    config = default_config([], STEPS)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(model(), config, instruments=[Interrupt("resume-break")], resume=kept)
    kept.rescue()
    assert kept.hint.startswith("--resume goes on after pass 2 of 4")


def test_weights_of_the_original_are_not_copied(tmp_path):
    steps = ("eliminate-identity", "resume-break")
    run(tmp_path, broken=True, steps=steps)
    (manifest,) = tmp_path.glob("runs/*/*.json")
    state = States(tmp_path).read(manifest)
    assert state.blobs == {state.graph}
    assert [row["original"] for row in state.tensors] == [0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"weight": 3}, "the model changed"),
        ({"overrides": ["verify.tolerance.rtol=0.5"]}, "verify and the pipeline file changed"),
        (
            {"overrides": ["reference.seed=7"]},
            "reference and the reference data and the pipeli",
        ),
        ({"overrides": ["limits.rewrites=9"]}, "limits.rewrites changed"),
        ({"steps": ("eliminate-identity", *STEPS)}, "from pass 1 on it is another run"),
        ({"steps": STEPS[:1]}, "the pipeline ends before it"),
    ],
)
def test_another_run_starts_anew_and_says_what_differs(tmp_path, change, why):
    run(tmp_path, broken=True)
    done = run(tmp_path, *change.pop("overrides", ()), **change)
    (note,) = [n for n in done.report.notes if "resumed" in n]
    assert note.startswith("nothing is resumed: ")
    assert why in note
    assert not any(p.resumed for p in done.report.passes)


def test_what_follows_may_change_and_so_may_the_policy(tmp_path):
    run(tmp_path, broken=True)
    steps = ("resume-fold", "eliminate-identity", "unique-names")
    done = run(tmp_path, "on_failure=warn", "limits.pass_seconds=5", steps=steps)
    assert [p.resumed for p in done.report.passes] == [True, True, False]


def test_nothing_to_resume_is_a_line_and_a_run(tmp_path):
    done = run(tmp_path)
    assert done.report.notes == ["nothing is resumed: there is no saved state of this model"]
    done = run(tmp_path, "verify=false")
    assert "verification is off" in done.report.notes[0]


def test_a_change_kept_under_warn_is_no_verified_state(tmp_path):
    run(tmp_path, "on_failure=warn", broken=True)
    done = run(tmp_path, "on_failure=warn", broken=True)
    assert [p.resumed for p in done.report.passes] == [True, True, False, False]


def test_torn_and_edited_files_are_refused(tmp_path, monkeypatch):
    """Truncate and flip every file of a state, in every region: never another result."""
    sources = resuming.Sources()
    monkeypatch.setattr(resuming, "Sources", lambda since: sources)  # each reads 50 modules
    clean = run(tmp_path / "none", wanted=False)
    run(tmp_path, broken=True)
    whole = {path: path.read_bytes() for path in files(tmp_path)}
    chance = random.Random(0)
    refused = 0
    for path, data in whole.items():
        size = len(data)
        places = {int(size * i / 6) for i in range(6)} | {size - 1, chance.randrange(size)}
        bad = [data[:place] for place in places]
        bad += [data[:p] + bytes([data[p] ^ 1 << p % 8]) + data[p + 1 :] for p in places]
        for content in [*bad, data + b"x", None]:
            for file, good in whole.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(good)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
            done = run(tmp_path)
            assert done.report.exit_code == 0
            assert same(done, clean)
            refused += done.report.resumed is None
            assert done.report.resumed or "nothing is resumed: " in done.report.notes[0]
    assert refused > 60


def test_spent_error_budgets_are_remembered(tmp_path):
    kept = Resume(tmp_path)
    run_pipeline(model(), default_config([], STEPS), resume=kept)
    _, manager = kept.keeper._latest
    gate, (bench, *_) = manager.gate, manager.gate.baseline.benches
    gate.spending._of(bench).total["y"] = 0.75
    remembered = json.loads(json.dumps(gate.remember()))
    gate.spending._of(bench).total.clear()
    gate.distrust()
    gate.recall(remembered)
    assert gate.spending._of(bench).total == {"y": 0.75}


def test_a_manifest_with_a_right_digest_and_wrong_content_is_refused(tmp_path):
    import hashlib

    run(tmp_path, broken=True)
    (manifest,) = tmp_path.glob("runs/*/*.json")
    good = json.loads(manifest.read_bytes().partition(b"\n")[2])
    for key in good:
        text = json.dumps({**good, key: [[]]}).encode()
        manifest.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
        assert run(tmp_path, "on_failure=stop").report.exit_code == 0
        # A run on a slow machine writes states, and cleans up among the others.
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
        assert run(tmp_path, "on_failure=stop", interval=0).report.exit_code == 0
        manifest.parent.mkdir(parents=True, exist_ok=True)


def test_a_full_disk_fails_no_run(tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("onnx_passes.io.blobs.Blobs.put", full)
    monkeypatch.setattr(resuming, "INTERVAL", 0.0)
    done = run(tmp_path, interval=0, wanted=False)
    assert done.report.exit_code == 0
    (note,) = done.report.notes
    assert "could not be kept: No space left on device" in note


def test_the_least_recently_used_states_go_first(tmp_path):
    for weight in (2, 3, 4):
        run(tmp_path, broken=True, weight=weight)
    states = States(tmp_path)
    manifests = sorted(tmp_path.glob("runs/*/*.json"), key=lambda p: p.stat().st_mtime)
    for age, path in enumerate(reversed(manifests)):
        os.utime(path, (1e9 - age, 1e9 - age))
    storing.touch(manifests[0])
    states.limit = states.size() - 1
    states.prune(grace=0)
    assert set(tmp_path.glob("runs/*/*.json")) == {manifests[0], manifests[2]}
    assert run(tmp_path).report.resumed
    states.limit = 0
    states.prune(grace=0)
    assert files(tmp_path) == []


def test_runs_of_one_key_do_not_disturb_each_other(tmp_path):
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_resume as t; " + (
        "from pathlib import Path; [t.run(Path(sys.argv[2]), broken=i % 3 < 2, interval=0) "
        "for i in range(12)]"
    )
    command = [sys.executable, "-c", program, str(HERE), str(tmp_path)]
    pair = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in pair:
        _, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint
    done = run(tmp_path)
    assert same(done, run(tmp_path / "none", wanted=False))


PIPELINES = {
    "everything": """
passes:
  - shape-inference
  - resume-count
  - resume-note
  - group: [resume-both, resume-drop, {group: [resume-drop, fold-constants], repeat: fixpoint}]
    repeat: fixpoint
  - resume-wrong
  - checkpoint
  - eliminate-identity
  - resume-note
  - remove-unused
""",
    "optimize": None,
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")
@pytest.mark.parametrize("name", PIPELINES)
def test_a_killed_run_resumed_gives_the_same_bytes(tmp_path, name):
    config = tmp_path / "pipeline.yaml"
    if PIPELINES[name]:
        config.write_text(PIPELINES[name])
    command = [sys.executable, str(HERE / "kill_and_resume.py"), str(DIGITS)]
    step = "9" if PIPELINES[name] else "25"  # a preset has a hundred passes
    command += [str(config) if PIPELINES[name] else name, str(tmp_path), step, "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" killed ") >= 5


@pytest.mark.slow
def test_a_killed_run_of_a_transformer_resumed_gives_the_same_bytes(tmp_path):
    from benchmarks.models import transformer

    path = tmp_path / "transformer.onnx"
    onnx.save(transformer(layers=2, hidden=32, heads=2, ffn=64, vocab=64), path)
    command = [sys.executable, str(HERE / "kill_and_resume.py"), str(path), "optimize"]
    command += [str(tmp_path), "9", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" killed ") >= 15


def test_what_drifted_before_the_interruption_is_traced_after_it(tmp_path):
    steps = ("eliminate-identity", "resume-drift", "resume-fold", "resume-break")
    assert run(tmp_path, broken=True, steps=steps).report.passes[-1].verdict.value == "failed"
    done = run(tmp_path, steps=steps)
    assert [p.resumed for p in done.report.passes] == [True, True, True, False]
    assert "too far from the original" in done.report.error
    (blame,) = done.report.blame
    assert (blame.step, blame.name) == (1, "resume-drift")


def test_the_first_state_takes_no_more_of_a_run_than_later_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(resuming, "DIGESTED", 4.0)  # a weight of two seconds
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"""
    original = Snapshot(ir.from_onnx_text(text))

    def patience(interval):
        settings = Resume(tmp_path, interval=interval)
        return Keeper(settings, original, None, None, [], None)._patience

    assert [patience(interval) for interval in (0, 5, 60)] == pytest.approx([0, 50, 60])
