import contextlib
import re

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnx_passes.errors import ReferenceDataError
from onnx_passes.verify.reference_data import check_feeds, load_reference
from tests.tables import each_of, each_row

TWO = "(float[N,3] x, int64[N] k) => (float[N,3] y, float[N] z)"
X, K = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2])


def model(signature=TWO):
    outputs = signature.split("=>")[1].split("<")[0].strip(" ()").split(",")
    names = [part.split()[-1] for part in outputs if not part.strip()[0].isdigit()]
    names = [name for name in names if name.isidentifier()]
    body = " ".join(f"{name} = Identity(x)" for name in names)
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 20]> main {signature} {{ {body} }}'
    )


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def save_pb(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(numpy_helper.from_array(array).SerializeToString())


def refusal(spec, folder, text=TWO):
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(spec, model(text), folder)
    return caught.value


@pytest.fixture
def folder(tmp_path):
    save(tmp_path, x=X, k=K)
    return tmp_path


@each_of("key", "inputs", "inp")
def test_a_mapping_of_names(folder, key):
    reference = load_reference({key: {"k": "k.npy", "x": "x.npy"}}, model(), folder)
    (sample,) = reference.samples
    np.testing.assert_array_equal(sample["x"], X)
    np.testing.assert_array_equal(sample["k"], K)
    assert reference.expected is None
    assert reference.source == "k.npy, x.npy"


def test_a_list_in_graph_order_with_labels(folder):
    save(folder, labels=np.array([0, 1]))
    reference = load_reference(
        {"inp": ["x.npy", "k.npy"], "out": ["labels.npy"]}, model(), folder
    )
    assert list(reference.samples[0]) == ["x", "k"]
    assert reference.expected is not None
    np.testing.assert_array_equal(reference.expected[0]["y"], [0, 1])
    assert list(reference.expected[0]) == ["y"]


def test_one_npz_holds_every_input(folder):
    np.savez(folder / "all.npz", k=K, x=X)
    np.savez(folder / "out.npz", z=K, y=X)
    reference = load_reference({"inputs": "all.npz", "outputs": "out.npz"}, model(), folder)
    assert set(reference.samples[0]) == {"x", "k"}
    assert reference.expected is not None
    assert list(reference.expected[0]) == ["y", "z"]
    assert reference.source == "all.npz"


def test_lists_under_a_name_are_samples(folder):
    save(folder, x2=X[:1] + 1, k2=K[:1])
    spec = {"inputs": {"x": ["x.npy", "x2.npy"], "k": ["k.npy", "k2.npy"]}}
    first, second = load_reference(spec, model(), folder).samples
    assert (first["x"].shape, second["x"].shape) == ((2, 3), (1, 3))
    spec["inputs"]["k"] = ["k.npy"]
    assert "different numbers of samples" in str(refusal(spec, folder))
    assert "x: 2, k: 1" in str(refusal(spec, folder))


def test_a_folder_of_test_data(folder):
    for index in (0, 2, 10):
        save_pb(folder / f"suite/test_data_set_{index}/input_0.pb", X + index)
        save_pb(folder / f"suite/test_data_set_{index}/input_1.pb", K)
        save_pb(folder / f"suite/test_data_set_{index}/output_0.pb", X)
        save_pb(folder / f"suite/test_data_set_{index}/output_1.pb", X[:, 0])
    many = load_reference({"inputs": "suite"}, model(), folder)
    assert [sample["x"][0, 0] for sample in many.samples] == [0, 2, 10]
    assert many.expected is not None
    assert [list(outputs) for outputs in many.expected] == [["y", "z"]] * 3
    one = load_reference({"inputs": "suite/test_data_set_2"}, model(), folder)
    assert len(one.samples) == 1


def test_a_gap_in_test_data(folder):
    save_pb(folder / "set/input_0.pb", X)
    save_pb(folder / "set/input_2.pb", K)
    assert "not numbered from 0 without gaps" in str(refusal({"inputs": "set"}, folder))


def test_an_empty_folder(folder):
    (folder / "set").mkdir()
    assert "no input_0.pb" in str(refusal({"inputs": "set"}, folder))


def test_sequences_and_optionals(tmp_path):
    text = "(seq(float[N]) s, optional(float[N]) o, float[1] x) => (float[1] y)"
    parts = [np.ones(2, np.float32), np.ones(3, np.float32)]
    (tmp_path / "s.pb").write_bytes(numpy_helper.from_list(parts).SerializeToString())
    (tmp_path / "o.pb").write_bytes(numpy_helper.from_optional(None).SerializeToString())
    save(tmp_path, x=np.ones(1, np.float32))
    spec = {"inputs": ["s.pb", "o.pb", "x.npy"]}
    (sample,) = load_reference(spec, model(text), tmp_path).samples
    assert [part.shape for part in sample["s"]] == [(2,), (3,)]
    assert sample["o"] is None


@each_of("name", "bfloat16", "float8_e4m3fn", "int4")
@each_of("suffix", "npy", "npz", "pb")
def test_types_that_numpy_does_not_name(tmp_path, name, suffix):
    array = np.array([0, 1, -1], getattr(ml_dtypes, name))
    onnx_name = name.replace("_", "")
    text = f"({onnx_name}[3] x) => ({onnx_name}[3] y)"
    path = tmp_path / f"x.{suffix}"
    if suffix == "npy":
        np.save(path, array)
    elif suffix == "npz":
        np.savez(path, x=array)
    else:
        save_pb(path, array)
    got = load_reference({"inputs": path.name}, model(text), tmp_path).samples[0]["x"]
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got.view(np.uint8), array.view(np.uint8))


