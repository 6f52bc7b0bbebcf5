"""What a repository copies does what its README says; the action's script is run as it is."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.tables import each_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "repository"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Copy it, with the program on the PATH."""
    here = tmp_path / "repository"
    shutil.copytree(FOLDER, here)
    program = tmp_path / "bin" / "onnx-passes"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m onnx_passes "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(here)
    return here


def read(path):
    return yaml.safe_load(path.read_text())


@each_of("break_it, code", (False, 0), (True, 3), ids=["as it is", "with a broken model"])
def test_the_action_verifies_and_keeps_reports(repository, break_it, code):
    if break_it:
        text = (repository / "model.onnxtxt").read_text()
        (repository / "model.onnxtxt").write_text(text.replace("Add(product", "Add(nothing"))
    action = read(ROOT / "action.yml")
    (step,) = [s for s in action["runs"]["steps"] if s.get("name") == "Verify"]
    assert "${{" not in step["run"]
    job = read(repository / ".github/workflows/verify.yml")["jobs"]["model"]["steps"][1]
    given = {name: each.get("default", "") for name, each in action["inputs"].items()}
    given |= job["with"]
    assert given.keys() == action["inputs"].keys()
    environment = {**os.environ, **{n: given[n.lower()] for n in step["env"]}}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert (repository / "optimized.onnx").exists() is not break_it
    if not break_it:
        assert {p.name for p in (repository / "onnx-passes-report").iterdir()} == {
            *("report.json", "report.html", "junit.xml")
        }


def test_the_hooks_run_as_pre_commit_runs_them(repository):
    hooks = {hook["id"]: hook for hook in read(ROOT / ".pre-commit-hooks.yaml")}
    (used,) = read(repository / ".pre-commit-config.yaml")["repos"]
    assert [hook["id"] for hook in used["hooks"]] == list(hooks)
    for hook in used["hooks"]:
        whole = hooks[hook["id"]]
        files = [] if whole.get("pass_filenames") is False else ["pipeline.yaml"]
        words = [*shlex.split(whole["entry"]), *hook.get("args", []), *files]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    (repository / "pipeline.yaml").write_text("passes: [elimnate]\n")
    entry = shlex.split(hooks["check-pipelines"]["entry"])
    done = subprocess.run([*entry, "pipeline.yaml"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "did you mean 'eliminate'" in done.stderr
