"""The clauses of a search: each of them by what happens, not by what is said."""

import contextlib
import dataclasses
import itertools
import math
import re
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes.tuning.budget_search
from onnx_passes.cli.main import main
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.errors import ConfigError, EngineBuildError, UsageError
from onnx_passes.model.save import save_model, written_bytes
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning import configured_search as tuning_task
from onnx_passes.tuning import loss_budget
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.configured_search import take_few, task_of
from onnx_passes.tuning.groups import AuditFinding, convert
from onnx_passes.tuning.search_record import lines, to_json
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of
from tests.tuning.conftest import DIGITS


class Counting:
    """An engine that counts runs of whole models, and refuses or interrupts at will."""

    def __init__(self, whole, refuse=lambda model: False, stop_at=None):
        self.engine, self.whole = OnnxRuntimeEngine(optimization="all"), whole
        self.refuse, self.stop_at, self.runs, self.name = refuse, stop_at, 0, "counting"

    def describe(self):
        return self.engine.describe()

    def prepare(self, model):
        if self.refuse(model):
            raise EngineBuildError("no kernel for it")
        ends = [v.name for v in model.graph.outputs]
        if ends == self.whole and model.graph.inputs[0].name == "image":
            self.runs += 1
            if self.stop_at is not None and self.runs >= self.stop_at:
                raise KeyboardInterrupt
        return self.engine.prepare(model)


def run(task):
    return TuningSearch(task).run()


def measured(task, model):
    with task.engine.prepare(task.model) as old, task.engine.prepare(model) as new:
        expected = [old.run(feed) for feed in task.feeds]
        found = [new.run(feed) for feed in task.feeds]
    return task.budget.measure(found, expected)


@each_of(
    "limits",
    {"rmse": (0.0, 0.0)},
    {"snr": (400.0, math.inf)},
    {"max_abs_error": (0.0, 1e-12)},
    ids=str,
)
def test_an_impossible_budget_leaves_the_original(task, limits):
    result = run(task(limits=limits))
    assert set(result.best.names.values()) == {"float32"}
    assert result.best.cost == result.start
    assert measured(result.task, result.model).holds


def test_a_budget_that_the_original_breaks_is_told(task):
    with pytest.raises(ConfigError, match="the original itself has cosine"):
        run(task(limits={"cosine": (0.0, 0.5)}))
    with pytest.raises(ConfigError, match="the original itself has snr inf") as caught:
        run(task(limits={"snr": (15.0, 1000.0)}))
    assert "allow .inf" in caught.value.help


def test_groups_are_scored_without_the_whole_model(task):
    asked = task()
    asked = dataclasses.replace(asked, engine=Counting(["scores"]))
    result = run(asked)
    scored = [score for score in result.scores if not score.refused and score.effect]
    assert len(scored) == 12
    # The original and the one model that was tried, on few samples and on all; then what is
    # expected to lose too much, within the model, for as much as one run on all samples takes.
    assert asked.engine.runs <= 3 + 1 + len(asked.feeds[0]["image"]) // 64
    assert result.work["whole model"] == 2.0


TWO = ("float16", "int8-static")


@pytest.fixture(scope="module")
def every_choice(task):
    """Return the size and the signal to noise of each model that a search may choose."""
    asked = task(TWO)
    built = {(s.group, s.format) for s in run(asked).scores if not s.refused}
    options = [[f for f in asked.formats if (g.name, f) in built] for g in asked.groups]
    found = []
    for picks in itertools.product(*options):
        model = asked.build(dict(zip([g.name for g in asked.groups], picks, strict=True)))
        found.append((written_bytes(model), measured(asked, model).values["snr"]))
    return found


