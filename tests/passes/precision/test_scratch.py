"""New weights of a model with weights in files do not stay in memory."""

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.model import save
from onnx_passes.model.copy import copy_model
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.cleanup.remove_unused_initializers import (
    RemoveUnusedInitializers as RemoveUnused,
)
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.folding.fold_constants import FoldConstants
from onnx_passes.passes.fusion.fuse_matmul_scale import FuseMatmulScale
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from onnx_passes.passes.precision.quantize_dynamic import QuantizeDynamic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import HEADER
from tests.tables import each_of, model_of, outputs_of

LAYERS, WIDTH = 12, 384
LARGEST = 4 * WIDTH * WIDTH
PASSES = [
    (ConvertFloat16, {}),
    (QuantizeWeights, {}),
    (QuantizeWeights, {"weights": "int4", "block": 64}),
    (QuantizeDynamic, {}),
]


@pytest.fixture
def deep(typed, tmp_path):
    """Return a model of 12 layers whose weights, 7 MB, are in a file, and its path."""
    steps = [f"v{i + 1} = MatMul(v{i}, w{i})" for i in range(LAYERS)]
    text = f"(float[b,{WIDTH}] v0) => (float[b,{WIDTH}] v{LAYERS}) {{ {' '.join(steps)} }}"
    # Weights are inputs of no graph: they are added to the file.
    names = ", ".join(f"float[{WIDTH},{WIDTH}] w{i}" for i in range(LAYERS))
    proto = ir.to_proto(typed(text.replace("v0)", f"v0, {names})")))
    random = np.random.default_rng(0)
    del proto.graph.input[1:]
    for i in range(LAYERS):
        array = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, f"w{i}"))
    path = tmp_path / "deep.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    return load_model(path).model


def places(model):
    tensors = [value.const_value for value in model.graph.initializers.values()]
    return {Path(t.path) for t in tensors if isinstance(t, ir.ExternalTensor)}


@each_of("cls, options", *PASSES)
def test_new_weights_take_no_memory(deep, cls, options):
    model = deep
    pass_ = cls(None, {}, **options)
    cls(None, {}, **options).call(copy_model(model))  # imports, and kernels that are asked for
    gc.collect()
    tracemalloc.start()
    try:
        assert pass_.call(model).modified
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < LARGEST
    assert peak < 6 * LARGEST  # scales and zero points of blocks are spread


@each_of("cls, options", *PASSES)
def test_they_are_saved_and_run(deep, cls, options, tmp_path, run, kept):
    feed = {"v0": np.random.default_rng(1).standard_normal((3, WIDTH)).astype(np.float32)}
    (old,) = outputs_of(OnnxRuntimeEngine(optimization="all"), deep, feed).values()
    cls(None, {}, **options).call(deep)
    save_model(deep, tmp_path / "out.onnx")
    for model in (deep, load_model(tmp_path / "out.onnx").model):
        (new,) = outputs_of(OnnxRuntimeEngine(optimization="all"), model, feed).values()
        assert kept(old, new) > 8


def drop(model):
    for value in model.graph.initializers.values():
        value.const_value = None
    gc.collect()


def test_the_file_goes_with_the_last_tensor(deep):
    ConvertFloat16().call(deep)
    (file,) = (path for path in places(deep) if path.name.startswith("weights-"))
    copy = copy_model(deep)
    drop(deep)
    assert file.exists()
    drop(copy)
    assert not file.exists()


