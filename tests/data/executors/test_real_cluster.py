"""A scheduler and workers of their own, as on several machines: by TLS, and some join late."""

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import dask
import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data import workers
from onnx_passes.data.dataset import make_plan
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.workers import InProcess, choose_executor
from onnx_passes.errors import EngineUnavailableError
from onnx_passes.model.load import load_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("cluster_is_collected"),
    # distributed leaves the sockets of what went away to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def job(tmp_path, save_classifier, samples):
    x, y = samples(4096)
    np.savez(tmp_path / "data.npz", x=x, label=y)
    paths = save_classifier("a.onnx"), save_classifier("b.onnx", 1)
    models = tuple(map(ModelFile.of, paths))
    engine = EngineChoice("onnxruntime", {})
    runs = tuple(RunSpec(i, engine, m.name) for i, m in enumerate(models))
    spec = DataSpec((str(tmp_path / "data.npz"),), shard=16)
    plan = make_plan(spec, DataInterface.of(load_model(models[0].path).model))
    return DataJob(plan, models, runs, Measures(rtol=1.0, atol=10.0))


@contextmanager
def started(*words):
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *map(str, words[1:])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def scheduler(tmp_path, *words):
    file = tmp_path / "scheduler.json"
    given = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    with started("dask_scheduler", *given, *words) as process:
        while not file.exists() or not file.read_text().strip():
            assert process.poll() is None
            time.sleep(0.1)
        text = file.read_text()
        yield text.split('"address": "')[1].split('"')[0]


def worker(address, *words):
    return started("dask_worker", address, "--nthreads", 1, "--no-dashboard", *words)


def test_a_worker_that_joins_evaluates_shards_and_leaves_no_trace(job, tmp_path):
    plain = evaluate(job, Demand(), InProcess())
    seen, late = set(), []
    with scheduler(tmp_path) as address, worker(address):
        executor = choose_executor(None, address)

        def accept(outcome):
            seen.add(outcome["worker"]["pid"])
            if late or len(seen) > 1:
                return
            late.append(worker(address))
            late[0].__enter__()
            executor._client.wait_for_workers(2, timeout=60)

        try:
            result = evaluate(job, Demand(), executor, accept=accept)
        finally:
            late[0].__exit__(None, None, None)
    assert len(seen) == 2
    assert result.text() == plain.text()


def certificate(folder, name, authority=None):
    """Make a key and a certificate; one without an authority is an authority."""
    key, request, cert = (folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, *names]
    if authority is None:
        done = subprocess.run(
            [*make, "-x509", "-days", "2", "-out", cert], capture_output=True
        )
    else:
        subprocess.run([*make, "-out", request], check=True, capture_output=True)
        signed = ["openssl", "x509", "-req", "-in", request, "-days", "2", "-CAcreateserial"]
        signed += ["-CA", authority[0], "-CAkey", authority[1], "-copy_extensions", "copy"]
        done = subprocess.run([*signed, "-out", cert], capture_output=True)
    assert done.returncode == 0, done.stderr
    return cert, key


def certified(authority, own):
    """Let Dask's configuration name certificates."""
    files = {"ca-file": authority[0], "client.cert": own[0], "client.key": own[1]}
    return dask.config.set({f"distributed.comm.tls.{k}": str(f) for k, f in files.items()})


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_a_cluster_behind_tls_is_used_with_its_certificates_only(job, tmp_path, monkeypatch):
    authority, stranger = certificate(tmp_path, "ca"), certificate(tmp_path, "stranger")
    server, client = (certificate(tmp_path, name, authority) for name in ("server", "client"))
    words = ("--tls-ca-file", authority[0], "--tls-cert", server[0], "--tls-key", server[1])
    with scheduler(tmp_path, "--protocol", "tls", *words) as address, worker(address, *words):
        assert address.startswith("tls://")
        plain = evaluate(job, Demand(), InProcess()).text()
        with certified(authority, client):
            assert evaluate(job, Demand(), choose_executor(None, address)).text() == plain
        monkeypatch.setattr(workers, "CONNECT_SECONDS", 3)
        for own, reached in ((stranger, address), (client, address.replace("tls", "tcp"))):
            with (
                certified(authority, own),
                pytest.raises(EngineUnavailableError, match="cannot be reached"),
            ):
                evaluate(job, Demand(), choose_executor(None, reached))