@each_of("limit", 28.0, 36.0, 43.5, 50.0)
def test_the_file_is_the_smallest_of_all_that_really_run(task, every_choice, tmp_path, limit):
    asked = task(TWO, {"snr": (limit, math.inf)})
    result = run(asked)
    best = min(size for size, snr in every_choice if snr >= limit)
    save_model(result.model, tmp_path / "found.onnx")
    save_model(asked.model, tmp_path / "original.onnx")
    assert result.best.cost == (tmp_path / "found.onnx").stat().st_size
    assert result.start == (tmp_path / "original.onnx").stat().st_size
    assert result.bound <= best
    assert result.best.cost <= best * (1.0 if result.ended == "optimal" else 1.01)


def test_what_an_engine_cannot_build_is_not_chosen(task):
    def has_half(model):
        return any(v.dtype is ir.DataType.FLOAT16 for n in model.graph for v in n.outputs)

    asked = dataclasses.replace(
        task(formats=("float16",)), engine=Counting(["scores"], refuse=has_half)
    )
    result = run(asked)
    assert set(result.best.names.values()) == {"float32"}
    refused = {s.refused for s in result.scores if s.format == "float16"}
    assert refused == {"the engine refuses it: no kernel for it"}


def test_what_gains_less_than_the_gap_takes_no_run(task):
    limits = {"snr": (36.0, math.inf)}
    near, exact = (run(task(limits=limits, gap=gap)) for gap in (0.3, 0.0))
    assert exact.gap < 0.002  # not all files of about that size are built
    assert exact.best.cost <= near.best.cost <= exact.best.cost / 0.7
    assert len(near.tried) <= len(exact.tried)


def test_a_fault_in_a_pass_leaves_a_valid_model(task, monkeypatch):
    def faulty(model, chosen, *rest):
        if "int8-weights" in chosen:
            raise ZeroDivisionError("a fault")
        return convert(model, chosen, *rest)

    monkeypatch.setattr("onnx_passes.tuning.format_scores.convert", faulty)
    result = run(task(formats=("float16", "int8-weights")))
    refused = {s.refused for s in result.scores if s.format == "int8-weights"}
    assert refused == {"it fails: ZeroDivisionError: a fault"}
    assert "float16" in result.best.names.values()


def test_an_original_that_cannot_be_recorded_is_kept(task, monkeypatch):
    def refuse(*args):
        raise EngineBuildError("inner values cannot be outputs")

    monkeypatch.setattr("onnx_passes.tuning.format_scores.record", refuse)
    told = []
    result = TuningSearch(task(), told.append).run()
    assert result.ended == "not recorded"
    assert set(result.best.names.values()) == {"float32"}
    assert "inner values cannot be outputs" in told[-1]


def test_a_part_that_does_not_run_by_itself_is_kept(task, monkeypatch):
    monkeypatch.setattr(TuningSearch, "_try_cheapest", lambda *args: False)
    asked = task(formats=("int8-weights",))
    first = asked.groups[0].nodes[0]

    def lone(model):
        names = {node.name for node in model.graph}
        return first in names and len(names) < 20

    result = run(dataclasses.replace(asked, engine=Counting(["scores"], refuse=lone)))
    kept = [s for s in result.scores if s.group == asked.groups[0].name and s.refused]
    assert [s.refused for s in kept] == [
        "the engine does not run it by itself: no kernel for it"
    ]
    assert result.best.names[asked.groups[0].name] == "float32"
    assert "int8-weights" in result.best.names.values()


def test_the_bound_of_flips_counts_all_models_that_are_tried(task):
    flips = loss_budget.FlipLimit(0.05, 0.95, None, 6)
    result = run(task(limits={"snr": (20.0, math.inf)}, flips=flips))
    found = result.best.spent.flips
    assert found.value <= found.high <= 0.05
    assert found.confidence == pytest.approx(1 - 0.05 / 6)


class Judge:
    """An engine that builds, and refuses some models; it runs nothing."""

    name = "judge"

    def __init__(self, refuse):
        self.refuse, self.built = refuse, 0

    def describe(self):
        return {}

    @contextlib.contextmanager
    def prepare(self, model):
        self.built += 1
        if self.refuse(model):
            raise EngineBuildError("no tactic for it")
        yield None