def test_without_room_they_stay_in_memory(deep, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no room")

    monkeypatch.setattr(save.tempfile, "TemporaryDirectory", refuse)
    assert ConvertFloat16().call(deep).modified
    assert not any(path.name.startswith("weights-") for path in places(deep))


def scaled(tmp_path, folder):
    """Return a model of products with weights that are turned and scaled."""
    steps = [
        f"t{i} = Transpose(w{i}) m{i} = MatMul(v{i}, t{i}) v{i + 1} = Mul(m{i}, s)"
        for i in range(LAYERS)
    ]
    size = f"float[{WIDTH},{WIDTH}]"
    names = ", ".join(f"{size} w{i}" for i in range(LAYERS))
    text = f"""(float[b,{WIDTH}] v0, float s, {names}) => (float[b,{WIDTH}] v{LAYERS}) {{
        {" ".join(steps)} }}"""
    random = np.random.default_rng(0)
    arrays = {
        f"w{i}": random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
        for i in range(LAYERS)
    }
    proto = onnx.parser.parse_model(HEADER + text)
    del proto.graph.input[1:]
    for name, array in {"s": np.float32(0.75), **arrays}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    where = "external" if folder else "inline"
    save_model(model, tmp_path / f"{where}.onnx", external_data=where)
    return load_model(tmp_path / f"{where}.onnx").model


def held(model):
    """Return the large constants of a model, by name."""
    values = [*model.graph.initializers.values(), *(n.outputs[0] for n in model.graph)]
    found = {value.name: constant_of(value) for value in values}
    return {name: t for name, t in found.items() if t is not None and t.nbytes == LARGEST}


def test_folded_and_scaled_weights_go_to_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_passes.passes.folding._evaluate.AT_ONCE", 2 * LARGEST)
    first, second = scaled(tmp_path, folder=True), scaled(tmp_path, folder=False)
    for cls in (FoldConstants, FuseMatmulScale):
        for model in (first, second):
            assert cls().call(model).modified
        in_files, in_memory = held(first), held(second)
        assert in_files.keys() == in_memory.keys()
        assert len(in_files) >= LAYERS
        for name, tensor in in_files.items():
            assert isinstance(tensor, ir.ExternalTensor)
            assert not isinstance(in_memory[name], ir.ExternalTensor)
            assert tensor.tobytes() == in_memory[name].tobytes()


@each_of("most", 0, 1 << 30)
def test_new_constants_of_nodes_go_to_the_data_file_if_large(tmp_path, monkeypatch, most):
    monkeypatch.setattr(save, "IN_ATTRIBUTES", most)
    model = scaled(tmp_path, folder=True)
    for cls in (FoldConstants, FuseMatmulScale, RemoveUnused):
        cls().call(model)
    expected = {name: tensor.tobytes() for name, tensor in held(model).items()}
    save_model(model, tmp_path / "out.onnx")
    size = (tmp_path / "out.onnx").stat().st_size
    assert (size > LAYERS * LARGEST) == bool(most)
    found = held(load_model(tmp_path / "out.onnx").model)
    assert {name: tensor.tobytes() for name, tensor in found.items()} == expected


MEMORY = """
import os, sys, threading, time
import numpy as np
from onnx_passes.model.load import load_model
from onnx_passes.runtime.ort import OnnxRuntimeEngine

def anonymous():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))

model = load_model(sys.argv[1]).model
with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
    before, peak, ended = anonymous(), 0, threading.Event()

    def watch():
        global peak
        while not ended.is_set():
            peak = max(peak, anonymous())

    watching = threading.Thread(target=watch)
    watching.start()
    session.run({"v0": np.ones((1, 1536), np.float32)})
    ended.set()
    watching.join()
print((peak - before) * 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no smaps_rollup")
def test_an_engine_widens_weights_in_files_one_by_one(tmp_path):
    """ONNX Runtime widens halves in its own order all at once: 16 times 9 MB."""
    width, layers = 1536, 16
    steps = " ".join(
        f"c{i} = Cast<to = 1>(w{i}) v{i + 1} = MatMul(v{i}, c{i})" for i in range(layers)
    )
    half = np.full((width, width), 1 / width, np.float16)
    model = model_of(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[b, {width}] v0) => (float[b, {width}] v{layers}) {{ {steps} }}""",
        **{f"w{i}": half for i in range(layers)},
    )
    path = tmp_path / "halves.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights")
    command = [sys.executable, "-c", MEMORY, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 6 * 4 * width * width
