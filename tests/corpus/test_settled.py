"""Presets come to rest, give the same bytes in every process, in any order of their passes."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.config.load import shipped_configs
from tests.corpus.backend_models import ids, load, shard
from tests.corpus.settled import quiet, restless, result_of, shuffled

ROOT = Path(__file__).parents[2]
SAMPLE = (*ids()[::60], *ids("real")[:1])
"""A sample that CI has time for; all models are for the nightly run."""

SHARDS = 24
SEEDS = (1, 2)
REORDERED = ("simplify", "optimize", "optimize-ort", "tensorrt")


@pytest.fixture(autouse=True)
def quiet_loggers():
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)


def faults_of_rest(preset, models):
    config = quiet(preset)
    return [fault for name in models if (fault := restless(name, config))]


def faults_of_order(preset, models):
    plain, orders = quiet(preset), [shuffled(preset, seed) for seed in SEEDS]
    faults = []
    for name in models:
        model = ir.from_proto(load(name).model)
        _, wanted, _ = result_of(model, plain)
        for seed, order in zip(SEEDS, orders, strict=True):
            if result_of(model, order)[1] != wanted:
                faults.append(f"{name}: the order of seed {seed} gives another model")
    return faults


@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", shipped_configs())
def test_a_second_run_changes_nothing(preset):
    assert not faults_of_rest(preset, SAMPLE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", REORDERED)
def test_the_order_of_the_passes_does_not_matter(preset):
    assert not faults_of_order(preset, SAMPLE[::2])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(SHARDS))
@pytest.mark.parametrize("preset", shipped_configs())
def test_a_second_run_changes_nothing_in_any_model(preset, number):
    assert not faults_of_rest(preset, shard(number, SHARDS))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(SHARDS))
@pytest.mark.parametrize("preset", REORDERED)
def test_the_order_does_not_matter_for_any_model(preset, number):
    assert not faults_of_order(preset, shard(number, SHARDS))


DIGEST = """
import logging, sys
from tests.corpus.backend_models import ids
from tests.corpus.settled import digest_of, quiet
logging.getLogger("onnx_ir").setLevel(logging.ERROR)
print(digest_of(ids()[:: int(sys.argv[2])], quiet(sys.argv[1])))
"""


def digests(preset, every):
    """Return what processes of different hash seeds make of the same models, and this one."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DIGEST, preset, str(every)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "4242")
    ]
    return [process.communicate()[0].strip() for process in processes]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", shipped_configs())
def test_processes_give_the_same_bytes(preset):
    first, second = digests(preset, 120)
    assert first == second
    assert len(first) == 64


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("preset", shipped_configs())
def test_processes_give_the_same_bytes_for_all_models(preset):
    first, second = digests(preset, 1)
    assert first == second
    assert len(first) == 64


def test_an_order_is_really_another_one():
    first, second = (shuffled("simplify", seed).passes for seed in SEEDS)
    assert first != second
    assert first != quiet("simplify").passes