def types(model):
    return {v.dtype for n in model.graph for v in n.outputs}


def test_what_a_judge_refuses_to_build_is_not_chosen(task):
    judge = Judge(lambda model: ir.DataType.FLOAT16 in types(model))
    result = run(dataclasses.replace(task(("float16", "int8-weights")), judges=[judge]))
    assert judge.built > 0
    assert "float16" not in result.best.names.values()
    assert "int8-weights" in result.best.names.values()
    refused = [s.refused for s in result.scores if s.format == "float16"]
    assert all("judge refuses it: no tactic" in why for why in refused)


def test_a_judge_that_refuses_the_original_has_no_say(task):
    result = run(dataclasses.replace(task(("float16",)), judges=[Judge(lambda model: True)]))
    assert "float16" in result.best.names.values()
    assert result.judges == {"judge": "no tactic for it"}


def test_a_whole_model_that_a_judge_refuses_is_rejected(task):
    def too_many(model):
        return sum(v.dtype is ir.DataType.INT8 for v in model.graph.initializers.values()) > 4

    result = run(dataclasses.replace(task(("int8-weights",)), judges=[Judge(too_many)]))
    assert any("judge refuses it" in tried.why for tried in result.tried)
    assert not too_many(result.model)


@each_of("evaluations", 1, 2)
def test_a_search_that_may_run_one_model_ends_if_it_fails(task, evaluations, monkeypatch):
    asked = dataclasses.replace(
        task(limits={"snr": (60.0, math.inf)}), evaluations=evaluations, score_all=True
    )

    search = TuningSearch(asked)
    measure = search._all.measure

    def measure_more(model):
        spent = measure(model)
        return dataclasses.replace(spent, shares=dict.fromkeys(spent.shares, 1.1))

    monkeypatch.setattr(search._all, "measure", measure_more)
    found = search.run()
    assert not [tried for tried in found.tried if tried.accepted]
    assert found.best.cost == found.start


def test_a_library_that_is_missing_is_told_before_groups_are_scored(task, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    told = []
    with pytest.raises(UsageError, match="scipy"):
        TuningSearch(task(limits={"snr": (50.0, math.inf)}), told.append).run()
    assert told[-1].endswith("recording the original")


def test_costs_of_what_is_accepted_have_units(task):
    told = []
    TuningSearch(task(limits={"snr": (50.0, math.inf)}), told.append).run()
    accepted = [line for line in told if line.startswith("accepted: ")]
    assert accepted
    assert all(re.fullmatch(r"accepted: cost \S+ kB of \S+ kB", line) for line in accepted)


def test_a_chain_of_smoothed_layers_holds_what_was_chosen(images, tmp_path):
    model = ir.load(Path(__file__).parents[2] / "benchmarks" / "tune" / "digits-7.onnx")
    ir.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "images.npy", images)
    (tmp_path / "tune.yaml").write_text(
        f"reference: {{inputs: {{image: {tmp_path / 'images.npy'}}}}}\n"
        "verify: {metrics: {snr: [25, .inf]}}\n"
        "tune: {formats: [int8-static-smooth], objective: size}\n"
    )
    words = ["tune", tmp_path / "model.onnx", "-c", tmp_path / "tune.yaml", "-o"]
    with pytest.raises(SystemExit) as end:
        main([*map(str, words), str(tmp_path / "out.onnx")])
    assert not end.value.code
    assert any(
        node.op_type == "QuantizeLinear" for node in ir.load(tmp_path / "out.onnx").graph
    )


