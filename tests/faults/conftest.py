import pytest


@pytest.fixture(autouse=True)
def _own_passes(own_registry):
    """Keep the planted passes out of the lists that other tests read."""
