"""One result, whoever computes it, however often it is interrupted."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.dataset import make_plan
from onnx_passes.data.demand import Accuracy, Demand, RunOutcome
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import Journal, JournalError, evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.workers import InProcess, Pool, make_dask, worker_death_outcome
from onnx_passes.errors import EngineUnavailableError, UsageError
from onnx_passes.model.load import load_model
from tests.tables import each_of

ACCURACY = Demand(Accuracy(0.02, 0.95))
LEFT_OPEN = pytest.mark.filterwarnings(
    # distributed leaves the sockets of a worker that was killed to the garbage collector.
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def make_job(tmp_path, save_classifier, samples):
    def make(count=600, noise=0.05, measures=None, batch="N", change=None, **given):
        x, y = samples(count)
        if change is not None:
            x, y = change(x, y)
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        np.save(data / "x.npy", x)
        np.save(data / "label.npy", y)
        paths = save_classifier("a.onnx", 0, batch), save_classifier("b.onnx", noise, batch)
        models = tuple(ModelFile.of(path) for path in paths)
        engine = EngineChoice("onnxruntime", {})
        runs = tuple(RunSpec(i, engine, m.name) for i, m in enumerate(models))
        spec = {"shard": 32, "batch": 8, "shuffle": 1} | given
        plan = make_plan(
            DataSpec((str(data),), **spec), DataInterface.of(load_model(paths[0]).model)
        )
        return DataJob(plan, models, runs, measures or Measures(rtol=1.0, atol=10.0))

    return make


class Scattered(InProcess):
    """Finishes shards in another order, some twice, some only at the second attempt."""

    slots = 5

    def __init__(self, seed):
        super().__init__()
        self.random = np.random.default_rng(seed)
        self.failed = set()

    def collect(self):
        self._todo.sort(key=lambda shard: self.random.random())
        if self._todo[0] % 3 == 0 and self._todo[0] not in self.failed:
            shard = self._todo.pop(0)
            self.failed.add(shard)
            return worker_death_outcome(shard, 32, "the worker died")
        return super().collect()


@each_of("seed", 0, 1, 2)
def test_order_and_attempts_leave_no_trace(make_job, seed):
    job = make_job(measures=Measures(rtol=1.0, atol=10.0, metrics=("rmse",)))
    plain = evaluate(job, ACCURACY, InProcess())
    scattered = evaluate(job, ACCURACY, Scattered(seed))
    assert scattered.text() == plain.text()
    assert scattered.timing.retries > 0
    assert plain.data["counts"]["evaluated"] == 600


def test_numbers_are_those_of_a_plain_loop(make_job, samples):
    job = make_job(noise=0.3)
    found = evaluate(job, ACCURACY, InProcess()).data["pairs"][0]
    x, y = samples(600)
    graphs = [load_model(model.path).model.graph for model in job.models]
    a, b = (graph.initializers["w"].const_value.numpy() for graph in graphs)
    old, new = x @ a, x @ b
    classes = found["found"]["classes"]
    was, now = old.argmax(1) == y, new.argmax(1) == y
    assert classes["paired"] == {
        "both": int((was & now).sum()),
        "only_left": int((was & ~now).sum()),
        "only_right": int((~was & now).sum()),
        "neither": int((~was & ~now).sum()),
    }
    output = found["found"]["outputs"]["scores"]
    assert output["max_abs"] == pytest.approx(np.abs(new - old).max(), rel=1e-5)
    assert output["rmse"] == pytest.approx(np.sqrt(((new - old) ** 2).mean()), rel=1e-5)
    assert found["verdict"]["accuracy"]["drop"] == pytest.approx(was.mean() - now.mean())


@pytest.fixture
def kill_first():
    """Kill the worker of the first outcome; the list has its process when it has one."""
    killed = []

    def kill_first(outcome):
        if not killed and "worker" in outcome:
            killed.append(outcome["worker"]["pid"])
            os.kill(killed[0], signal.SIGKILL)

    yield kill_first
    assert killed


def test_a_pool_gives_the_same_bytes_after_a_worker_is_killed(make_job, kill_first):
    job = make_job(count=1500)
    plain = evaluate(job, ACCURACY, InProcess()).text()
    assert evaluate(job, ACCURACY, Pool(2), accept=kill_first).text() == plain


@LEFT_OPEN
@pytest.mark.usefixtures("cluster_is_collected")
def test_dask_gives_the_same_bytes_after_a_worker_is_lost(make_job, start_cluster, kill_first):
    job = make_job(count=1500)
    plain = evaluate(job, ACCURACY, InProcess()).text()
    dask = make_dask(start_cluster(2).scheduler_address)
    assert evaluate(job, ACCURACY, dask, accept=kill_first).text() == plain


@LEFT_OPEN
@pytest.mark.usefixtures("cluster_is_collected")
def test_a_scheduler_that_is_not_there_is_told(make_job, monkeypatch):
    monkeypatch.setattr("onnx_passes.data.workers.CONNECT_SECONDS", 1)
    dask = make_dask("tcp://127.0.0.1:9")
    with pytest.raises(EngineUnavailableError, match="cannot be reached"):
        dask.start(make_job())
    dask.close()


@each_of("address", "local:2", "host:8786", "tcp://x", "http://x:1")
def test_addresses_that_are_none_are_refused(address):
    with pytest.raises(UsageError, match="is not an address"):
        make_dask(address)


class Ends(InProcess):
    """Ends the run after some shards, as a killed client does."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def collect(self):
        self.after -= 1
        if self.after < 0:
            raise KeyboardInterrupt
        return super().collect()


