import pytest

from onnx_passes.passes import registry


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """Keep the planted passes out of the lists that other tests read."""
    registry.discover()
    groups = {name: list(members) for name, members in registry._groups.items()}
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))
    monkeypatch.setattr(registry, "_groups", groups)
