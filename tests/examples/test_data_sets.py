"""The example of a whole data set, as its README runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_of

FOLDER = Path(__file__).parents[2] / "examples" / "data_sets"
for library in ("sklearn", "scipy", "distributed"):
    pytest.importorskip(
        library, reason=f"{library} is missing: see examples/data_sets/README.md"
    )


def run(*words, cwd=FOLDER):
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    words = [sys.executable, *map(str, words)]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)


def compare(model, *words):
    given = ("../digits/model.onnx", model, "--data", "digits_data:digits")
    return run("-m", "onnx_passes", "compare", *given, *words)


@each_of("bits, code, verdict", (6, 0, "PASSED"), (4, 4, "NOT VERIFIED"))
def test_the_verdict_is_that_of_the_readme(tmp_path, bits, code, verdict):
    run("round_weights.py", bits, tmp_path / "rounded.onnx")
    done = compare(tmp_path / "rounded.onnx", "--accuracy", "drop=1%")
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(verdict)
    if bits == 6:
        shown = (FOLDER / "README.md").read_text()
        for line in done.stdout.splitlines()[2:6]:
            assert line in shown


@pytest.mark.slow
def test_the_cluster_gives_the_same_bytes(tmp_path):
    run("round_weights.py", 6, tmp_path / "rounded.onnx")
    with subprocess.Popen(
        [sys.executable, "start_cluster.py", "0"],
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        text=True,
    ) as cluster:
        try:
            address = cluster.stdout.readline().split()[-1]
            words = ("--accuracy", "drop=1%", "--shard", "100")
            plain = compare(tmp_path / "rounded.onnx", *words, f"--json={tmp_path}/a.json")
            spread = compare(
                tmp_path / "rounded.onnx",
                *words,
                f"--json={tmp_path}/b.json",
                "--scheduler",
                address,
            )
            assert plain.returncode == spread.returncode == 0, spread.stderr
            assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
        finally:
            cluster.terminate()


def test_what_tune_chose_is_checked_on_all_images_as_the_readme_says(tmp_path):
    done = run(
        *("-m", "onnx_passes", "../digits/model.onnx", "-c", "tune.yaml"),
        *("-o", tmp_path / "small.onnx"),
    )
    assert done.returncode == 0, done.stderr
    shown = (FOLDER / "README.md").read_text()
    file, accuracy = (
        next(line for line in done.stderr.splitlines() if word in line)
        for word in ("  file ", "(optimisations off)")
    )
    assert file in shown
    assert accuracy in shown
