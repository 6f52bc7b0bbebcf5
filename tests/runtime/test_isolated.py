from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import errors
from onnx_passes.model.save import TensorFile
from onnx_passes.runtime import isolated
from onnx_passes.runtime.engines import engine_from_config, register_engine
from onnx_passes.runtime.isolated import child_of, end_children
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.corpus import backend_models as corpus
from tests.runtime.test_backend_models import RANDOM, same_bits
from tests.tables import each_of

NEG = "g (float[2] x) => (float[2] y) { y = Neg(x) }"
RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
X = np.float32([-1, 2])
MODULE = "tests.runtime.misbehaving_engine"
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module", autouse=True)
def _no_child_is_left():
    yield
    end_children()


def isolate(name="onnxruntime", modules=(), **options):
    return engine_from_config(
        name, {"isolate": True, **options}, modules=modules, folders=[ROOT]
    )


@pytest.fixture
def misbehaving():
    from onnx_passes.runtime import engines

    sys.modules.pop(MODULE, None)
    importlib.import_module(MODULE)

    def make(how, at="run", **options):
        return isolate("misbehaving", [MODULE], how=how, at=at, **options)

    yield make
    engines._FACTORIES.pop("misbehaving", None)


def test_it_runs_in_a_process_that_is_kept(parse, run):
    engine = isolate("reference")
    run(engine, parse(RELU), x=X)
    child = child_of(engine.home)
    run(engine, parse(NEG), x=X)
    assert child_of(engine.home) is child
    assert child._process.pid != os.getpid()


def test_weights_in_memory_are_written_once(parse, run):
    w = np.linspace(-1, 1, 4096, dtype=np.float32)
    text = "g (float[4096] x, float[4096] w) => (float[4096] y) { y = Add(x, w) }"
    model = parse(text, w=w)
    engine, zeros = isolate(), np.zeros(4096, np.float32)
    for other in (model, parse(text, w=w.copy())):
        assert run(engine, other, x=zeros)["y"].tobytes() == w.tobytes()
    store = isolated._store
    weights = {"w": model.graph.initializers["w"].const_value}
    first, again = store.in_files(weights), store.in_files(weights)
    assert first["w"] is again["w"]
    assert os.stat(first["w"].path).st_size == w.nbytes
    w[0] = 7  # it is not that tensor any more
    assert store.in_files(weights)["w"] is not first["w"]
    assert run(engine, model, x=zeros)["y"][0] == 7


def test_a_new_process_gets_all_files_of_weights(parse, run):
    names = ("a", "b", "c")
    arrays = {n: np.full(777, 1.5 + i, np.float32) for i, n in enumerate(names)}
    tensors = {name: ir.tensor(array, name=name) for name, array in arrays.items()}
    engine, x = isolate(), np.zeros(777, np.float32)
    for count in (1, 2, 3):  # each with a weight more, which goes into a file of its own
        some = names[:count]
        inputs = "".join(f", float[777] {name}" for name in some)
        text = (
            f"g (float[777] x{inputs}) => (float[777] y) {{ y = Sum(x, {', '.join(some)}) }}"
        )
        model = parse(text, **{name: tensors[name] for name in some})
        run(engine, model, x=x)
    assert len({weight.path for weight in isolated._store.in_files(tensors).values()}) == 3
    end_children()
    assert run(engine, model, x=x)["y"].tolist() == [7.5] * 777


def test_threads_do_not_get_each_others_values(parse):
    model = parse("g (float[N] x) => (float[N] y) { y = Identity(x) }")

    def go(number):
        with isolate().prepare(model) as session:
            fed = [np.full(1000 + turn, number, np.float32) for turn in range(20)]
            return all(same_bits(session.run({"x": x})["y"], x) for x in fed)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(go, range(4)))


def test_weights_that_nobody_has_are_gone(parse, run):
    text = "g (float[999] x, float[999] w) => (float[999] y) { y = Add(x, w) }"
    model = parse(text, w=np.full(999, 3, np.float32))
    run(isolate(), model, x=np.zeros(999, np.float32))
    weights = {"w": model.graph.initializers["w"].const_value}
    path = isolated._store.in_files(weights)["w"].path
    assert os.path.exists(path)
    del model, weights
    gc.collect()  # models hold themselves
    assert not os.path.exists(path)


