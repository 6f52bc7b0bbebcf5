"""Presets reach a fixpoint: the same bytes in every process, in any order of their rules."""

import logging
import os
import subprocess
import sys
from functools import cache
from itertools import chain, islice
from pathlib import Path

import pytest

from onnx_passes.certifying.models import recipes
from onnx_passes.configs.pipeline_files import shipped_configs
from tests.corpus.backend_models import ids, shard
from tests.corpus.settled import backend, digest_of, made_up, quiet, unsettled
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
NIGHTLY = 1000
SHARDS = 24
SEEDS = (1, 2)
REORDERED = ("simplify", "optimize", "optimize-ort", "tensorrt", "lower")
"""Presets that repeat a group; `cleanup` is one list, in which each prepares the next."""

WIDEST = ("optimize-ort", "lower", "streamline")
"""Presets whose passes are most of those of all presets; the nightly run takes each preset."""


@pytest.fixture(autouse=True)
def quiet_loggers():
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)


@cache
def sample():
    """Return ids that CI has time for; all models are for the nightly run."""
    return (*ids()[::120], *ids("real")[:1])


def faults(preset, models, seeds=()):
    return [fault for model in models for fault in unsettled(*model, preset, seeds)]


def may_depend_on_order(preset, fault):
    """What folding may grow a file by is what was saved before: one weight more, or less."""
    return preset == "tensorrt" and fault.startswith("real/test_squeezenet: the order")


@pytest.mark.usefixtures("random_models_are_kept")
@pytest.mark.timeout(900)
@each_of("preset", *shipped_configs())
def test_a_second_run_changes_nothing(preset):
    assert not faults(preset, backend(sample()))
    assert not faults(preset, made_up(recipes(12, seed=13)))


@pytest.mark.timeout(900)
@each_of("preset", *REORDERED)
def test_the_order_of_the_passes_does_not_matter(preset):
    assert not faults(preset, backend(sample()), SEEDS[:1])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("number", *range(SHARDS))
@each_of("preset", *shipped_configs())
def test_every_model_comes_to_rest_whatever_the_order(preset, number):
    seeds = SEEDS if preset in REORDERED else ()
    found = faults(preset, backend(shard(number, SHARDS)), seeds)
    assert not [fault for fault in found if not may_depend_on_order(preset, fault)]
    models = islice(recipes(NIGHTLY, seed=15), number, None, SHARDS)
    assert not faults(preset, made_up(models))


def digests(presets, every):
    """Return what each preset makes of models, bytes and all."""
    found = []
    for preset in presets:
        models = chain(backend(ids()[::every]), made_up(recipes(1200 // every, seed=17)))
        found.append(f"{preset}:{digest_of(models, quiet(preset))}")
    return found


APART = """
import logging, sys
from tests.corpus.test_settled import digests
logging.getLogger("onnx_ir").setLevel(logging.ERROR)
print(*digests(sys.argv[2:], int(sys.argv[1])))
"""


def assert_same_bytes(presets, every):
    """Compare what this process makes of models with one of another hash seed."""
    done = subprocess.run(
        [sys.executable, "-c", APART, str(every), *presets],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == digests(presets, every), done.stderr
    assert len(done.stdout.split()) == len(presets)


@pytest.mark.timeout(900)
def test_processes_give_the_same_bytes():
    assert_same_bytes(WIDEST, 120)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@each_of("preset", *shipped_configs())
def test_processes_give_the_same_bytes_for_all_models(preset):
    assert_same_bytes([preset], 1)
