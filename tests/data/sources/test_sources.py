"""The same samples in each form of data are the same data."""

import io
import tarfile
from typing import NamedTuple

import numpy as np
import pytest
from onnx import numpy_helper
from PIL import Image

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.dataset import DataSet, make_plan
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.errors import ReferenceDataError
from onnx_passes.verify.saved import write_samples
from tests.tables import each_of

WHY = "pyarrow is missing: pip install -e '.[dev]'"
pa = pytest.importorskip("pyarrow", reason=WHY)
pq = pytest.importorskip("pyarrow.parquet", reason=WHY)

WIDTH = 8
INTERFACE = DataInterface({"x": ("N", WIDTH)}, {"x": "float32"}, (), ("scores",))
COUNT = 23


def as_npy(folder, x, y):
    np.save(folder / "x.npy", x)
    np.save(folder / "label.npy", y)


def as_npy_in_parts(folder, x, y):
    for number, part in enumerate(np.array_split(np.arange(len(x)), 3)):
        np.save(folder / f"x-{number}.npy", x[part])
        np.save(folder / f"label-{number}.npy", y[part])


def as_npz(folder, x, y):
    np.savez(folder / "a.npz", x=x[:10], label=y[:10])
    np.savez_compressed(folder / "b.npz", x=x[10:], label=y[10:])


def as_npz_of_one_sample(folder, x, y):
    for number, (a, b) in enumerate(zip(x, y, strict=True)):
        np.savez(folder / f"{number:03}.npz", x=a, label=b)


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def as_tar(folder, x, y):
    for shard, part in enumerate(np.array_split(np.arange(len(x)), 2)):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for row in part:
                content = io.BytesIO()
                np.save(content, x[row])
                add(archive, f"d/{row:04}.x.npy", content.getvalue())
                add(archive, f"d/{row:04}.cls", str(y[row]).encode())


