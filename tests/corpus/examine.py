"""One backend test model through a pipeline: what became of it, and what was wrong."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.configs.resolve import resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.model.digest import canonical_hash
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import all_nodes
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.engine_base import Engine, Outputs
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.judge import compare
from onnx_passes.verify.reference_data import ReferenceData
from onnx_passes.verify.snapshot import Interface, compare_interfaces, interface_of
from tests.corpus.backend_models import BackendModel

EXACT = ("cleanup",)
"""Presets after which every bit is the same; what others compute is held to a tolerance."""

FREE, DROPS = 4, "remove-initializers-from-inputs"
"""The IR version from which on weights need not be inputs, and the pass for those that are."""

RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomUniformLike", "RandomNormalLike"}


def preset(name: str) -> PipelineConfig:
    """Return a pipeline that ships with the package, on the engines that need no extra."""
    return load_config(name).model_copy(update={"engines": default_config().engines})


def contract_of(name: str) -> Equality | Tolerance:
    """Return what the result of a preset is held to."""
    return Equality() if name in EXACT else Tolerance()


def examine(case, config, contract, folder, *, given=True):
    """Run one model through a pipeline; return what became of it, and what was wrong.

    Args:
        case: The model.
        config: The pipeline.
        contract: What results are held to, apart from what the gate says.
        folder: For the files.
        given: Whether the gate gets the case's own inputs; it makes some up if not.
    """
    source, target = folder / "model.onnx", folder / "result.onnx"
    source.write_bytes(case.model.SerializeToString())
    try:
        loaded = load_model(source)
        original = loaded.model.clone()
        run, reason = verified_run(loaded.model, case, config, given=given)
        if run.error is not None:
            return "failed", str(run.report.error)
        save_model(run.model, target, source=loaded)
        result = load_model(target).model
        onnx.checker.check_model(target)
    except OnnxPassesError as error:
        return "refused", f"{type(error).__name__}: {error}"
    changes = interface_changes(original, result, config)
    if changes:
        return "interface", "; ".join(changes)
    engine, stand_in = engine_for(original, case)
    if reason is not None or engine is None:
        return unrun(original, result, f"no engine runs it: {reason or stand_in}"), None
    if is_random(engine, original, case):
        return unrun(original, result, "another result each time even before"), None
    # Sequences and operators without a kernel have no result in float64 to be judged by.
    open_ = [note for note in run.report.not_verified if "so tolerances decide" not in note]
    if open_ or run.report.exit_code:
        return "not verified", f"{run.report.exit_code}: {open_}"
    before, after = outputs(engine, original, case), outputs(engine, result, case)
    wrong = differences(before, after, contract)
    checked = [c for c in run.report.final if c.verdict is not Verdict.UNCHANGED]
    computed = "verified" if checked else "computes what it did: only the test ran it,"
    outcome = f"{computed} on {why(stand_in) if stand_in else 'onnxruntime'}"
    expected = [values for _, values in case.samples]
    told = told_of(case)
    if differences(expected, before, told):
        return f"{outcome}; its outputs are not those of the suite even before", wrong or None
    return outcome, wrong or differences(expected, after, told) or None


def unrun(original: ir.Model, result: ir.Model, reason: str) -> str:
    """Say what became of a model with no results to compare, but perhaps the same graph."""
    before, after = (canonical_hash(m, annotations=False) for m in (original, result))
    known = "computes what it did, by its hash" if before == after else "not verified"
    return f"{known}; {reason}"


def told_of(case: BackendModel) -> Tolerance:
    """Return what the suite allows, which is less than what bfloat16 rounds by."""
    values = [value for _, expected in case.samples for value in expected.values()]
    if any(str(getattr(value, "dtype", "")) == "bfloat16" for value in values):
        return Tolerance()
    return Tolerance(case.rtol, case.atol)


def interface_changes(before: ir.Model, after: ir.Model, config: PipelineConfig) -> list[str]:
    """Say what changed that may not; a pass may declare that it drops inputs with defaults."""
    declared = {part for step in resolve(config).passes for part in step.cls.interface_changes}
    if not declared:
        return compare_interfaces(interface_of(before), interface_of(after))
    assert declared == {"inputs"}, "no other pass of a preset changes the interface"
    old, new = interface_of(before), interface_of(after)
    if before.ir_version >= FREE and not _drops_all_defaults(config):
        return compare_interfaces(old, new)
    kept = tuple(port for port in old.inputs if not port.default)
    return compare_interfaces(Interface(kept, old.outputs), new)


def _drops_all_defaults(config: PipelineConfig) -> bool:
    """Whether a pipeline drops defaults of models of every IR version."""
    uses = [use for use in config.passes if getattr(use, "name", "") == DROPS]
    return any(not use.options for use in uses)


def engine_for(model: ir.Model, case: BackendModel) -> tuple[Engine | None, str]:
    """Return what runs the original, and why ONNX Runtime does not where it does not."""
    reason = ""
    for engine in (OnnxRuntimeEngine(prepacking=False), ReferenceEngine()):
        try:
            outputs(engine, model, case)
        except EngineError as error:
            reason = reason or error.message.splitlines()[0]
        else:
            return engine, reason
    return None, reason


def why(stand_in: str) -> str:
    """Return the kind of reason for which onnx's reference evaluator stands in."""
    kinds = {
        "and this ONNX Runtime knows": "its opset or IR version is too new",
        "Could not find an implementation": "an operator or type is missing",
        "Failed to find kernel": "an operator or type is missing",
        "is not a registered function/op": "an operator or type is missing",
        "locale": "this machine lacks the locale",
    }
    found = (kind for words, kind in kinds.items() if words in stand_in)
    return f"reference, since onnxruntime cannot: {next(found, 'it rejects the model')}"


def verified_run(model, case, config, *, given):
    """Run verified on the case's own inputs; unverified where no engine runs the original."""
    untouched = model.clone()
    samples = [feeds for feeds, _ in case.samples if given]
    reference = ReferenceData(samples, None, "onnx") if samples else None
    try:
        return run_pipeline(model, config, name=case.id, reference=reference), None
    except EngineError as error:
        quiet = config.model_copy(
            update={"verify": config.verify.model_copy(update={"enabled": False})}
        )
        return run_pipeline(untouched, quiet, name=case.id), error.message.splitlines()[0]


def is_random(engine: Engine, model: ir.Model, case: BackendModel) -> bool:
    """Whether two runs of the original differ, so that there is nothing to compare with."""
    if not any(node.op_type in RANDOM for node in all_nodes(model)):
        return False
    runs = [outputs(engine, model, case) for _ in range(5)]
    return any(differences(runs[0], again, Equality()) for again in runs[1:])


def outputs(engine: Engine, model: ir.Model, case: BackendModel) -> list[Outputs]:
    with engine.prepare(model) as session:
        return [session.run(feeds) for feeds, _ in case.samples]


def differences(expected, actual, contract):
    """Say in which outputs two runs differ, apart from what the gate says."""
    return "; ".join(
        f"{check.output}: {check.reason}"
        for before, after in zip(expected, actual, strict=True)
        for check in compare(before, after, contract)
        if not check.passed
    )
