"""The benchmark models, small: valid, dynamic, sane on ONNX Runtime, made from the seed."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from benchmarks import models
from tests.tables import each_of

SMALL_ENCODER = {"layers": 2, "hidden": 32, "heads": 4, "ffn": 64, "vocab": 50}
SMALL_DECODER = SMALL_ENCODER | {"kv_heads": 2}


def run(model: onnx.ModelProto | Path, **feeds: np.ndarray) -> list[np.ndarray]:
    source = model if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source).run(None, feeds)


def tokens(batch: int, sequence: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(0).integers(0, 50, (batch, sequence))
    return {"input_ids": ids, "attention_mask": np.ones((batch, sequence), np.int64)}


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@each_of("batch, sequence", (1, 1), (3, 7))
def test_transformer_runs_at_any_batch_and_length(batch, sequence):
    states, pooled = run(models.transformer(**SMALL_ENCODER), **tokens(batch, sequence))
    assert states.shape == (batch, sequence, 32)
    assert pooled.shape == (batch, 32)
    assert 0.5 < states.std() < 2


def test_transformer_is_decomposed_as_exporters_do():
    count = operators(models.transformer(**SMALL_ENCODER))
    assert count["ReduceMean"] == 2 * 5
    assert count["Erf"] == 2
    assert count["Dropout"] == 2
    assert not {"LayerNormalization", "Gelu", "Gemm"} & set(count)
    assert count["Shape"] >= 4
    assert count["Constant"] > 20


def test_transformer_does_not_attend_to_padding():
    model, feeds = models.transformer(**SMALL_ENCODER), tokens(1, 6)
    feeds["attention_mask"][:, 4:] = 0
    before = run(model, **feeds)[0][:, :4]
    feeds["input_ids"][:, 4:] = 7
    np.testing.assert_array_equal(run(model, **feeds)[0][:, :4], before)


@each_of("batch", 1, 3)
def test_vision_transformer_scores_any_batch(batch):
    model = models.vision_transformer(2, 32, 4, 64, image=16, patch=4, classes=5)
    image = np.random.default_rng(0).standard_normal((batch, 3, 16, 16), np.float32)
    (scores,) = run(model, image=image)
    assert scores.shape == (batch, 5)
    (alone,) = run(model, image=image[:1])
    np.testing.assert_allclose(scores[:1], alone, rtol=1e-4, atol=1e-5)
    assert 0.3 < scores.std() < 3


def test_decoder_sees_no_future():
    model, feeds = models.llama_decoder(**SMALL_DECODER), tokens(2, 6)
    before = run(model, **feeds)[0]
    assert before.shape == (2, 6, 50)
    feeds["input_ids"][:, 5] = (feeds["input_ids"][:, 5] + 1) % 50
    after = run(model, **feeds)[0]
    np.testing.assert_array_equal(after[:, :5], before[:, :5])
    assert np.abs(after[:, 5] - before[:, 5]).max() > 1e-3


def test_decoder_knows_positions():
    model, feeds = models.llama_decoder(**SMALL_DECODER), tokens(1, 4)
    feeds["input_ids"][:] = [3, 4, 3, 5]
    swapped = {**feeds, "input_ids": np.array([[4, 3, 3, 5]])}
    assert np.abs(run(model, **feeds)[0][:, 3] - run(model, **swapped)[0][:, 3]).max() > 1e-4


def test_resnet50_has_the_size_of_the_original():
    model = models.resnet50()
    weights = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    statistics = sum(
        int(np.prod(tensor.dims))
        for tensor in model.graph.initializer
        if "running" in tensor.name
    )
    assert weights - statistics == 25_557_032  # as published with torchvision's weights
    assert operators(model)["Conv"] == operators(model)["BatchNormalization"] == 53
    (scores,) = run(
        model, image=np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype("f")
    )
    assert scores.shape == (1, 1000)
    assert 0.1 < scores.std() < 20


@each_of("nodes", 1, 10, 37)
def test_chain_has_exactly_the_nodes_asked_for(nodes):
    model = models.chain(nodes)
    assert len(model.graph.node) == nodes
    (y,) = run(model, x=np.ones((2, 8), np.float32))
    assert np.isfinite(y).all()


@each_of(
    "build",
    lambda seed: models.transformer(**SMALL_ENCODER, seed=seed),
    lambda seed: models.llama_decoder(**SMALL_DECODER, seed=seed),
    lambda seed: models.chain(12, seed=seed),
)
def test_seed_decides_the_weights(build):
    assert build(1).SerializeToString(deterministic=True) == build(1).SerializeToString(
        deterministic=True
    )
    assert build(1) != build(2)
