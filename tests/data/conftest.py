"""A small classifier, a worse one, and data for both."""

import gc
from contextlib import suppress

import numpy as np
import onnx
import pytest

from tests.tables import model_of

CLASSES, WIDTH = 5, 8


@pytest.fixture(autouse=True)
def libraries():
    """Skip where the libraries of the extras are not installed."""
    for library in ("scipy", "pyarrow", "distributed"):
        pytest.importorskip(library, reason=f"{library} is missing: pip install -e '.[dev]'")


@pytest.fixture
def cluster_is_collected():
    """Collect what distributed leaves of a cluster here, and not in a later test."""
    yield
    gc.collect()


@pytest.fixture
def start_cluster(cluster_is_collected):
    """Start a scheduler and workers in processes of their own, on this machine."""
    started = []

    def start(workers):
        from distributed import LocalCluster

        started.append(
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=50,
            )
        )
        return started[-1]

    yield start
    for cluster in started:
        with suppress(TimeoutError):  # a test has closed its scheduler
            cluster.close(timeout=5)


def classifier(weights, batch="N"):
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        classifier (float[{batch}, {WIDTH}] x) => (float[{batch}, {CLASSES}] scores) {{
            scores = MatMul(x, w) }}"""
    return model_of(text, w=weights)


@pytest.fixture(scope="session")
def weights():
    return np.random.default_rng(1).normal(size=(WIDTH, CLASSES)).astype(np.float32)


@pytest.fixture
def save_classifier(tmp_path, weights):
    """Save a classifier whose weights are off by ``noise``."""

    def save(name, noise=0.0, batch="N"):
        off = np.random.default_rng(2).normal(size=weights.shape) * noise
        path = tmp_path / name
        onnx.save(classifier((weights + off).astype(np.float32), batch), path)
        return path

    return save


@pytest.fixture
def samples(weights):
    """Make samples whose labels the classifier has right in 9 of 10 cases."""

    def make(count, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(count, WIDTH)).astype(np.float32)
        labels = (x @ weights).argmax(axis=1).astype(np.int64)
        wrong = rng.random(count) < 0.1
        return x, np.where(wrong, (labels + 1) % CLASSES, labels)

    return make
