import pytest


@pytest.fixture(autouse=True)
def _children(children_end):
    """End the processes that engines start."""
