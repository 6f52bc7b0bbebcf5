"""``--resume`` from the command line, and where states are kept."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_passes.cli.cache import cache_folder
from onnx_passes.config.load import default_config
from onnx_passes.errors import ConfigError

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"
STOPS = """\
import os
import onnx_ir as ir
from onnx_passes import passes
@passes.verify.equality
@passes.register()
class Stops(passes.Transformation):
    def call(self, model):
        {what}
        return ir.passes.PassResult(model, False)
"""


def run(folder, *words, **env):
    command = [sys.executable, "-m", "onnx_passes", "-c", "p.yaml", "-o", "out.onnx", *words]
    return subprocess.run(
        [*command, str(DIGITS)],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | env,
    )


@pytest.fixture
def folder(tmp_path):
    steps = "shape-inference, fold-constants, eliminate-identity, stops, remove-unused"
    text = f"imports: [stops]\npasses: [{steps}]\ncache: states\n"
    (tmp_path / "p.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_state_and_says_so(folder, number):
    (folder / "stops.py").write_text(STOPS.format(what=f"os.kill(os.getpid(), {int(number)})"))
    ended = run(folder)
    assert ended.returncode == 128 + number
    assert "nothing was written; --resume goes on after pass 3 of 10" in ended.stderr
    (folder / "stops.py").write_text(STOPS.format(what="pass"))
    done = run(folder, "--resume")
    assert done.returncode == 0, done.stderr
    assert "note: resumed after pass 3 of 10" in done.stderr
    resumed = (folder / "out.onnx").read_bytes()
    assert run(folder).returncode == 0
    assert (folder / "out.onnx").read_bytes() == resumed
    assert [p for p in (folder / "states").rglob("*") if p.is_file()] == [
        folder / "states/lock"
    ]


def test_resume_without_a_cache_is_a_complaint(folder):
    (folder / "stops.py").write_text(STOPS.format(what="pass"))
    ended = run(folder, "--resume", "-s", "cache=false")
    assert ended.returncode == 2
    assert "the cache of states is switched off" in ended.stderr


@pytest.mark.parametrize("value", ["3", "true", "[a]", "''"])
def test_a_cache_that_is_no_folder_is_a_complaint(value):
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
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder(default_config([], [])) == Path("/xdg/onnx-passes")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: Path("/me"))
    assert cache_folder(default_config([], [])) == Path("/me/.cache/onnx-passes")
