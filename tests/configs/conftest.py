"""Passes for the tests of this room, registered while they run."""

from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

from onnx_passes import passes
from onnx_passes.passes import Annotation, Size, Transformation, registry


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def _define():
    @passes.register("cfg-group")
    class CfgFold(Transformation):
        """Fold for a test."""

        size_limit: Size = 1024
        mode: Literal["fast", "safe"] = "fast"
        ratio: float = 0.5

        def call(self, model): ...

    @passes.register("cfg-group")
    class CfgTidy(Transformation):
        def call(self, model): ...

    @passes.register()
    class CfgAnything(Annotation):
        data: Any = None
        path: Path = Path()
        colour: Colour = Colour.RED
        sizes: dict[int, tuple[int, ...]] = {}  # noqa: RUF012  # a typed field, not shared state

        def call(self, model): ...


@pytest.fixture(autouse=True, scope="package")
def own_passes():
    registry.discover()
    tables = (registry._passes, registry._groups, registry._shadowing)
    kept = [{k: v if isinstance(v, type) else [*v] for k, v in t.items()} for t in tables]
    _define()
    yield
    for table, before in zip(tables, kept, strict=True):
        table.clear()
        table.update(before)


@pytest.fixture
def load(tmp_path):
    """Write a pipeline file and load it."""
    from onnx_passes.configs.pipeline_files import load_config

    def inner(text, *args, **kwargs):
        path = tmp_path / "cfg.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, *args, **kwargs)

    return inner
