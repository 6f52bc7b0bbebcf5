"""Builds of one model on one engine, several times: which are good, and in which layers.

An engine that measures kernels may choose others each time. What was built is kept in two
folders, ``good`` and ``bad``, and the layers that only bad builds have are reported.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.layers import EngineLayer

Key = tuple[str, str, str, str]


@dataclass
class Build:
    """One of several builds.

    Attributes:
        name: What it is called.
        good: What the check said; None where nothing was checked.
        reason: Why it is bad, or was not checked.
        layers: Its layers, if the engine reports them.
        path: Where it is kept; None for nowhere.
    """

    name: str
    good: bool | None
    reason: str = ""
    layers: list[EngineLayer] = field(default_factory=list)
    path: str | None = None


@dataclass
class Builds:
    """All builds of one model on one engine.

    Attributes:
        name: The model on the engine.
        builds: Each build.
    """

    name: str
    builds: list[Build] = field(default_factory=list)

    @property
    def suspects(self) -> list[EngineLayer]:
        """The layers that each bad build has, and no good one; none without both."""
        good = [b for b in self.builds if b.good]
        bad = [b for b in self.builds if b.good is False]
        if not good or not bad:
            return []
        innocent = {_key(layer) for build in good for layer in build.layers}
        common = set.intersection(*({_key(layer) for layer in b.layers} for b in bad))
        return [layer for layer in bad[0].layers if _key(layer) in common - innocent]

    @property
    def varying(self) -> dict[str, list[EngineLayer]]:
        """The layers that not all builds have, by build."""
        told = [build for build in self.builds if build.layers]
        if len(told) < 2:
            return {}
        common = set.intersection(*({_key(layer) for layer in b.layers} for b in told))
        found = {
            b.name: [layer for layer in b.layers if _key(layer) not in common] for b in told
        }
        return {name: layers for name, layers in found.items() if layers}

    def keep(self, folder: Path) -> None:
        """Move what was built into ``good``, ``bad`` or ``unchecked``.

        Raises:
            UsageError: The folder cannot be written.
        """
        for build in self.builds:
            if build.path is None or not Path(build.path).exists():
                build.path = None
                continue
            kind = {True: "good", False: "bad", None: "unchecked"}[build.good]
            goal = folder / kind / Path(build.path).name
            try:
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(build.path, goal)
            except OSError as error:
                raise UsageError(
                    f"{goal} cannot be written: {error.strerror or error}"
                ) from error
            build.path = str(goal)

    def as_dict(self) -> PlainDict:
        """Return it as plain data."""
        return {
            **asdict(self),
            "suspects": [asdict(layer) for layer in self.suspects],
            "varying": {n: [asdict(a) for a in all_] for n, all_ in self.varying.items()},
        }


def _key(layer: EngineLayer) -> Key:
    return layer.name, layer.kind, layer.how, layer.nodes