def test_bytes_without_a_type_are_not_guessed(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3, ml_dtypes.bfloat16))
    error = refusal({"inputs": "x.npy"}, tmp_path, "(float[3] x) => (float[3] y)")
    assert "elements of 2 bytes without a type" in str(error)


@each_of("array", np.array(["a", "é"]), np.array([b"a", "é".encode()]))
def test_text(tmp_path, array):
    save(tmp_path, x=array)
    text = "(string[2] x) => (string[2] y)"
    got = load_reference({"inputs": "x.npy"}, model(text), tmp_path).samples[0]["x"]
    assert got.dtype == object
    assert got.tolist() == ["a", "é"]


def test_other_byte_order_is_the_same_type(folder):
    save(folder, x=X.astype(">f4"))
    got = load_reference({"inputs": ["x.npy", "k.npy"]}, model(), folder).samples[0]["x"]
    assert got.dtype == np.float32
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, X)


BOTH = {"inputs": {"x": "x.npy", "k": "k.npy"}}


@each_row("""arrays | complaint | fix
- ={'x': X.astype(np.float64)} | input 'x' is given float64, and the model needs float32 |
  array.astype(np.float32)
- ={'k': K.astype(np.int32)} | input 'k' is given int32, and the model needs int64 |
  array.astype(np.int64)
- ={'x': X[0]} | input 'x' is given shape [3], and the model needs [N,3] | it has 1 axes, and
  needs 2
- ={'x': X[:, :2]} | input 'x' is given shape [2,2], and the model needs [N,3] | axis 1 is 2,
  and must be 3
- ={'k': np.array([1, 2, 3])} | input 'k' is given shape [3], and the model needs [N] | axis 0
  is 3, and 'N' is 2 in input 'x'
- ={'x': np.array([[1, 2, 3], [4, np.nan, 6]], np.float32)} | input 'x' has a NaN in its
  reference data, at [1,1] | reference.allow_nan: true
""")
def test_says_what_does_not_fit_and_how_to_mend_it(folder, arrays, complaint, fix):
    save(folder, **arrays)
    error = refusal(BOTH, folder)
    assert complaint in error.message
    assert error.help is not None
    assert fix in error.help
    assert error.where == str(folder / f"{next(iter(arrays))}.npy")


def test_a_bfloat16_input_is_not_fed_float32(tmp_path):
    save(tmp_path, x=np.ones(3, np.float32))
    error = refusal({"inputs": "x.npy"}, tmp_path, "(bfloat16[3] x) => (bfloat16[3] y)")
    assert ".astype(ml_dtypes.bfloat16)" in str(error)


def test_nan_on_request(folder):
    save(folder, x=X * np.nan)
    reference = load_reference({**BOTH, "allow_nan": True}, model(), folder)
    assert np.isnan(reference.samples[0]["x"]).all()


