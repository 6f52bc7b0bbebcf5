import errno
import json
import zipfile

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.bench.runs import Found, Run, compare, open_results, save_results
from onnx_passes.bench.runs.results import Spool
from onnx_passes.errors import ReferenceDataError, UsageError
from tests.tables import each_of


@each_of("dtype", np.float32, np.bool_, ml_dtypes.bfloat16, np.complex64)
def test_what_does_not_fit_in_memory_comes_back_the_same(dtype):
    spool = Spool(0)
    value = np.arange(6).reshape(2, 3).astype(dtype)
    spool.put(0, {"a": value.T, "none": None, "text": np.array(["x"], object), "b": value[:0]})
    spool.put(1, {"a": value})
    assert spool._spill.files == 2
    assert spool.get(0, "a").tolist() == value.T.tolist()
    assert spool.get(1, "a").dtype == value.dtype
    assert spool.names(0) == ["a", "none", "text", "b"]
    assert spool.get(0, "b").shape == (0, 3)


def test_a_full_temporary_folder_is_one_sentence(monkeypatch):
    def full(path, array, allow_pickle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(UsageError, match="temporary folder: No space left"):
        Spool(0).put(0, {"a": np.ones(3)})


def test_a_small_value_does_not_keep_what_it_is_a_view_of():
    large = np.zeros(1 << 20)
    spool = Spool(1 << 10)
    spool.put(0, {"a": large[:1]})
    assert spool.get(0, "a").base is None


@pytest.fixture
def found():
    values = Spool(1 << 20)
    values.put(0, {"y": np.array([1.0, np.nan], np.float32)})
    return Found([Run("one", "m.onnx", "e", names=["y"], values=values)], samples=1)


def edited(path, change):
    """Write an archive anew, with its index changed."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    index = json.loads(files["index.json"])
    change(index)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files | {"index.json": json.dumps(index)}).items():
            archive.writestr(name, data)


@each_of("form", "r.zip", "r.json", "r.npz")
def test_each_form_gives_back_what_it_was_given(found, tmp_path, form):
    save_results(found, tmp_path / form)
    (run,) = open_results(tmp_path / form)
    assert run.values.get(0, "y").tobytes() == found.runs[0].values.get(0, "y").tobytes()
    assert run.state == "saved"


@each_of(
    "change, said",
    (lambda index: index.pop("values"), "holds no results"),
    (lambda index: index["values"].clear(), "holds no results"),
    (lambda index: index["onnx_passes"].update(schema=9), "is of schema 9, not 1"),
    (lambda index: index["onnx_passes"]["runs"][0].pop("names"), "is damaged"),
)
def test_a_damaged_index_is_told(found, tmp_path, change, said):
    save_results(found, tmp_path / "r.zip")
    edited(tmp_path / "r.zip", change)
    with pytest.raises(ReferenceDataError, match=said):
        open_results(tmp_path / "r.zip")


def test_a_value_of_another_size_is_told_when_it_is_read(found, tmp_path):
    save_results(found, tmp_path / "r.zip")
    edited(tmp_path / "r.zip", lambda index: index["values"][0][0]["y"].update(shape=[3]))
    with pytest.raises(ReferenceDataError, match="cannot be read at 'y'"):
        compare([], recorded=open_results(tmp_path / "r.zip") * 2)


def test_runs_of_one_name_stay_two(found, tmp_path):
    found.runs.append(found.runs[0])
    save_results(found, tmp_path / "r.json")
    again = compare([], recorded=open_results(tmp_path / "r.json"))
    assert [run.name for run in again.runs] == ["one", "one #2"]
    assert again.passed
