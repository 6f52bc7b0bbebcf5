"""Data sets that are broken or named wrongly: one clear sentence, and the right exit code."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.tables import each_of

pytest.importorskip("scipy", reason="scipy is not installed: pip install -e '.[dev]'")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = DIGITS / "model.onnx"
ENGINES = ("--engine", "onnxruntime", "--engine", "onnxruntime{optimization=all}")
SOURCES = f"""\
import numpy as np
X, Y = np.load({str(DIGITS / "images.npy")!r}), np.load({str(DIGITS / "labels.npy")!r})

class Samples:
    def __init__(self, count, at=-1, change=None):
        self.count, self.at, self.change = count, at, change

    def __len__(self):
        if self.count is None:
            raise RuntimeError("no length")
        return self.count

    def __getitem__(self, i):
        sample = dict(image=X[i], label=Y[i])
        return self.change(sample) if i == self.at else sample

def fail(sample): raise RuntimeError("later")
def forget(sample): raise MemoryError
def cut(sample): return sample | dict(image=sample["image"][:, :4])
def drop(sample): return dict(label=sample["label"])
def empty(): return Samples(0)
def unknown(): return Samples(None)
def later(): return Samples(100, 61, fail)
def large(): return Samples(100, 61, forget)
def ragged(): return Samples(100, 61, cut)
def partial(): return Samples(100, 61, drop)
def number(): return 3
def leave(): raise SystemExit(3)
def odd():
    yield 5
"""


@pytest.fixture
def hostile(cli, write, tmp_path):
    """Files and functions, each broken in one way."""
    images, labels = np.load(DIGITS / "images.npy")[:100], np.load(DIGITS / "labels.npy")[:100]
    columns = {
        "nan": labels.astype(np.float32) * np.where(np.arange(100) == 61, np.nan, 1),
        "deep": np.zeros((100, 3, 2), np.int64),
        "text": labels.astype(str),
        "short": labels[:60],
        "beyond": labels + 90,
    }
    for name, column in columns.items():
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "image.npy", images)
        np.save(tmp_path / name / "label.npy", column)
    halves = {"cast": {"image": images[50:].astype(np.float64)}, "lost": {"img": images[50:]}}
    for name, other in halves.items():
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "0.npz", image=images[:50], label=labels[:50])
        np.savez(tmp_path / name / "1.npz", label=labels[50:], **other)
    (tmp_path / "nothing").mkdir()
    name = f"hostile_{os.getpid()}"
    write(f"{name}.py", SOURCES)

    def call(source, *words, command="compare"):
        source = source.replace("at:", f"{name}:")
        shard = () if "--shard" in words else ("--shard", "20")
        return cli(command, MODEL, *words, "--data", source, *shard)

    return call


LEFT_OUT = [
    ("nan", "samples 60 to 79: labels must be class numbers"),
    ("deep", "labels of shape [20,3,2] do not fit class scores of shape [20,10]"),
    ("text", "labels must be class numbers, not string"),
    ("beyond", "is none of the 10 classes"),
    ("cast", "samples 60 to 79: input 'image' is given float64, and the model needs float32"),
    ("lost", "samples 60 to 79: there is no column 'image' (1.npz[10])"),
    ("at:later", "samples 60 to 79: data 'hostile"),
    ("at:large", "samples 60 to 79: the worker ran out of memory"),
    ("at:ragged", "samples 60 to 79: a sample of input 'image' has shape [1,4,8]"),
    ("at:partial", "holds samples with different columns"),
]
WRONG = [
    ("short", "no part of the data set can be read: data 'image.npy' holds arrays of"),
    ("at:empty", "the data set has no samples"),
    ("at:unknown", "raised RuntimeError: no length"),
    ("at:number", "gives int, which is not an iterable"),
    ("at:leave", "raised SystemExit: 3"),
    ("at:odd", "gives a sample of type int\n  = help: return or yield mappings"),
    ("at:absent", "has no function 'absent'"),
    ("nothing", "images are read from a .tar"),
    ("no*.npz", "there is no data 'no*.npz'"),
    ("[", "there is no data '['"),
    ("", "a source of the data set is empty"),
]


@each_of("source, message", *LEFT_OUT, ids=[s for s, _ in LEFT_OUT])
def test_what_cannot_be_evaluated_is_left_out_and_counted(hostile, source, message):
    found = hostile(source, *ENGINES)
    assert found.code == 5, found.err
    assert found.out.startswith("INCOMPLETE")
    assert message in found.out
    evaluated, left = _counts(found.out)
    assert evaluated + left == 100


def _counts(text):
    words = text.splitlines()[0].replace(",", "").split()
    evaluated = int(words[1])
    assert words[2:4] == ["of", "100"]
    return evaluated, int(words[words.index("could") - 1])


@each_of("source, message", *WRONG, ids=[s for s, _ in WRONG])
def test_what_is_named_wrongly_is_an_error_of_usage(hostile, source, message):
    hostile(source, *ENGINES).tells(2, message)


def test_columns_may_be_named_file_by_file(cli):
    for name in ("images", "labels"):
        for part in range(2):
            some = np.load(DIGITS / f"{name}.npy")[50 * part : 50 * part + 50]
            np.save(f"{name.rstrip('s')}-{part}.npy", some)
    report_files = sorted(path.name for path in Path().glob("*.npy"))
    found = cli("compare", "--data", *report_files, MODEL, *ENGINES)
    found.prints(0, "100 of 100 samples", "accuracy")


def test_findings_are_told_though_a_report_cannot_be_written(cli, monkeypatch):
    from onnx_passes.errors import UsageError
    from onnx_passes.report import report_files

    def full(text, path):
        raise UsageError(f"cannot write the report {path}: No space left on device")

    monkeypatch.setattr(report_files, "write_text", full)
    found = cli("compare", MODEL, *ENGINES, "--html", "a.html")
    found.prints(2, "agree")
    assert "No space left" in found.err
