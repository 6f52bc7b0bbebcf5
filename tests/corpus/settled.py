"""Whether a preset comes to rest, gives the same bytes, and in any order of its passes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.config.load import config_from_data, load_config
from onnx_passes.config.resolve import GroupStep, PassStep, ResolvedStep, resolve
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.pipeline.run import run_pipeline
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


def restless(model_id: str, config: PipelineConfig) -> str | None:
    """Say what a second run changes of the result of the first."""
    model = ir.from_proto(load(model_id).model)
    once, digest, data = result_of(model, config)
    _, again, bytes_again = result_of(ir.from_proto(ir.to_proto(once)), config)
    if digest != again:
        return f"{model_id}: a second run computes it in another way"
    return None if data == bytes_again else f"{model_id}: a second run gives other bytes"


def digest_of(ids: Iterable[str], config: PipelineConfig) -> str:
    """Return a digest of what a pipeline makes of models, bytes and all."""
    total = hashlib.sha256()
    for model_id in ids:
        total.update(model_id.encode())
        total.update(result_of(ir.from_proto(load(model_id).model), config)[2])
    return total.hexdigest()


def shuffled(name: str, seed: int) -> PipelineConfig:
    """Return a preset whose repeated groups run their passes in another order.

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
            case PassStep():
                found.append({step.cls.name: dict(step.options)})
    return found


def _name(step: ResolvedStep) -> str:
    return step.cls.name if isinstance(step, PassStep) else ""
