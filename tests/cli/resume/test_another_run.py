"""What may differ from the run that ended early, and what may not."""

import numpy as np
import onnx
import pytest

from tests.cli.resume.pipelines import CONFIG, PASSES, STEPS, TEXT, run_apart


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ((), "own-share, eliminate-identity, remove-unused-nodes"),
        (("-s", "on_failure=rollback"), None),
        (("-s", "limits.pass_seconds=60"), None),
    ],
)
def test_later_steps_and_the_policy_may_change(folder, run, words, steps):
    run(stop="wrong")
    code, err = run("--resume", *words, steps=steps)
    assert code == 0, err
    assert "resumed after step 2" in err


def change_model(folder):
    text = TEXT.replace("w = {2}", "w = {3}")
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")


def change_data(folder):
    np.savez(folder / "in.npz", x=np.ones(4, np.float32))


def change_steps(folder):
    (folder / "p.yaml").write_text(CONFIG.format(f"eliminate-identity, {STEPS}"))


def change_verify(folder):
    text = (folder / "p.yaml").read_text()
    (folder / "p.yaml").write_text(f"{text}verify: {{tolerance: {{rtol: 0.5}}}}\n")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (change_model, "the model"),
        (change_data, "the reference data"),
        (change_steps, "the steps"),
        (change_verify, "verify"),
    ],
)
def test_another_run_starts_anew_and_says_what_changed(folder, run, change, what):
    run(stop="wrong")
    change(folder)
    code, err = run("--resume")
    assert code == 0, err
    assert "note: nothing is resumed: since the run of 2" in err
    assert f", {what} changed" in err


@pytest.mark.parametrize(("steps", "resumed"), [(STEPS, False), (STEPS[11:], True)])
def test_an_edited_module_counts_if_a_pass_of_it_was_done(folder, steps, resumed):
    (folder / "p.yaml").write_text(CONFIG.format(steps))
    assert run_apart(folder, STOP="wrong")[0] == 1
    (folder / "own.py").write_text(f"{PASSES}\nREPAIRED = True\n")
    code, err = run_apart(folder, "--resume")
    assert code == 0, err
    changed = "the modules under imports changed"
    assert ("resumed after step" if resumed else changed) in err


def test_a_module_edited_during_the_run_is_not_taken_for_what_ran(folder):
    (folder / "own.py").write_text(f"open('own.py', 'a').write('#')\n{PASSES}")
    code, err = run_apart(folder, STOP="wrong")
    assert code == 1
    assert "own.py has changed since the run began" in err
