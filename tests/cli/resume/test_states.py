"""What is saved, where, and what is done about damage and full disks."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from onnx_passes.cli.run_command import cache_folder
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import ConfigError
from onnx_passes.pipeline import run as resume
from tests.cli.resume.pipelines import is_right, saved


def test_damaged_states_are_refused(folder, run):
    run(stop="wrong")
    shutil.copytree(folder / "cache", folder / "good")
    for path in saved(folder):
        data = path.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        for content in (data[:middle], flipped, b"", None):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            shutil.copytree(folder / "good", folder / "cache")
            path.unlink() if content is None else path.write_bytes(content)
            code, err = run("--resume")
            assert code == 0, err
            assert err.count("note: nothing is resumed: a saved state is not used: ") == 1
            assert is_right(folder)


@pytest.mark.parametrize("stop", ["", "wrong"])
def test_a_full_disk_does_not_change_how_a_run_ends(folder, run, monkeypatch, stop):
    def fail(*given, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(resume, "save_model", fail)
    monkeypatch.setattr(resume, "SHARE", 1e9)
    code, err = run(stop=stop)
    assert code == (1 if stop else 0)
    assert err.count("no state could be saved in ") == 1
    assert "No space left on device" in err
    assert saved(folder) == []


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("own-share: {value: object}", "passes have left objects that no file holds"),
        ("own-share: {value: meta}", "passes have left objects that no file holds"),
        (
            "rename-io: {outputs: {y: z}}",
            "a pass has changed the inputs or outputs of the model",
        ),
    ],
)
def test_what_no_file_holds_is_not_saved(folder, run, step, why):
    step = f"{{{step}}}" if ":" in step else step
    _, err = run(stop="raise", steps=f"eliminate-identity, {step}, own-stop")
    assert "--resume goes on after step 1 of 3" in err
    assert f"note: the state after step 2 is not saved: {why}" in err
    code, err = run("--resume")
    assert code == 0, err
    assert "resumed after step 1 of 3" in err


def test_a_change_kept_under_warn_is_not_saved(folder, run):
    _, err = run("-s", "on_failure=warn", stop="wrong")
    assert "--resume goes on after step 2 of 4" in err
    assert "step 4 is not saved: a failed check was passed over" in err


def test_only_the_newest_states_are_kept(folder, run):
    for number in range(resume.KEPT + 2):
        steps = ", ".join(["eliminate-identity"] * (number + 1))
        run(stop="wrong", steps=f"{steps}, own-stop")
    assert len(list((folder / "cache" / resume.FOLDER).iterdir())) == resume.KEPT


def test_resume_without_a_cache_is_an_error(folder, run):
    code, err = run("--resume", "-s", "cache=false")
    assert code == 2
    assert "the cache of states is switched off" in err


@pytest.mark.parametrize("value", ["3", "true", "[a]", "''"])
def test_a_cache_that_is_no_folder_is_an_error(value):
    with pytest.raises(ConfigError, match="a folder, or false"):
        default_config([f"cache={value}"], [])


def test_the_file_comes_before_the_environment_and_that_before_the_platform(monkeypatch):
    monkeypatch.setenv("ONNX_PASSES_CACHE", "/named")
    assert cache_folder(default_config(["cache=/given"], [])) == Path("/given")
    assert cache_folder(default_config(["cache=false"], [])) is None
    assert cache_folder(default_config([], [])) == Path("/named")
    monkeypatch.setenv("ONNX_PASSES_CACHE", "0")
    assert cache_folder(default_config([], [])) is None
    monkeypatch.delenv("ONNX_PASSES_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder(default_config([], [])) == Path("/xdg/onnx-passes")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: Path("/me"))
    assert cache_folder(default_config([], [])) == Path("/me/.cache/onnx-passes")
