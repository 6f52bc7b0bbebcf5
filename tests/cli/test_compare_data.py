"""``compare --data`` as a user calls it."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("scipy", reason="scipy is not installed: pip install -e '.[dev]'")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = DIGITS / "model.onnx"
DATA = ("--data", f"image={DIGITS / 'images.npy'}", f"label={DIGITS / 'labels.npy'}")
FAST = (*DATA, "--batch", "50")
FUSED = ("--engine", "onnxruntime", "--engine", "onnxruntime{optimization=all}")


@pytest.fixture
def blind(tmp_path):
    """The digits model, which takes each 1 for a 0."""
    model = onnx.load(MODEL)
    (bias,) = [t for t in model.graph.initializer if t.name == "fc2.bias"]
    array = onnx.numpy_helper.to_array(bias).copy()
    array[1] = -100
    bias.CopyFrom(onnx.numpy_helper.from_array(array, "fc2.bias"))
    onnx.save(model, tmp_path / "blind.onnx")
    return tmp_path / "blind.onnx"


def test_two_engines_agree_over_all_samples(cli):
    done = cli("compare", MODEL, *FUSED, *FAST)
    assert done.code == 0, done.out
    assert done.out.startswith("PASSED  400 of 400 samples evaluated")
    assert "scores: 0 of 400 samples differ, max error" in done.out
    assert "at most 0.746% of such data, with 95 % confidence" in done.out


def test_accuracy_that_is_lost_is_found_with_its_samples(cli, blind, tmp_path):
    places = ("--save-worst", "worst", "--journal", "j")
    words = ("compare", MODEL, blind, *FAST, "--accuracy", "drop=1%,confidence=99%", *places)
    done = cli(*words)
    assert cli(*words, "--json=r.json").code == 1
    done.prints(1, "FAILED  400 of 400")
    result = json.loads((tmp_path / "r.json").read_text())
    verdict = result["pairs"][0]["verdict"]["accuracy"]
    labels = np.load(DIGITS / "labels.npy")
    assert verdict["lost"] == pytest.approx((labels == 1).sum(), abs=3)
    assert verdict["low"] > 0.01
    listed = json.loads((tmp_path / "worst" / "samples.json").read_text())
    row = int(re.search(r"\[(\d+)\]", listed[0]["sample"])[1])
    assert labels[row] == 1
    assert "were lost and" in done.out
    cli("compare", MODEL, blind, "--inputs", tmp_path / "worst" / "0.npz").tells(1)


def test_too_few_samples_end_with_4_and_say_how_many_are_needed(cli):
    done = cli("compare", MODEL, *FUSED, *FAST, "--accuracy", "drop=0.5%")
    assert done.code == 4
    assert re.search(r"not decided: about [\d,]+ samples would be needed", done.out)


def test_a_run_that_may_stop_says_how_many_samples_it_needed(cli, blind):
    accuracy = ("--accuracy", "drop=1%,early", "--shard", "20")
    done = cli("compare", MODEL, blind, *DATA, *accuracy)
    done.prints(1, "the rest was not needed to decide")


def test_one_model_is_measured_by_labels_and_metrics(cli):
    done = cli("compare", MODEL, *FAST, "--metric", "accuracy=0.9:1", "--shard", "40")
    done.prints(0, "accuracy 99.500%", "accuracy 0.995, range 0.9 to 1")
    assert cli("compare", MODEL, *FAST, "--metric", "accuracy=0.999:1").code == 1
    cli("compare", MODEL, *FAST).tells(2, "nothing to be compared with")


METRIC = """
class Mean:
    def __init__(self): self.total, self.count = 0, 0
    def update(self, produced, expected):
        self.total += int((produced[0].argmax(1) == expected[0]).sum())
        self.count += len(expected[0])
    def merge(self, other): self.total += other.total; self.count += other.count
    def finish(self): return self.total / self.count
    def to_json(self): return [self.total, self.count]
    def load(self, state): self.total, self.count = state
class Half:
    def update(self, produced, expected): pass
"""


def test_a_metric_of_the_user_adds_up(cli, write):
    write("mine_over_data.py", METRIC)
    words = ("compare", MODEL, *FAST, "--shard", "50", "--json", "--metric")
    done = cli(*words, "mine_over_data:Mean=0.9:")
    assert json.loads(done.out)["pairs"][0]["verdict"]["metrics"]["mine_over_data:Mean"][
        "value"
    ] == pytest.approx(0.995)
    cli(*words, "mine_over_data:Half=0:1").tells(2, "has no method 'merge'")


def test_a_damaged_file_makes_the_run_incomplete(cli, tmp_path):
    images, labels = (np.load(DIGITS / f"{name}.npy") for name in ("images", "labels"))
    for number in range(4):
        part = slice(100 * number, 100 * number + 100)
        np.savez(tmp_path / f"{number}.npz", image=images[part], label=labels[part])
    (tmp_path / "2.npz").write_bytes((tmp_path / "2.npz").read_bytes()[:5000])
    done = cli("compare", MODEL, *FUSED, "--data", "*.npz", "--batch", "20")
    done.prints(
        5,
        "INCOMPLETE  300 of 300 samples evaluated; files that cannot be read: 1",
        "left out: 2.npz: data '2.npz' cannot be read",
    )


def test_a_journal_is_gone_on_from(cli, tmp_path):
    words = ("compare", MODEL, *FUSED, *FAST, "--shard", "100", "--journal", "j")
    cli(*words, "--json=one.json")
    cli(*words, "--json=two.json")
    assert "all 4 shards are from the journal" in cli(*words).out
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_without_scipy_one_sentence_says_what_to_install(cli, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
    cli("compare", MODEL, *FUSED, *FAST).tells(2, "pip install '.[data]'")


def test_a_pipeline_finds_data_from_the_working_folder(cli, write, tmp_path):
    (tmp_path / "folder").mkdir()
    write("folder/p.yaml", "passes: [fold-constants]\n")
    np.save(tmp_path / "images.npy", np.load(DIGITS / "images.npy")[:40])
    words = ("-c", "folder/p.yaml", "--data", "images.npy", "--json", "r.json", "-o", "o.onnx")
    cli(*words, MODEL).tells(0)
    final = json.loads((tmp_path / "r.json").read_text())["final"]
    assert [check["kind"] for check in final].count("data set") == 2
