"""Whether a preset reaches a fixpoint, and gives the same bytes in any order of its rules."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.certifying.models import Recipe
from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.configs.resolve import GroupStep, PassStep, ResolvedStep, resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.passes.base import Pass
from onnx_passes.passes.fusion.fuse_all import FIRST as FORMULAS
from onnx_passes.passes.fusion.fuse_all import FuseAll
from onnx_passes.pipeline.run import run_pipeline
from tests.corpus.backend_models import load

FIRST = ("shape-inference",)
"""What the others need is first in any order."""


def quiet(name: str) -> PipelineConfig:
    """Return a preset that verifies nothing and writes nothing."""
    return load_config(name, ["verify=false", "reproducers=false"])


@dataclass(frozen=True)
class Result:
    """What a pipeline made of a model.

    Attributes:
        model: The result.
        hash: Of what it computes, and how.
        data: Its file.
        rearranged: Whether a pass in a group changed the model, other than those of ``FIRST``.
    """

    model: ir.Model
    hash: str
    data: bytes
    rearranged: bool


def result_of(model: ir.Model, config: PipelineConfig) -> Result:
    """Return what a pipeline makes of a copy."""
    run = run_pipeline(model.clone(), config)
    run.raise_for_failure()
    changed = [p.name for p in run.report.passes if p.group and p.changed]
    rearranged = any(name not in FIRST for name in changed)
    return Result(run.model, run.report.after.hash, written(run.model), rearranged)


def written(model: ir.Model) -> bytes:
    """Return the file of a model, as every process writes it."""
    return ir.to_proto(model).SerializeToString(deterministic=True)


def backend(ids: Iterable[str]) -> Iterator[tuple[str, ir.Model]]:
    """Yield backend test models with their ids."""
    return ((name, ir.from_proto(load(name).model)) for name in ids)


def made_up(models: Iterable[Recipe]) -> Iterator[tuple[str, ir.Model]]:
    """Yield random models with their recipes."""
    return ((str(recipe), recipe.model()) for recipe in models)


def unsettled(name: str, model: ir.Model, preset: str, seeds: Iterable[int] = ()) -> list[str]:
    """Say what a second run of a preset changes, and which orders give another model.

    A run on what it has made is not repeated where that is the very file it was given. Nor are
    orders tried if no pass of the groups has changed the model that all were given:
    in another order each is given that model again.
    """
    once = result_of(model, quiet(preset))
    faults: list[str] = []
    if once.data != written(model):
        again = result_of(ir.from_proto(ir.to_proto(once.model)), quiet(preset))
        if again.hash != once.hash:
            faults.append(f"{name}: a second run computes it in another way")
        elif again.data != once.data:
            faults.append(f"{name}: a second run gives other bytes")
    tried = seeds if once.rearranged else ()
    return faults + [
        f"{name}: the order of seed {seed} gives another model"
        for seed in tried
        if result_of(model, shuffled(preset, seed)).hash != once.hash
    ]


def digest_of(models: Iterable[tuple[str, ir.Model]], config: PipelineConfig) -> str:
    """Return a digest of what a pipeline makes of models, bytes and all."""
    total = hashlib.sha256()
    for name, model in models:
        total.update(name.encode())
        total.update(result_of(model, config).data)
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