def as_parquet(folder, x, y):
    for number, part in enumerate(np.array_split(np.arange(len(x)), 2)):
        table = pa.table({"x": list(x[part]), "label": y[part]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=5)


FORMS = {
    function.__name__: function
    for function in (
        *(as_npy, as_npy_in_parts, as_npz, as_npz_of_one_sample, as_tar, as_parquet),
    )
}


class Read(NamedTuple):
    feeds: dict
    rows: np.ndarray
    labels: np.ndarray | None


def read(spec):
    plan = make_plan(spec, INTERFACE)
    data = DataSet(plan)
    shards = [data.shard(number) for number in range(plan.shards)]
    batches = [
        Read(b.feeds[0], s.rows[b.start : b.stop], s.labels_of(b.start, b.stop))
        for s in shards
        for b in s.batches()
    ]
    return plan, data, batches


def drawn():
    rng = np.random.default_rng(0)
    return rng.normal(size=(COUNT, WIDTH)).astype(np.float32), rng.integers(0, 5, COUNT)


@each_of("form", *FORMS)
@each_of("shuffle", None, 1)
def test_each_form_gives_the_samples_in_their_order(tmp_path, form, shuffle):
    x, y = drawn()
    FORMS[form](tmp_path, x, y)
    plan, data, batches = read(DataSpec((str(tmp_path),), shuffle=shuffle, batch=4, shard=8))
    assert (plan.total, plan.broken, plan.binding.labels is not None) == (COUNT, (), True)
    rows = np.concatenate([batch.rows for batch in batches])
    assert np.array_equal(np.concatenate([b.feeds["x"] for b in batches]), x[rows])
    assert np.array_equal(np.concatenate([b.labels for b in batches]), y[rows])
    assert [len(b.rows) for b in batches] == [4, 4, 4, 4, 4, 3]
    assert np.array_equal(rows, np.arange(COUNT)) == (shuffle is None)
    assert sorted(rows) == list(range(COUNT))
    assert len({data.name(row) for row in range(COUNT)}) == COUNT
    assert np.array_equal(data.feeds(17)["x"], x[17:18])


def test_folders_of_test_data_are_feeds(tmp_path):
    x, _ = drawn()
    for number in range(11):
        folder = tmp_path / f"test_data_set_{number}"
        folder.mkdir()
        tensor = numpy_helper.from_array(x[2 * number : 2 * number + 2], "any")
        (folder / "input_0.pb").write_bytes(tensor.SerializeToString())
    plan, data, batches = read(DataSpec((str(tmp_path),)))
    assert plan.total == 11
    assert not plan.binding.stacked
    assert np.array_equal(batches[10].feeds["x"], x[20:22])
    assert data.name(10) == "test_data_set_10"


def test_json_of_polygraphy_is_feeds(tmp_path):
    x, _ = drawn()
    write_samples(tmp_path / "feeds.json", [{"x": x[:4]}, {"x": x[4:5]}])
    _, _, batches = read(DataSpec((str(tmp_path / "feeds.json"),)))
    assert [batch.feeds["x"].shape for batch in batches] == [(4, WIDTH), (1, WIDTH)]


MODULE = """
import numpy as np
X = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
def numbered():
    return [{"x": x, "label": np.int64(i % 5)} for i, x in enumerate(X)]
def stream():
    for i, x in enumerate(X):
        yield {"x": x, "label": np.int64(i % 5)}
def feeds():
    yield {"x": X[:3]}
    yield {"x": X[3:4]}
def fails():
    yield {"x": X[0]}
    raise RuntimeError("no more")
def double(sample):
    return {"x": sample["x"] * 2, "label": sample["label"]}
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    name = f"samples_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


@each_of("function", "numbered", "stream")
def test_a_function_gives_samples(module, function):
    spec = DataSpec((f"{module}:{function}",), batch=64, prepare=f"{module}:double")
    plan, _, batches = read(spec)
    expected = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
    assert plan.total == 600
    assert np.array_equal(np.concatenate([b.feeds["x"] for b in batches]), expected * 2)
    assert np.concatenate([b.labels for b in batches]).tolist() == [i % 5 for i in range(600)]


def test_images_of_tar_shards_are_pixels(tmp_path):
    pixels = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "png")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        add(archive, "0.png", content.getvalue())
    interface = DataInterface({"image": ("N", 5, 4, 3)}, {"image": "uint8"}, (), ("y",))
    plan = make_plan(DataSpec((str(tmp_path),)), interface)
    assert np.array_equal(next(DataSet(plan).shard(0).batches()).feeds[0]["image"][0], pixels)


@each_of("keep", 0.3, 0.98)
@each_of("form", *[form for form in FORMS if "one_sample" not in form])
def test_a_truncated_file_is_named_and_the_others_are_used(tmp_path, form, keep):
    x, y = drawn()
    good = tmp_path / "good"
    good.mkdir()
    FORMS[form](good, x, y)
    if form == "as_npy":
        as_npy_in_parts(good, x, y)  # so that others are left
    victim = max((p for p in good.iterdir() if p.suffix != ".json"), key=lambda p: p.name)
    data = victim.read_bytes()
    victim.write_bytes(data[: int(len(data) * keep)])
    plan = make_plan(DataSpec((str(good),), shard=4), INTERFACE)
    told = " ".join(part.name + part.reason for part in plan.broken)
    whole = 2 * COUNT if form == "as_npy" else COUNT
    if victim.name in told:
        assert plan.total < whole
        return
    if form == "as_tar":
        assert (keep, plan.total) == (0.98, whole)  # what is cut is padding
        return
    # What a look at the headers does not show is reported when the samples are read.
    with pytest.raises(
        ReferenceDataError, match=r"is damaged|cannot be read|is not a complete"
    ):
        read_all(plan)


def read_all(plan):
    for shard in range(plan.shards):
        list(DataSet(plan).shard(shard).batches())


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(ReferenceDataError, match="never loaded"):
        make_plan(DataSpec((str(tmp_path),)), INTERFACE)


def test_two_forms_in_a_folder_are_refused(tmp_path):
    x, y = drawn()
    as_npz(tmp_path, x, y)
    as_parquet(tmp_path, x, y)
    with pytest.raises(ReferenceDataError, match="several forms: npz, parquet"):
        make_plan(DataSpec((str(tmp_path),)), INTERFACE)


def test_data_that_is_not_there_is_told_with_what_is_near(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(ReferenceDataError, match="did you mean 'images'"):
        make_plan(DataSpec((str(tmp_path / "image"),)), INTERFACE)
