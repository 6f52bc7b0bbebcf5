"""How runs end early, and what the next run with ``--resume`` does."""

import signal

import onnx_ir as ir
import pytest

from onnx_passes.model.digest import canonical_hash
from tests.cli.resume.pipelines import is_right, run_apart, saved, start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_is_resumed(folder, number):
    code, err = run_apart(folder, STOP=str(int(number)))
    assert code == 128 + number
    assert "nothing was written; --resume goes on after step 2 of 4 (verified 2" in err
    code, err = run_apart(folder, "--resume")
    assert code == 0, err
    assert "note: resumed after step 2 of 4 (verified 2" in err
    assert is_right(folder)
    assert saved(folder) == []


def test_a_state_that_takes_long_to_save_is_saved_after_ctrl_c(folder):
    code, err = run_apart(folder, STOP=str(int(signal.SIGINT)), SAVE_SLOWLY="1")
    assert code == 128 + signal.SIGINT
    assert "--resume goes on after step 2 of 4" in err
    assert len(saved(folder)) == 2


def test_a_killed_run_is_resumed_from_a_state_saved_as_it_went(folder):
    code, _ = run_apart(folder, STOP=str(int(signal.SIGKILL)), SAVE_EACH="1")
    assert code == 3  # as where memory does not suffice
    code, err = run_apart(folder, "--resume")
    assert code == 0, err
    assert "resumed after step 2 of 4" in err
    assert is_right(folder)


def test_a_short_run_that_ends_well_saves_nothing(folder, run):
    assert run()[0] == 0
    assert not (folder / "cache").exists()


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("wrong", ()),
        ("raise", ()),
        ("sleep", ("-s", "limits.pass_seconds=0.2")),
    ],
)
def test_a_failed_run_is_resumed(folder, run, stop, words):
    code, err = run(*words, stop=stop)
    assert code == 1
    assert "note: --resume goes on after step 2 of 4 (verified 2" in err
    # A second failure at the same place keeps what was saved.
    assert run("--resume", *words, stop=stop)[0] == 1
    code, err = run("--resume", "--json", "r.json")
    assert code == 0, err
    assert (folder / "r.json").read_text().count('"resumed": true') == 2
    assert is_right(folder)
    assert saved(folder) == []


def test_a_pass_may_change_the_working_folder(folder):
    code, err = run_apart(folder, STOP="chdir")
    assert code == 1
    assert "--resume goes on after step 2 of 4" in err
    assert len(saved(folder)) == 2


def test_a_resumed_run_equals_one_in_one_go(folder, run):
    steps = "own-share: {value: one}, own-share: {value: two}, own-stop, eliminate-identity"
    steps = ", ".join(f"{{{s}}}" if ":" in s else s for s in steps.split(", "))
    run(stop="wrong", steps=steps)
    assert run("--resume")[0] == 0
    resumed = ir.load(folder / "out.onnx")
    assert run()[0] == 0
    whole = ir.load(folder / "out.onnx")
    assert canonical_hash(resumed) == canonical_hash(whole)
    assert resumed.metadata_props["made"] == whole.metadata_props["made"] == "['one', 'two']"


def test_a_group_begins_again(folder, run):
    group = "{group: [eliminate-identity, own-stop], repeat: fixpoint}"
    code, err = run(stop="wrong", steps=f"own-share, checkpoint, {group}")
    assert code == 1
    assert "--resume goes on after step 2 of 3" in err
    assert run("--resume")[0] == 0
    assert is_right(folder)


def test_nothing_to_resume_is_a_note_and_a_run(folder, run):
    code, err = run("--resume")
    assert code == 0
    assert "note: nothing is resumed: no state of this model is saved" in err
    code, err = run("--resume", "--no-verify")
    assert code == 0
    assert "nothing is resumed: no state is saved without verification" in err


def test_two_runs_at_once_do_not_disturb_each_other(folder):
    run_apart(folder, STOP="wrong")
    pair = [start(folder, "--resume", STOP="wrong", SAVE_EACH="1") for _ in range(2)]
    for process in pair:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "--resume goes on after step 2 of 4" in err
    code, err = run_apart(folder, "--resume")
    assert code == 0
    assert "resumed after step 2 of 4" in err
    assert is_right(folder)


def test_a_resumed_result_is_held_against_the_original(folder, run):
    code, err = run(stop="raise", steps="own-drift, own-stop")
    assert "--resume goes on after step 1 of 2" in err
    code, err = run("--resume")
    assert code == 1
    assert "the result is too far from the original" in err


def test_spent_error_budgets_are_remembered(folder, run):
    words = ("-s", "verify.drift.rtol=1e-4", "-s", "verify.tolerance.rtol=1e-4")
    steps = "own-nudge, own-stop, own-nudge"
    _, in_one_go = run(*words, steps=steps)
    assert "error budget is exceeded" in in_one_go
    run(*words, stop="raise")
    code, err = run("--resume", *words)
    assert code == 1
    assert "resumed after step 1 of 3" in err
    assert "error budget is exceeded" in err


def test_rewrites_go_on_being_counted(folder, run):
    run("--rewrite-limit", "2", stop="wrong", steps="eliminate-identity, own-stop")
    code, _ = run("--resume", "--rewrite-limit", "2", steps="eliminate-identity, own-stop")
    assert code == 0
    assert len(ir.load(folder / "out.onnx").graph) == 2
    again = "eliminate-identity, own-stop, eliminate-identity"
    run("--rewrite-limit", "2", stop="wrong", steps=again)
    assert run("--resume", "--rewrite-limit", "2")[0] == 0
    assert len(ir.load(folder / "out.onnx").graph) == 2
