"""``onnx-passes build``, and the pipeline ``tensorrt`` on the command line."""

import onnx.parser
import pytest

from onnx_passes.runtime.tensorrt.bindings import installed_version
from onnx_passes.runtime.tensorrt.cuda import gpu_count
from tests.tables import each_of

pytestmark = pytest.mark.usefixtures("children_end")
absent = pytest.mark.skipif(
    installed_version("tensorrt-rtx") is not None, reason="tensorrt-rtx is installed here"
)


@pytest.fixture
def rejected(tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 20]>
    main (float[2,2] a) => (int64[2,n] y) { [find] y = NonZero(a) }"""
    path = tmp_path / "rejected.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


@absent
def test_without_the_compiler_build_says_what_to_install(cli, model, tmp_path):
    done = cli("build", model, "-o", "a.engine")
    assert done.code == 3
    assert done.err.splitlines() == [
        "error[engine-unavailable]: tensorrt-rtx is not installed",
        "  = help: in a checkout: pip install '.[tensorrt-rtx]'",
    ]
    assert not (tmp_path / "a.engine").exists()


@absent
def test_without_the_compiler_the_pipeline_says_so_in_a_sentence(cli, model):
    done = cli("-c", "tensorrt", "-o", "out.onnx", model)
    assert done.code == 0
    told = "tensorrt-rtx is not installed (in a checkout: pip install '.[tensorrt-rtx]')"
    assert done.err.count(told) == 1
    required = ("-s", "engines.1.tensorrt-rtx.require=built")
    assert cli("-c", "tensorrt", *required, "-o", "out.onnx", model).code == 3
    assert cli("-c", "tensorrt", "-s", "strict=true", "-o", "out.onnx", model).code == 4


def test_tensorrt_itself_builds_on_a_gpu_only(cli, model):
    if installed_version("tensorrt") is not None and gpu_count():
        pytest.skip("tensorrt and a GPU are here")
    done = cli("build", model, "-o", "a.engine", "--engine", "tensorrt")
    assert done.code == 3
    assert "tensorrt is not installed" in done.err or "there is none" in done.err


@pytest.mark.tensorrt
def test_build_writes_an_engine_and_nothing_else(cli, model, tmp_path):
    done = cli(
        *("build", model, "-o", "a.engine", "--compute-capabilities", "8.0,12.0"),
        *("--profile", "a=1x2:4x2:8x2", "--profile", "b=1x2:4x2:8x2"),
        *("-e", "tensorrt-rtx{optimization_level=1,workspace=64MiB}"),
    )
    assert done.code == 0, done.err
    assert done.out.startswith("wrote a.engine, ")
    assert "built for compute capability 8.0, 12.0" in done.out
    assert "; not executed: " in done.out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.engine", "model.onnx"]


@pytest.mark.tensorrt
@each_of(
    "words, told",
    (("-e", "tensorrt-rtx{plugins=[nowhere.so]}"), "plugins: there is no file "),
    (("-e", "tensorrt-rtx{plugins=[model.onnx]}"), "model.onnx registers nothing: "),
)
def test_what_the_compiler_does_not_have_is_told(cli, model, words, told):
    profiles = ("--profile", "a=1x2", "--profile", "b=1x2")
    cli("build", model, "-o", "a.engine", *profiles, *words).tells(2, told)


@pytest.mark.tensorrt
def test_what_is_rejected_leaves_the_engine_of_before(cli, rejected, tmp_path):
    kept = tmp_path / "a.engine"
    kept.write_bytes(b"an earlier one")
    done = cli("build", rejected, "-o", kept)
    done.tells(3, "error[unsupported-model]: node 'find' (NonZero): ")
    assert kept.read_bytes() == b"an earlier one"


@pytest.mark.tensorrt
def test_the_pipeline_reports_built(cli, model):
    each = ("-s", "engines.1.tensorrt-rtx.when=each")
    done = cli("-v", "-c", "tensorrt", *each, "-o", "out.onnx", model)
    done.tells(0, "tensorrt-rtx[8.9] ")
    assert "built for compute capability 8.9" in done.err.replace("\n", " ").replace("  ", "")
