"""Whether a preset comes to rest, gives the same bytes, and in any order of its rules."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onnx_passes.config.load import config_from_data, load_config
from onnx_passes.config.resolve import GroupStep, PassStep, ResolvedStep, resolve
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.passes.base import Pass
from onnx_passes.passes.fusion.fuse_all import FIRST as FORMULAS
from onnx_passes.passes.fusion.fuse_all import FuseAll
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.models import Recipe
from tests.corpus.backend_models import load

FIRST = ("shape-inference",)
"""What the others need is first in any order."""


def quiet(name: str) -> PipelineConfig:
    """Return a preset that verifies nothing and writes nothing."""
    return load_config(name, ["verify=false", "reproducers=false"])


def result_of(model: ir.Model, config: PipelineConfig) -> tuple[ir.Model, str, bytes]:
    """Return the model that a pipeline makes of a copy, its hash and its bytes."""
    run = run_pipeline(model.clone(), config)
    run.raise_for_failure()
    data = ir.to_proto(run.model).SerializeToString(deterministic=True)
    return run.model, run.report.after.hash, data


def backend(ids: Iterable[str]) -> Iterator[tuple[str, ir.Model]]:
    """Yield backend test models with their ids."""
    return ((name, ir.from_proto(load(name).model)) for name in ids)


def made_up(models: Iterable[Recipe]) -> Iterator[tuple[str, ir.Model]]:
    """Yield random models with their recipes."""
    return ((str(recipe), recipe.model()) for recipe in models)


def restless(name: str, model: ir.Model, config: PipelineConfig) -> str | None:
    """Say what a second run changes of the result of the first."""
    once, digest, data = result_of(model, config)
    _, again, bytes_again = result_of(ir.from_proto(ir.to_proto(once)), config)
    if digest != again:
        return f"{name}: a second run computes it in another way"
    return None if data == bytes_again else f"{name}: a second run gives other bytes"


def disordered(name: str, model: ir.Model, preset: str, seeds: Iterable[int]) -> list[str]:
    """Say which orders of the passes of a preset give another model."""
    _, wanted, _ = result_of(model, quiet(preset))
    return [
        f"{name}: the order of seed {seed} gives another model"
        for seed in seeds
        if result_of(model, shuffled(preset, seed))[1] != wanted
    ]


def digest_of(models: Iterable[tuple[str, ir.Model]], config: PipelineConfig) -> str:
    """Return a digest of what a pipeline makes of models, bytes and all."""
    total = hashlib.sha256()
    for name, model in models:
        total.update(name.encode())
        total.update(result_of(model, config)[2])
    return total.hexdigest()


def shuffled(name: str, seed: int) -> PipelineConfig:
    """Return a preset whose repeated groups run their passes in another order.

    The fusions of ``fuse-all`` are named one by one: formulas in another order, then the
    others, since those may take a part of a formula.

    Args:
        name: The preset.
        seed: Of the order; passes that the others need stay first.
    """
    steps = _shuffled(resolve(load_config(name)).steps, random.Random(seed))
    settings = {"verify": False, "reproducers": False}
    return config_from_data({"passes": steps, **settings})


def _shuffled(steps: Iterable[ResolvedStep], order: random.Random) -> list[object]:
    found: list[object] = []
    for step in steps:
        match step:
            case GroupStep():
                inner = [s for s in step.steps if _name(s) in FIRST]
                others = [s for s in step.steps if _name(s) not in FIRST]
                order.shuffle(others)
                found.append(
                    {
                        "group": _shuffled([*inner, *others], order),
                        "name": step.name,
                        "repeat": step.repeat,
                        "limit": 40,
                    }
                )
            case PassStep() if issubclass(step.cls, FuseAll):
                found.append({"group": _fusions(step.cls().members(), order), "name": "fuse"})
            case PassStep():
                found.append({step.cls.name: dict(step.options)})
    return found


def _fusions(members: Iterable[type[Pass]], order: random.Random) -> list[str]:
    names = [cls.name for cls in members]
    parts = [n for n in names if n in FORMULAS], [n for n in names if n not in FORMULAS]
    for part in parts:
        order.shuffle(part)
    return [*parts[0], *parts[1]]


def _name(step: ResolvedStep) -> str:
    return step.cls.name if isinstance(step, PassStep) else ""
