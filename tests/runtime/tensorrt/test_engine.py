"""The engine in a child process, on a fake driver and bindings; nothing runs on a GPU here."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import ConfigError, EngineCrashedError, EngineError, EngineTimeoutError
from onnx_passes.runtime.engine_base import Level, examine
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.isolated import end_children
from onnx_passes.runtime.tensorrt.engine import find_cached
from onnx_passes.runtime.tensorrt.engine_options import read_options
from tests.runtime.tensorrt import fake_gpu

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '
NEGATED = f"{HEAD}(float[n,3] x) => (float[n,3] y) {{ [minus] y = Neg(x) }}"
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


@pytest.fixture
def rtx(monkeypatch, tmp_path):
    """Make engines whose child processes find a fake GPU."""
    if fake_gpu.plug_into_children(monkeypatch, tmp_path) is None:
        pytest.skip("there is no C compiler to make the fake driver with")
    end_children()
    yield lambda **options: engine_from_config("tensorrt-rtx", options)
    end_children()
    monkeypatch.undo()
    fake_gpu.forget()


def model(text=NEGATED, **metadata):
    made = ir.from_onnx_text(text)
    made.metadata_props.update(metadata)
    return made


@pytest.fixture
def saved(rtx, tmp_path):
    """Write an engine."""

    def save(**metadata):
        # Metadata does not go through a child process, which needs none of it.
        path = tmp_path / "a.engine"
        path.write_bytes(ir.to_proto(model(**metadata)).SerializeToString())
        return path

    return save


def test_numbers_come_back_through_a_child_process(rtx):
    with rtx().prepare(model()) as session:
        for turn in (1, 2):
            done = session.run({"x": turn * FEEDS["x"]})
            np.testing.assert_array_equal(done["y"], -turn * FEEDS["x"])
    found = examine(rtx(), model(), [FEEDS])
    assert found.level is Level.EXECUTED
    np.testing.assert_array_equal(found.outputs[0]["y"], -FEEDS["x"])


def test_an_engine_is_saved_loaded_and_run(rtx, tmp_path):
    path = tmp_path / "made.engine"
    with rtx(save=str(path)).prepare(model()):
        pass
    with rtx(load=str(path)).prepare(model()) as session:
        np.testing.assert_array_equal(session.run(FEEDS)["y"], -FEEDS["x"])


def test_a_crash_while_running_is_told_with_what_was_logged(rtx, saved):
    with (
        rtx(load=str(saved(refuse="crash"))).prepare(model()) as session,
        pytest.raises(EngineCrashedError) as failure,
    ):
        session.run(FEEDS)
    assert "crashed with SIGABRT while running" in failure.value.message
    assert "ERROR: the kernel is lost" in failure.value.message


def test_a_hang_while_running_is_ended(rtx, saved):
    path = str(saved(refuse="hang"))
    with (
        rtx(load=path, time_limit=3).prepare(model()) as session,
        pytest.raises(EngineTimeoutError, match="did not end within 3 s while running"),
    ):
        session.run(FEEDS)


def test_an_engine_that_cannot_be_read_is_told_with_the_reason(rtx, tmp_path):
    path = tmp_path / "a.engine"
    path.write_bytes(b"of another GPU")
    with (
        rtx(load=str(path)).prepare(model()) as session,
        pytest.raises(EngineError, match=r"the engine is for compute capability 7\.5"),
    ):
        session.run(FEEDS)
    with (
        pytest.raises(ConfigError, match="there is no file"),
        rtx(load=str(tmp_path / "none.engine")).prepare(model()),
    ):
        pass


def test_the_cache_knows_an_engine_by_all_that_makes_it(monkeypatch, tmp_path, gpu):
    def place(made, **options):
        read = read_options("tensorrt-rtx", {"cache": str(tmp_path), **options})
        return find_cached("tensorrt-rtx", read, made)

    one = place(model())
    assert one == place(model())
    assert one.parent == tmp_path
    assert one == place(model(), verbosity="info", require="built", timing_cache="t")
    weighted = (
        f"{HEAD}(float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add(x, w) }}"
    )
    others = [
        place(model(NEGATED.replace("Neg", "Abs"))),
        place(model(NEGATED.replace("x)", "z)").replace("Neg(x", "Neg(z"))),
        place(model(), tf32=True),
        place(model(), profiles={"x": [2, 3]}),
        place(model(weighted)),
        place(model(weighted.replace("{1, 2}", "{1, 3}"))),
    ]
    assert len({one, *others}) == len(others) + 1
    assert place(model(), config_hook="a:b") is None
    from onnx_passes.runtime.tensorrt import cuda, engine

    monkeypatch.setattr(engine, "installed_version", lambda package: "1.8")
    assert place(model()) != one
    monkeypatch.undo()
    monkeypatch.setattr(cuda, "DRIVER", "libcuda-of-nobody.so.1")
    fake_gpu.forget()
    assert place(model()) != one


def test_what_is_cached_is_not_built_again(monkeypatch, tmp_path, gpu):
    from onnx_passes.runtime.tensorrt import engine as module

    fake_gpu.compile_into_models(monkeypatch)
    real, built = module.build, []
    monkeypatch.setattr(module, "build", lambda *given: built.append(1) or real(*given))
    cached = {"cache": str(tmp_path / "engines"), "isolate": False}
    for turn in (1, 2):
        options = {**cached, "save": str(tmp_path / f"{turn}.engine")}
        with engine_from_config("tensorrt-rtx", options).prepare(model()) as session:
            np.testing.assert_array_equal(session.run(FEEDS)["y"], -FEEDS["x"])
    assert built == [1]
    assert (tmp_path / "1.engine").read_bytes() == (tmp_path / "2.engine").read_bytes()
    full = engine_from_config(
        "tensorrt-rtx", {"cache": str(tmp_path / "1.engine"), "isolate": False}
    )
    with pytest.raises(ConfigError, match=r"cache: .*1\.engine"):
        full.prepare(model()).__enter__()