@each_of(
    "spec, complaint",
    ({"inputs": {"x": "x.npy", "kk": "k.npy"}}, "no input 'kk'.*did you mean 'k'"),
    ({"inputs": {"x": "x.npy"}}, "no reference data for input 'k'"),
    ({"inputs": {"x": "y.npy", "k": "k.npy"}}, "'y.npy' does not exist.*did you mean"),
    ({"inputs": ["x.npy"]}, "1 files are given for 2 inputs"),
    ({"inputs": ["x.npy", "k.npy", "k.npy"]}, "3 files are given for 2 inputs"),
    ({"inputs": []}, "names no files"),
    ({"inputs": {}}, "names no files"),
    ({"inputs": 3}, "names no files: 3"),
    ({"inputs": {"x": 3}}, "of input 'x' is no path"),
    ({"outputs": ["x.npy"]}, "is given without reference.inputs"),
    ({**BOTH, "outputs": {"yy": "x.npy"}}, "no output 'yy'.*did you mean 'y'"),
    ({**BOTH, "outputs": ["x.npy"] * 3}, "3 files are given for 2 outputs"),
    ({**BOTH, "outputs": {"y": ["x.npy", "x.npy"]}}, "1 samples of inputs, and 2 of outputs"),
)
def test_says_what_is_wrong_with_the_files_named(folder, spec, complaint):
    flat = " ".join(str(refusal(spec, folder)).split())
    assert re.search(complaint, flat), flat


@each_of(
    "name, content, complaint",
    ("x.npy", b"", "cannot be read: No data left"),
    ("x.npy", b"\x93NUMPY\x01\x00", "cannot be read"),
    ("x.npy", b"hello", "pickled data is never loaded"),
    ("x.npz", b"PK\x03\x04rubbish", "cannot be read"),
    ("x.pb", b"\xff\xff\xff\xff", "cannot be read as a TensorProto"),
    ("x.pb", b"", "cannot be read as a TensorProto"),
    ("x.csv", b"1,2", "is of no known format"),
)
def test_a_broken_file_is_one_clear_error(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    error = refusal({"inputs": name}, tmp_path, "(float[N] x) => (float[N] y)")
    assert complaint in str(error)
    assert error.where == str(tmp_path / name)


@each_of("suffix", "npy", "npz")
def test_a_damaged_file_is_refused_or_read(tmp_path, suffix):
    path, x = tmp_path / f"x.{suffix}", np.arange(30, dtype=np.float32)
    (np.save if suffix == "npy" else np.savez_compressed)(path, x)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        # Damage that survives reading has changed a number, its type or its shape.
        with contextlib.suppress(ReferenceDataError):
            load_reference(
                {"inputs": path.name}, model("(float[N] x) => (float[N] y)"), tmp_path
            )


def test_python_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.array([{}], object))
    for name in ("x.npy", "x.npz"):
        error = refusal({"inputs": name}, tmp_path, "(string[N] x) => (string[N] y)")
        assert "pickled data is never loaded" in str(error)


def test_a_name_that_an_archive_does_not_hold(tmp_path):
    np.savez(tmp_path / "all.npz", X)
    error = refusal({"inputs": "all.npz"}, tmp_path)
    assert "no input 'arr_0'" in str(error)
    assert "np.savez(path, name=array)" in str(error)
    np.savez(tmp_path / "two.npz", a=X, b=X)
    error = refusal({"inputs": {"x": "two.npz"}}, tmp_path)
    assert "holds 2 arrays, none of them named 'x'" in str(error)


def test_inputs_with_an_initializer_may_be_left_out(folder):
    text = "(float[N,3] x, int64[2] k) => (float[N,3] y) <int64[2] k = {7, 8}>"
    left_out = load_reference({"inputs": ["x.npy"]}, model(text), folder)
    assert list(left_out.samples[0]) == ["x"]
    given = load_reference({"inputs": ["x.npy", "k.npy"]}, model(text), folder)
    assert list(given.samples[0]) == ["x", "k"]


def test_a_dimension_whose_name_is_empty_has_any_size():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[N, 4, M] x) => (y) { y = Relu(x) }'
    )
    model.graph.inputs[0].shape = ir.Shape([ir.SymbolicDim(""), 4, ir.SymbolicDim("")])
    check_feeds({"x": np.ones((2, 4, 3), np.float32)}, model, {})