def test_a_run_goes_on_from_its_journal(make_job, tmp_path):
    job, path = make_job(), tmp_path / "journal"
    plain = evaluate(job, ACCURACY, InProcess()).text()
    for after in (0, 3, 9):
        with pytest.raises(KeyboardInterrupt), Journal(path, job) as journal:
            evaluate(job, ACCURACY, Ends(after), journal=journal)
        # A kill in the middle of a line.
        with path.open("ab") as file:
            file.write(b'{"shard": 17, "samples": 32, "pai')
    with Journal(path, job) as journal:
        assert sorted(journal) == list(range(12))
        result = evaluate(job, ACCURACY, InProcess(), journal=journal)
    assert result.text() == plain
    assert result.timing.resumed == 12
    with Journal(path, job) as journal:
        assert evaluate(job, ACCURACY, Ends(0), journal=journal).text() == plain


def test_shards_that_finished_out_of_order_are_resumed_too(make_job, tmp_path):
    job, path = make_job(), tmp_path / "journal"
    with Journal(path, job) as journal:
        plain = evaluate(job, ACCURACY, InProcess(), journal=journal).text()
    header, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + b"".join(reversed(lines[2:9:2])) + b"".join(lines[12:]))
    with Journal(path, job) as journal:
        result = evaluate(job, ACCURACY, Scattered(1), journal=journal)
    assert result.text() == plain


@each_of(
    "change, what",
    ({"seed": 1}, "the data set"),
    ({"noise": 0.06}, "a model"),
    ({"measures": Measures(rtol=0.5)}, "what is measured"),
)
def test_a_journal_of_another_run_is_refused(make_job, tmp_path, change, what):
    path = tmp_path / "journal"
    with Journal(path, make_job()):
        pass
    if "seed" in change:
        change = {"shuffle": 2}
    with pytest.raises(UsageError, match=what):
        Journal(path, make_job(**change))


def test_two_runs_do_not_share_a_journal(make_job, tmp_path):
    job = make_job()
    with Journal(tmp_path / "j", job), pytest.raises(UsageError, match="in use"):
        Journal(tmp_path / "j", job)


def test_a_file_that_is_no_journal_is_kept(make_job, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is not a journal"):
        Journal(path, make_job())
    assert path.read_text() == "mine"


def test_a_full_disk_is_told(make_job, tmp_path):
    job = make_job()
    with Journal(tmp_path / "j", job) as journal:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        most = (tmp_path / "j").stat().st_size + 10
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(JournalError, match="No space left on device"):
                evaluate(job, ACCURACY, InProcess(), journal=journal)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def nan_in_inputs(x, y):
    x[300, 2] = np.nan
    return x, y


class OutOfMemory(InProcess):
    """Has no memory for shard 4."""

    def collect(self):
        if self._todo[0] == 4:
            return worker_death_outcome(self._todo.pop(0), 32, "the worker process ended")
        return super().collect()


def test_a_shard_that_kills_its_workers_is_left_out_after_three_attempts(make_job):
    result = evaluate(make_job(), ACCURACY, OutOfMemory())
    counts = result.data["counts"]
    assert (counts["evaluated"], counts["quarantined"]) == (568, 32)
    assert result.timing.retries == 2
    assert result.outcome is RunOutcome.INCOMPLETE


def test_a_value_that_is_too_far_off_fails_whatever_is_missing(make_job):
    job = make_job(measures=Measures(), change=nan_in_inputs)
    assert evaluate(job, Demand(), InProcess()).outcome is RunOutcome.FAILED


@each_of(
    "noise, drop, outcome", (0.01, 0.05, RunOutcome.PASSED), (2.0, 0.01, RunOutcome.FAILED)
)
def test_a_run_stops_when_enough_is_known(make_job, noise, drop, outcome):
    job = make_job(count=4000, noise=noise)
    rule = Demand(Accuracy(drop, 0.95, early=True))
    result = evaluate(job, rule, InProcess())
    counts = result.data["counts"]
    assert result.outcome is outcome
    assert 0 < counts["evaluated"] < 2000
    assert counts["evaluated"] + counts["not_needed"] == 4000
    assert evaluate(job, rule, Scattered(3)).text() == result.text()


@pytest.mark.slow
@each_of("on_dask", False, True)
def test_a_killed_client_goes_on_with_the_same_bytes(
    make_job, tmp_path, on_dask, start_cluster
):
    job = make_job(count=60_000)
    address = start_cluster(2).scheduler_address if on_dask else ""
    workers = ["--scheduler", address] if on_dask else ["--jobs", "2"]
    words = [sys.executable, "-m", "onnx_passes", "compare", *(m.path for m in job.models)]
    words += ["--data", str(tmp_path / "data"), "--shard", "64", "--shuffle", "1"]
    words += ["--accuracy", "drop=2%"]
    subprocess.run([*words, f"--json={tmp_path}/plain.json"], check=False, capture_output=True)
    journal = tmp_path / "journal"
    client = subprocess.Popen(
        [*words, f"--json={tmp_path}/x.json", *workers, "--journal", str(journal)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 20:
        assert client.poll() is None
    client.kill()
    client.wait()
    again = [*words, f"--json={tmp_path}/again.json", *workers, "--journal", str(journal)]
    done = subprocess.run(again, check=False, capture_output=True, text=True)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "plain.json").read_bytes()
    assert " shards from the journal" in done.stdout or " are from the journal" in done.stdout
