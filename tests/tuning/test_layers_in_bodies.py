"""Layers in the bodies of If and Loop are groups of their own."""

import contextlib
import json

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.cli.main import main
from onnx_passes.model.walk import weight_bytes
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.format_scores import Scorer, record
from onnx_passes.tuning.groups import (
    BUILTIN,
    Observed,
    audit,
    convert,
    partition,
    prepare,
    read_by_layers,
)
from tests.passes.precision.bodies import cascade, writer

TEXT = "usage: python [option] ... [-c cmd | -m mod | file | -] [arg] ...\n" * 3
TOKENS = np.array(
    [[max(0, min(95, ord(c) - 32)) for c in TEXT[i : i + 64]] for i in range(0, 64, 8)],
    np.int64,
)


def scored(model, feed, formats, objective="size"):
    """Return the groups of a model, the scores by group and format, and what was recorded."""
    model = prepare(model)
    groups = partition(model, formats, {}, 99)
    items = {name: BUILTIN[name] for name in ("float32", *formats)}
    engine = OnnxRuntimeEngine(optimization="all")
    scorer = Scorer(model, groups, items, engine, objective, [feed])
    found = {(s.group, s.format): s for group in groups for s in scorer.score(group)}
    return model, groups, found, scorer


def test_each_layer_of_a_loop_is_a_group_with_a_score_of_its_own():
    formats = ["float16", "int8-static", "int4-gptq"]
    model, groups, found, _ = scored(writer(), {"tokens": TOKENS}, formats)
    assert len(groups) == 13
    assert not any(score.refused for score in found.values())
    noise = {group: found[group.name, "int4-gptq"].snr for group in groups}
    assert len({round(value, 3) for value in noise.values()}) > 8
    for group in groups:
        half, small = (found[group.name, item] for item in ("float16", "int4-gptq"))
        assert half.snr > small.snr
    for group in groups[1:]:  # the first has an embedding, which only float16 makes smaller
        assert found[group.name, "float16"].cost > found[group.name, "int4-gptq"].cost
    # What the loop needs is counted once.
    saved = -sum(found[group.name, "float16"].cost for group in groups)
    assert saved == pytest.approx(weight_bytes(model) / 2, rel=0.1)


def test_layers_of_a_branch_that_is_not_taken_stay_in_float32(images):
    feed = {"small/image": images[:20]}
    _, groups, found, _ = scored(cascade(limit=-1e6), feed, ["int4-weights"])
    refused = {g.name: found[g.name, "int4-weights"].refused for g in groups}
    assert refused["small/layer1"] == ""
    inner = [why for name, why in refused.items() if name.startswith("large/")]
    assert len(inner) == 20
    assert set(inner) == {"its body does not run on the data"}


def prepared(images):
    model = prepare(cascade())
    groups = partition(model, ["int8-static"], {}, 99)
    feed = {"small/image": images[:50]}
    found = record(model, OnnxRuntimeEngine(), [feed], read_by_layers(model))
    known = Observed(found.ranges, found.rows)
    nodes = [name for group in groups for name in group.nodes]
    saved = convert(model, {"int8-static": nodes}, BUILTIN, known)
    names = {group.name: "int8-static" for group in groups}
    return saved, (model, groups, names, BUILTIN)


def test_a_layer_in_a_body_that_reads_values_in_float32_is_named(images):
    saved, asked = prepared(images)
    assert audit(saved, *asked) == []
    body = next(g for g in saved.graphs() if any(n.name == "large/head.product" for n in g))
    layer = next(node for node in body if node.name == "large/head.product")
    layer.replace_input_with(0, layer.inputs[0].producer().inputs[0].producer().inputs[0])
    assert [finding.node for finding in audit(saved, *asked)] == ["large/head.product"]


def test_biases_in_bodies_are_corrected_in_the_whole_model_as_in_the_region(images):
    model = prepare(cascade())
    groups = partition(
        model, ["int8-static-corrected"], {"all": ({"nodes": ["large/*"]}, [])}, 9
    )
    feed = {"small/image": images[:50]}
    found = record(model, OnnxRuntimeEngine(), [feed], read_by_layers(model))
    known = Observed(found.ranges, found.rows)
    saved = convert(model, {"int8-static-corrected": groups[0].nodes}, BUILTIN, known)
    assert any("corrected" in name or "shift" in name for name in saved.graph.initializers)


def run_command(folder, *words):
    with contextlib.chdir(folder), pytest.raises(SystemExit) as end:
        main(["tune", *map(str, words)])
    return end.value.code or 0


@pytest.fixture
def folder(tmp_path):
    ir.save(writer(), tmp_path / "writer.onnx")
    np.save(tmp_path / "tokens.npy", TOKENS)
    (tmp_path / "tune.yaml").write_text(
        "reference: {inputs: {tokens: tokens.npy}}\n"
        "verify: {metrics: {snr: [15, .inf]}}\n"
        "tune: {formats: [int8-weights, float16], objective: size}\n"
    )
    return tmp_path


def test_the_command_line_tunes_a_loop(folder):
    options = ("writer.onnx", "-c", "tune.yaml")
    assert run_command(folder, *options, "-o", "out.onnx", "--json", "found.json") == 0
    data = json.loads((folder / "found.json").read_text())
    assert data["cost"]["chosen"] < 0.6 * data["cost"]["original"]
    chosen = {group["group"]: group["format"] for group in data["groups"]}
    assert "net/block0.up.product" in chosen
    session = OnnxRuntimeEngine().prepare(ir.load(folder / "out.onnx"))
    with session as running:
        assert set(running.run({"tokens": TOKENS})) == {"written", "scores"}


def test_the_name_of_a_loop_means_what_is_in_it(images):
    model = prepare(writer())
    words = {"decoder": ({"nodes": ["write"], "skip_operators": ["Gather"]}, [])}
    (group,) = partition(model, ["float16"], words, 9)
    assert "net/head.product" in group.nodes
    inner = [n for n in model.graph.all_nodes() if n.graph is not model.graph]
    gathers = {n.name for n in inner if n.op_type == "Gather"}
    assert gathers
    assert not gathers & set(group.nodes)
