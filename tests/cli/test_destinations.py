"""Places that results and reports cannot go to: reported before the run; nothing is lost."""

import json
import os
import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper


@pytest.fixture
def never(write):
    """A pipeline whose pass leaves a mark if it runs."""
    write(
        "mark.py",
        """\
import pathlib
from onnx_passes import passes
@passes.register()
class Mark(passes.Analysis):
    def analyse(self, model):
        pathlib.Path("ran").touch()
""",
    )
    return write("cfg.yaml", "imports: [mark]\npasses: [mark]\n")


def untouched(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "folder"], "-o folder is a folder"),
        (["-o", "model.onnx/out.onnx"], "is not a folder"),
        (["-o", "/dev/null"], "-o /dev/null is a pipe or device"),
        (["-o", "cfg.yaml"], "-o cfg.yaml would write over the pipeline file"),
        (["-o", "./folder/../cfg.yaml"], "would write over the pipeline file"),
        (["--json", "model.onnx/r.json"], "is not a folder"),
        (["--json", "/dev/null"], "--json /dev/null is a pipe or device"),
        (["--html", "model.onnx"], "--html model.onnx would write over the model"),
        (["--junit", "link.onnx"], "--junit link.onnx would write over the model"),
        (["--json", "r", "--html", "./r"], "--html and --json name the same file"),
        (["--json", "-"], "--json prints nothing on -"),
        (["-o", "x.onnx", "--json", "x.onnx"], "--json and -o name the same file"),
    ],
)
def test_a_place_for_no_file_is_told_before_anything_runs(
    cli, model, never, tmp_path, words, message
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.onnx").symlink_to(model)
    before = untouched(tmp_path)
    done = cli("-c", never, *words, model)
    assert done.code == 2
    assert message in done.err
    assert "= help:" in done.err
    assert untouched(tmp_path) == before


def test_a_folder_that_may_not_be_written_to(cli, model, never, monkeypatch):
    allowed = os.access

    def access(path, mode, **options):  # root may write everywhere
        return not mode & os.W_OK and allowed(path, mode, **options)

    monkeypatch.setattr("os.access", access)
    done = cli("-c", never, "-o", "out.onnx", model)
    assert done.code == 2
    assert "may not be written to" in done.err
    assert not Path("ran").exists()


@pytest.fixture
def external(tmp_path):
    """A model whose weights lie in a file beside it."""
    weights = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [4]) for n in "xy")
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weights])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10
    )
    path = tmp_path / "big.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def test_the_models_own_data_is_not_written_over(cli, external):
    done = cli("-o", "w.bin", external, "topological-sort")
    assert done.code == 2
    assert "-o w.bin would write over its data file" in done.err


def test_a_model_whose_data_is_missing(cli, external):
    Path("w.bin").unlink()
    done = cli("-c", "cleanup", "-o", "out.onnx", external)
    assert done.code == 3
    assert "w.bin" in done.err
    assert "= help:" in done.err
    assert not Path("out.onnx").exists()


def test_a_model_whose_data_is_too_short(cli, external):
    Path("w.bin").write_bytes(b"\0" * 8)
    done = cli("-c", "cleanup", "-o", "out.onnx", external)
    assert done.code == 3
    assert "w.bin" in done.err


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "sub/../../secret"])
def test_a_model_whose_data_is_outside_of_its_folder(cli, external, tmp_path, location):
    (tmp_path.parent / "secret").write_bytes(b"\0" * 16)
    proto = onnx.load(external, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = location
    external.write_bytes(proto.SerializeToString())
    done = cli("-c", "cleanup", "-o", "out.onnx", external)
    assert done.code == 3
    assert "outside" in done.err
    assert not Path("out.onnx").exists()


def test_a_disk_that_fills_leaves_the_old_output_and_tells_the_report(cli, model):
    Path("out.onnx").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        done = cli("-c", "cleanup", "-o", "out.onnx", model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 3
    assert "cannot be written: File too large" in done.err
    assert Path("out.onnx").read_text() == "old"
    assert sorted(p.name for p in Path().iterdir()) == ["model.onnx", "out.onnx"]


def test_a_result_that_cannot_be_saved_is_a_failure_in_the_report_too(cli, model, monkeypatch):
    from onnx_passes.errors import ModelError

    def fails(*_, **__):
        raise ModelError("the model cannot be written: gone")

    monkeypatch.setattr("onnx_passes.model.save.save_model", fails)
    done = cli("-c", "cleanup", "-o", "out.onnx", "--json", "r.json", model)
    assert done.code == 3
    report = json.loads(Path("r.json").read_text())
    assert report["exit_code"] == 3
    assert report["output"] is None
    assert "gone" in report["error"]


def test_a_pass_that_changes_the_working_folder_does_not_move_the_output(
    cli, model, write, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    write(
        "mover.py",
        """\
import os
from onnx_passes import passes
@passes.register()
class Mover(passes.Analysis):
    def analyse(self, model):
        os.chdir("elsewhere")
""",
    )
    config = write("cfg.yaml", "imports: [mover]\npasses: [mover]\n")
    assert cli("-c", config, "-o", "out.onnx", "--json", "r.json", model).code == 0
    assert (tmp_path / "out.onnx").exists()
    assert (tmp_path / "r.json").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_input_may_be_written_over_only_by_a_verified_result(cli, model, write):
    write(
        "breaker.py",
        """\
import onnx_ir as ir
from onnx_passes import passes
@passes.verify.equality
@passes.register()
class Breaker(passes.Transformation):
    def call(self, model):
        model.graph.node(0).op_type = "Sub"
        return ir.passes.PassResult(model, True)
""",
    )
    before = model.read_bytes()
    config = write("cfg.yaml", "imports: [breaker]\npasses: [breaker]\n")
    assert cli("-c", config, "-o", model, model).code == 1
    assert model.read_bytes() == before
    assert cli("-c", "optimize", "-o", model, model).code == 0
    assert model.read_bytes() != before