def test_a_whole_model_without_its_formats_is_rejected(task, monkeypatch):
    """Each part holds its format, and all of them together do not."""
    real = onnx_passes.tuning.budget_search.audit

    def audit(saved, original, groups, names, *rest):
        found = real(saved, original, groups, names, *rest)
        several = sum(name != "float32" for name in names.values()) > 1
        return found or [AuditFinding("layer", "group", "it is wrong")] * several

    monkeypatch.setattr(onnx_passes.tuning.budget_search, "audit", audit)
    result = run(task(("int8-weights",)))
    assert sum(name != "float32" for name in result.best.names.values()) <= 1
    assert any("it is wrong" in tried.why for tried in result.tried)


@each_of("format_, told", ("int4-gptq", True), ("int8-weights", False))
def test_it_is_told_that_the_budget_was_measured_on_calibration_data(task, format_, told):
    asked = task(formats=[format_], limits={"snr": (20.0, math.inf)}, evaluations=1)
    found = to_json(run(dataclasses.replace(asked, sketch=asked.feeds)))
    assert found["fitted"] == ([format_] if told else [])
    assert any("rounded by the samples" in line for line in lines(found)) == told
    few = [{name: rows[:1] for name, rows in asked.feeds[0].items()}]
    assert to_json(run(dataclasses.replace(asked, sketch=few)))["fitted"] == []


# From a file to a search: its engine, and the samples that groups are scored on.


SETTINGS = {"verify": {"metrics": {"rmse": [0, 1]}}, "tune": {"formats": ["float16"]}}


@each_of("engines, arena", (None, False), (["onnxruntime"], True))
def test_sessions_of_large_models_share_no_memory(original, monkeypatch, engines, arena):
    images = np.zeros((4, 1, 8, 8), np.float32)
    reference = ReferenceData([{"image": images}], None, "a test")
    settings = SETTINGS if engines is None else SETTINGS | {"engines": engines}
    config = config_from_data(settings)
    assert task_of(original, config, reference).engine.memory_arena
    monkeypatch.setattr(tuning_task, "_LARGE", 1 << 10)
    assert task_of(original, config, reference).engine.memory_arena is arena


@each_of("sizes", (40,), (25, 15), (1,) * 40)
def test_groups_are_scored_on_rows_from_all_over_the_data(original, sizes):
    rows = np.arange(40.0, dtype=np.float32).reshape(40, 1, 1, 1) * np.ones((1, 8, 8))
    feeds = [{"image": part} for part in np.split(rows, np.cumsum(sizes)[:-1])]
    few = [feed["image"][:, 0, 0, 0] for feed in take_few(original, feeds, 5)]
    assert np.concatenate(few).tolist() == [0, 10, 20, 29, 39]
    assert len(take_few(original, feeds, 99)) == len(feeds)


LABELS = np.load(DIGITS / "labels.npy")
LIMITS = {"kl_divergence": (0.0, 1.0), "accuracy": (0.9, 1.0), "rmse": (0.0, 1e3)}


@pytest.fixture
def samples(original, images):
    budget = loss_budget.LossBudget(LIMITS, loss_budget.FlipLimit(0.2), [[LABELS]])
    engine = OnnxRuntimeEngine(optimization="all")
    return loss_budget.SamplesInMemory(original, engine, [{"image": images}], budget)


def test_a_coarse_model_uses_more_of_the_budget_than_the_original(task, ranges, samples):
    asked = task(formats=("int4-weights",))
    asked.ranges.update(ranges)
    coarse = asked.build({group.name: "int4-weights" for group in asked.groups})
    first, second = samples.begin(), samples.measure(coarse)
    assert first.values["kl_divergence"] == 0.0
    assert second.values["kl_divergence"] > 0.0
    assert second.flips.value > first.flips.value == 0.0
    assert 0.0 < second.total <= 1.0


def test_a_model_that_does_not_run_is_rejected(original, samples):
    samples.begin()
    wrong = ir.from_proto(ir.to_proto(original))
    next(node for node in wrong.graph if node.op_type == "Relu").op_type = "NoSuch"
    with pytest.raises(loss_budget.RejectedError, match="NoSuch"):
        samples.measure(wrong)
