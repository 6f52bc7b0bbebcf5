"""What a run depends on besides its steps: two runs that agree in it share verified states."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onnx_passes.config.engines import resolve_engines
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.contracts import metrics
from onnx_passes.graph.digest import tensor_digest
from onnx_passes.io.detached import detach
from onnx_passes.pipeline.sources import Sources
from onnx_passes.report.model import RunReport
from onnx_passes.runtime.base import Feeds, Outputs
from onnx_passes.verify.snapshot import Snapshot

# Steps are compared one by one; the rest decides only what becomes of a result or a failure.
_ASIDE = frozenset(
    {
        "passes",
        "exhaustive",
        "imports",
        "cache",
        "dump_after",
        "dump_dir",
        "logging",
        "reproducers",
        "save",
        "strict",
        "on_failure",
        "granularity",
        "limits",
    }
)


def identify(
    original: Snapshot,
    config: PipelineConfig,
    report: RunReport,
    samples: Sequence[Feeds],
    labels: Sequence[Outputs] | None,
    said: Sequence[str],
    sources: Sources,
) -> dict[str, str]:
    """Return digests of all that a run depends on, by what a user calls it.

    Args:
        original: The model before the first pass.
        config: The pipeline.
        report: Names versions and the machine.
        samples: The inputs that checks run on.
        labels: What should come out.
        said: What was said about the original's tensors before the first pass.
        sources: Digests of source files.

    Raises:
        ModelError: Weights or the source of a metric or an engine cannot be read.
    """
    graph, tensors = detach(original.model)
    plain = {key: value for key, value in config.plain().items() if key not in _ASIDE}
    named = {*config.model_dump(include={"verify"})["verify"]["metrics"]}
    code = [metrics.lookup(name).function.__module__ for name in sorted(named)]
    engines = [step.engine for step in resolve_engines(config)]
    code += [type(engine).__module__ for engine in engines]
    return {
        "the model": _digest([graph, *said, *map(tensor_digest, tensors)]),
        "verify": _digest([repr(config.verify)]),
        "engines": _digest([repr([config.engines, config.onnxruntime])]),
        "reference": _digest(
            [repr(config.reference), repr(report.reference and report.reference.source)]
        ),
        "the reference data": _digest(map(_data, [*samples, *(labels or ())])),
        "limits.rewrites": str(config.limits.rewrites),
        "the pipeline file": _digest([repr(sorted(plain.items()))]),
        "the code of metrics and engines": _digest(
            sources.of_module(module)
            for module in dict.fromkeys(code)
            if module.partition(".")[0] != "onnx_passes"
        ),
        "the machine": f"{report.machine.get('cpu')} {report.machine.get('architecture')}",
        **{f"the version of {name}": version for name, version in report.versions.items()},
    }


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """Name what differs between two runs."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return " and ".join(names)


def _digest(parts: Iterable[str | bytes]) -> str:
    content = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        content.update(len(data).to_bytes(8, "little"))
        content.update(data)
    return content.hexdigest()


def _data(value: Any) -> bytes:
    """Return the digest of reference data: tensors, and sequences and mappings of them."""
    if isinstance(value, np.ndarray):
        head = f"{value.dtype} {value.shape}".encode()
        if value.dtype == object:
            return hashlib.sha256(head + repr(value.tolist()).encode()).digest()
        raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return hashlib.sha256(head + hashlib.sha256(raw.data).digest()).digest()
    if isinstance(value, dict):
        pairs = (repr(key).encode() + _data(item) for key, item in value.items())
        return hashlib.sha256(b"mapping" + b"".join(pairs)).digest()
    if isinstance(value, list | tuple):
        return hashlib.sha256(b"sequence" + b"".join(map(_data, value))).digest()
    return hashlib.sha256(repr(value).encode()).digest()