def test_weights_in_files_are_read_from_there(parse, run, tmp_path):
    w = np.arange(4096, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(b"?" * 128 + w.tobytes())
    tensor = ir.ExternalTensor(
        "w.bin", 128, w.nbytes, ir.DataType.FLOAT, shape=ir.Shape([4096]), name="w",
        base_dir=str(tmp_path),
    )  # fmt: skip
    model = parse(
        "g (float[4096] x, float[4096] w) => (float[4096] y) { y = Add(x, w) }", w=tensor
    )
    assert isolated._store.in_files({"w": tensor}) == {"w": tensor}
    found = run(isolate(), model, x=np.zeros(4096, np.float32))["y"]
    np.testing.assert_array_equal(found, w)


def test_weights_beyond_4_gib_of_a_file(parse, run, tmp_path):
    text = "g (float[4096] x, float[4096] w) => (float[4096] y) { y = Add(x, w) }"
    w, zeros = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    offset = 5 << 30  # the files have holes, and take no room
    with (tmp_path / "w.bin").open("wb") as file:
        file.seek(offset)
        file.write(w.tobytes())
    tensor = ir.ExternalTensor(
        "w.bin", offset, w.nbytes, ir.DataType.FLOAT, shape=ir.Shape([4096]), name="w",
        base_dir=str(tmp_path),
    )  # fmt: skip
    assert run(isolate(), parse(text, w=tensor), x=zeros)["y"].tobytes() == w.tobytes()
    file = TensorFile()
    file._end = offset
    written = file.append(ir.tensor(w))
    place = written.offset, written.length, os.stat(written.path).st_size
    assert place == (offset, w.nbytes, offset + w.nbytes)


@each_of(
    "type_, values",
    ("float16", np.float16([1, -0.0])),
    ("bfloat16", np.array([1, np.nan], ml_dtypes.bfloat16)),
    ("float8e4m3fn", np.array([1, -2], ml_dtypes.float8_e4m3fn)),
    ("int4", np.array([-8, 7], ml_dtypes.int4)),
    ("bool", np.array([True, False])),
    ("string", np.array(["Ω", ""], object)),
    ("string", np.array(["Ω", "ab"])),
    ("uint64", np.uint64([0, 2**64 - 1])),
)
def test_every_element_type_goes_both_ways(parse, run, type_, values):
    model = parse(f"g ({type_}[2] x) => ({type_}[2] y) {{ y = Identity(x) }}")
    # ONNX Runtime has no Identity of 4 bits.
    name = "reference" if type_ == "int4" else "onnxruntime"
    here = run(engine_from_config(name), model, x=values)
    there = run(isolate(name), model, x=values)
    assert here["y"].dtype == there["y"].dtype
    assert same_bits(here["y"], there["y"])


def test_errors_of_the_engine_stay_what_they_are(parse):
    unsupported = parse("g (float[2] x) => (float[2] y) { y = my.Nothing(x) }")
    with pytest.raises(errors.UnsupportedModelError, match="Nothing"):
        isolate().prepare(unsupported).__enter__()
    with (
        isolate().prepare(parse(RELU)) as session,
        pytest.raises(errors.EngineError, match="'x' is not fed"),
    ):
        session.run({})


@each_of("at", "prepare", "run")
def test_a_segmentation_fault_is_an_error_with_what_was_printed(parse, run, misbehaving, at):
    engine = misbehaving("segfault", at)
    while_ = "running" if at == "run" else "preparing the model"
    with pytest.raises(
        errors.EngineCrashedError,
        match=f"^misbehaving crashed with SIGSEGV while {while_}; its last output: about to",
    ):
        run(engine, parse(NEG), x=X)
    np.testing.assert_array_equal(run(engine, parse(RELU), x=X)["y"], np.float32([0, 2]))


def test_a_session_outlives_its_process(parse, misbehaving):
    engine = misbehaving("segfault")
    with engine.prepare(parse(RELU)) as session:
        first = session.run({"x": X})["y"]
        with pytest.raises(errors.EngineCrashedError), engine.prepare(parse(NEG)) as other:
            other.run({"x": X})
        assert same_bits(session.run({"x": X})["y"], first)


@each_of("how", "hang", "hang-with-lock")
def test_a_hang_ends_at_the_time_limit(parse, run, misbehaving, how):
    engine = misbehaving(how, time_limit=1)
    with pytest.raises(
        errors.EngineTimeoutError, match=r"^misbehaving did not end within 1 s while running"
    ):
        run(engine, parse(NEG), x=X)
    np.testing.assert_array_equal(run(engine, parse(RELU), x=X)["y"], np.float32([0, 2]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory of its own")
@each_of("how", "allocate", "allocate-in-c++")
def test_an_engine_that_allocates_without_end(parse, run, misbehaving, how):
    engine = misbehaving(how, memory_limit=600 << 20)
    with pytest.raises(
        errors.EngineMemoryError,
        match=r"^misbehaving ran out of its 600 MiB of memory while running",
    ):
        run(engine, parse(NEG), x=X)
    np.testing.assert_array_equal(run(engine, parse(RELU), x=X)["y"], np.float32([0, 2]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory of its own")
def test_onnx_runtime_out_of_memory_is_told_as_that(parse, run):
    text = "g (int64[1] n) => (float[K] y) { y = ConstantOfShape(n) }"
    engine = isolate(memory_limit=600 << 20, memory_arena=False)
    assert run(engine, parse(text), n=[5])["y"].shape == (5,)
    with pytest.raises(errors.EngineMemoryError, match=r"ran out of its 600 MiB of memory"):
        run(engine, parse(text), n=[1 << 29])


@each_of("how", "exit", "exit-in-c")
def test_an_engine_that_ends_its_process(parse, run, misbehaving, how):
    with pytest.raises(
        errors.EngineCrashedError, match="ended with exit code 3 while running"
    ):
        run(misbehaving(how), parse(NEG), x=X)


def test_an_engine_reads_nothing_and_prints_nothing(parse, run, misbehaving, capfd):
    run(misbehaving("read"), parse(NEG), x=X)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_ends_the_child(parse, misbehaving):
    engine = misbehaving("hang", time_limit=60)
    with engine.prepare(parse(NEG)) as session:
        child = child_of(engine.home)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            session.run({"x": X})
    assert child._process.returncode == -signal.SIGKILL


@each_of("how", "hang", "hang-with-lock", "none")
def test_no_child_survives_a_killed_parent(how, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(f"""
import os, sys, threading, time
sys.path.insert(0, {ROOT!r})
import {MODULE}, numpy as np, onnx_ir as ir
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.isolated import child_of
options = {{"isolate": True, "how": {how!r}}}
engine = engine_from_config("misbehaving", options, folders=[{ROOT!r}])
model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]> {NEG}')
with engine.prepare(model) as session:
    print(child_of(engine.home)._process.pid, flush=True)
    session.run({{"x": np.float32([-1, 2])}})
    time.sleep(60)
""")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        assert _runs(pid)
        parent.kill()
    for _ in range(100):
        if not _runs(pid):
            return
        time.sleep(0.1)
    raise AssertionError(f"{pid} is still there")


def _runs(pid) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def test_an_engine_may_ask_for_a_process_of_its_own(monkeypatch):
    from onnx_passes.runtime import engines

    monkeypatch.setattr(engines, "_FACTORIES", dict(engines._FACTORIES))
    monkeypatch.setattr(engines, "_ISOLATED", set())
    register_engine("fragile", isolate=True)(lambda options: OnnxRuntimeEngine())
    assert isinstance(engine_from_config("fragile"), isolated.IsolatedEngine)
    assert engine_from_config("fragile", {"isolate": False}) == OnnxRuntimeEngine()
    assert engine_from_config("fragile").home.modules == (__name__,)


@each_of(
    "options, message",
    ({"isolate": 1}, "isolate must be true or false, not 1"),
    ({"time_limit": 5}, "needs a child process.*\n.*isolate: true"),
    ({"isolate": False, "memory_limit": 1 << 30}, "memory_limit needs a child process"),
    ({"isolate": True, "time_limit": 0}, "time_limit must be seconds over 0, not 0"),
    ({"isolate": True, "time_limit": True}, "time_limit must be seconds"),
    ({"isolate": True, "time_limit": "5"}, "time_limit must be seconds"),
    ({"isolate": True, "memory_limit": 1000}, "memory_limit must be at least 512 MiB"),
    ({"isolate": True, "threads": "1"}, "threads must be int"),
)
def test_mistakes_in_the_options(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        engine_from_config("onnxruntime", options)


def _same_in_both(ids, random=RANDOM):
    here, there = OnnxRuntimeEngine(), isolate()
    compared, different = 0, []
    for entry in map(corpus.load, ids):
        entry.model.ir_version = min(entry.model.ir_version, 13)
        model = ir.from_proto(entry.model)
        if {node.op_type for node in model.graph.all_nodes()} & random or not entry.samples:
            continue
        results = []
        for engine in (here, there):
            try:
                with engine.prepare(model) as session:
                    results.append(list(session.run(entry.samples[0][0]).values()))
            except errors.EngineError as error:
                results.append((type(error), str(error)))
        compared += isinstance(results[0], list)
        same = (
            results[0] == results[1]
            if isinstance(results[0], tuple)
            else same_bits(results[0], results[1])
        )
        if not same:
            different.append((entry.id, *(r for r in results if isinstance(r, tuple))))
    return compared, different


def test_a_sample_of_the_backend_models_gives_the_same_bits():
    compared, different = _same_in_both(corpus.ids("node")[::240])
    assert not different
    assert compared > 4


@pytest.mark.slow
def test_light_models_give_the_same_bits():
    compared, different = _same_in_both(corpus.ids("real"), RANDOM - {"Dropout"})
    assert not different
    assert compared == len(corpus.ids("real"))
