import base64
import io
import json

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.errors import ReferenceDataError
from onnx_passes.verify.saved import merge_samples, read_samples, write_samples
from tests.tables import each_of, each_row

# As Polygraphy 0.53.6 writes np.arange(3, dtype=np.float32).
ARRAY = {
    "array": "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBG"
    "YWxzZSwgJ3NoYXBlJzogKDMsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAACAPwAAAEA=",
    "polygraphy_class": "ndarray",
}


def results(array):
    lazy = {"values": array, "polygraphy_class": "LazyArray"}
    step = {"outputs": {"y": lazy}, "runtime": None, "runner_name": "ort"}
    step["polygraphy_class"] = "IterationResult"
    return {"lst": [["ort", [step]]], "polygraphy_class": "RunResults"}


@each_of("root", [{"y": ARRAY}], results(ARRAY), ids=["feeds", "results"])
def test_polygraphys_json_is_read(tmp_path, root):
    path = tmp_path / "d.json"
    path.write_text(json.dumps(root))
    (sample,) = read_samples(path)
    assert sample["y"].dtype == np.float32
    assert sample["y"].tolist() == [0, 1, 2]


def test_results_are_written_as_polygraphy_writes_them(tmp_path):
    path = tmp_path / "d.json"
    write_samples(path, [{"y": np.arange(3, dtype=np.float32)}], kind="results", runner="ort")
    assert json.loads(path.read_text()) == results(ARRAY)


@each_of("name", "d.npz", "d.json", "folder")
def test_values_survive_each_form(tmp_path, name):
    sample = {
        "file": np.array([[1.5, np.nan]], np.float16),
        "a/b": np.array(7, np.int64),
        "t": np.array(["é", ""], object),
    }
    write_samples(tmp_path / name, [sample])
    (back,) = read_samples(tmp_path / name)
    assert list(back) == list(sample)
    for key, array in sample.items():
        assert back[key].dtype == array.dtype
        np.testing.assert_array_equal(back[key], array)


def test_bfloat16_needs_onnx_test_data(tmp_path):
    sample = {"x": np.array([1, 2], ml_dtypes.bfloat16)}
    with pytest.raises(ReferenceDataError, match="have no bfloat16"):
        write_samples(tmp_path / "d.npz", [sample])
    write_samples(tmp_path / "d", [sample])
    assert read_samples(tmp_path / "d")[0]["x"].dtype == ml_dtypes.bfloat16


def test_what_is_in_place_stays_where_a_form_cannot_hold_the_data(tmp_path):
    path = tmp_path / "d.npz"
    write_samples(path, [{"x": np.ones(2)}])
    with pytest.raises(ReferenceDataError, match="hold 2 samples"):
        write_samples(path, [{"x": np.zeros(2)}] * 2)
    assert read_samples(path)[0]["x"].tolist() == [1, 1]


def test_merging_different_values_of_one_name_is_refused():
    with pytest.raises(ReferenceDataError, match="different values of 'x'"):
        merge_samples([[{"x": np.zeros(2)}], [{"x": np.ones(2)}]])


def test_pickled_arrays_are_not_loaded(tmp_path):
    np.save(tmp_path / "d.npy", np.array([{}], object))
    with pytest.raises(ReferenceDataError, match="pickled data is never loaded"):
        read_samples(tmp_path / "d.npy")


@each_row("""text | says
- { | no JSON
- [1] | neither feeds nor results
- {"x": 1} | no array as 'x'
- {"lst": [[1, 2]], "polygraphy_class": "RunResults"} | no complete RunResults
- [{"x": {"array": "%%", "polygraphy_class": "ndarray"}}] | cannot be read at 'x'
""")
def test_broken_json_is_told(tmp_path, text, says):
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(ReferenceDataError, match=says):
        read_samples(tmp_path / "d.json")


def test_a_pickle_in_json_is_refused_without_a_way_to_load_it(tmp_path):
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object))
    text = base64.b64encode(out.getvalue()).decode()
    path = tmp_path / "p.json"
    path.write_text(json.dumps([{"x": {"array": text, "polygraphy_class": "ndarray"}}]))
    with pytest.raises(ReferenceDataError, match="pickles are never loaded") as error:
        read_samples(path)
    assert "allow_pickle" not in str(error.value)
