"""What ``onnx-passes reduce`` does with its options."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.data_options import refuse_without_data
from onnx_passes.cli.destinations import check_destinations
from onnx_passes.cli.printing import echo_line
from onnx_passes.cli.reduce_checks import make_check
from onnx_passes.cli.reduce_on_data import plan_data, refuse_data
from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.plain import PlainMapping
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.model.load import LoadedModel
    from onnx_passes.runtime.engine_base import Array
    from onnx_passes.verify.reduce import Boundary, Reduction
    from onnx_passes.verify.reduce.command import CommandCheck
    from onnx_passes.verify.reduce.ledger import Trial


_IN_PROCESS, _COMMAND = 200, 40  # checks that may go into dimensions and values


def reduce_file(path: Path, output: Path, given: PlainMapping) -> None:
    """Reduce the model of a file; write the result and print what it is.

    Args:
        path: The model.
        output: Where the result is written.
        given: Values of the options by name.
    """
    check_options(given)
    _places(path, output, given)
    from onnx_passes.model.load import load_model
    from onnx_passes.runtime.large_models import engine_for
    from onnx_passes.verify.reduce import Boundary, Reducer
    from onnx_passes.verify.reduce.artifacts import Artifacts
    from onnx_passes.verify.reduce.command import CommandCheck
    from onnx_passes.verify.reduce.parts import Parts
    from onnx_passes.verify.reduce.store import CandidateStore

    loaded = load_model(path)
    model = loaded.model
    golden = _read_golden(given["load_inputs"], model)
    _set_shapes(model, given["model_input_shapes"])
    _fits(golden, model, given["load_inputs"])
    if given["passes"] or given["config"]:
        infer_shapes(model)  # passes look at inner values, other checks at cuts only
    boundary = Boundary(
        model,
        engine_for(model),
        golden,
        fixed=given["fallback_shape_inference"],
    )
    parts = Parts(
        model,
        boundary,
        keep_inputs=given["no_reduce_inputs"],
        keep_outputs=given["no_reduce_outputs"],
    )
    artifacts = Artifacts(model, given["artifacts"]) if given["artifacts"] else None

    def tell(trial: Trial) -> None:
        if artifacts is not None:
            artifacts.keep(trial)
        if not given["quiet"]:
            echo_line(_progress(trial, len(parts.nodes)), err=True)

    by_command = bool(given["check"]) or given["interactive"]
    plan = plan_data(given, model) if given["data"] else None
    kept = _why_not_smaller(given, by_command and _inner(golden, model))
    limit = _COMMAND if by_command else _IN_PROCESS
    folder = None
    if given["interactive"] or (given["check"] and "{model}" not in given["check"]):
        folder = given["iter_artifact"].absolute().parent
    with CandidateStore(model, folder) as store, ExitStack() as stack:
        check = make_check(given, store, boundary, plan, stack)
        found = Reducer(
            parts,
            check,
            given["mode"],
            tell=tell,
            replay=given["replay"],
            shrink=0 if given["no_shrink"] or kept else limit,
            every=given["every"],
        ).run()
        if isinstance(check, CommandCheck) and check.warm:
            found = _confirm(found, check)
    if kept and not given["no_shrink"]:
        why = f"dimensions and values were left as they are, since {kept} with them"
        found = replace(found, notes=(*found.notes, why))
    written = _write(found, loaded, output, given["min_good"])
    _tell(found, written, boundary, as_json=given["as_json"])


def _why_not_smaller(given: PlainMapping, inner: bool) -> str | None:
    """Return why dimensions and values cannot get smaller, as a clause; None if they can."""
    if given["data"]:
        return "the data goes"
    return "golden values go" if inner or given["against"] == "golden" else None


def _confirm(found: Reduction, check: CommandCheck) -> Reduction:
    """Check that the result fails in a process of its own too."""
    from onnx_passes.verify.reduce.outcome import SmallerModel

    outcome = replace(check, warm=False).judge(
        SmallerModel(found.model, lambda: found.feeds), found.checks + 1
    )
    if not outcome.bad:
        raise UsageError(
            "--warm: the result does not fail when the command is started anew"
            f" ({outcome.told})",
            help="what the script does depends on how it is started: leave --warm out",
        )
    return replace(found, checks=found.checks + 1)


def _places(path: Path, output: Path, given: PlainMapping) -> None:
    files = {
        "-o": output,
        "--min-good": given["min_good"],
        "--replay": given["replay"],
        "--iter-artifact": given["iter_artifact"],
    }
    read = {"the model": [path]}
    if given["load_inputs"]:
        read["the golden values"] = [Path(given["load_inputs"])]
    for option, file in files.items():
        if file is not None and file.exists() and path.exists() and file.samefile(path):
            raise UsageError(
                f"{option} {file} is the model itself, which stays as it is",
                help="give another path",
            )
    check_destinations(output, {k: v for k, v in files.items() if k != "-o"}, read)
    placed = "{model}" in (given["check"] or "")
    if (
        (given["check"] or given["interactive"])
        and not placed
        and given["iter_artifact"].exists()
    ):
        raise UsageError(
            f"{given['iter_artifact']} exists already, and candidates are written there",
            help="remove it, or name another file by --iter-artifact",
        )
    if given["artifacts"] and given["artifacts"].exists() and not given["artifacts"].is_dir():
        raise UsageError(f"--artifacts {given['artifacts']} is not a folder")


def infer_shapes(model: ir.Model) -> None:
    """Say what is known of inner values; onnx-ir's pass loads in a fraction of ours' time."""
    from onnx_ir.passes.common import ShapeInferencePass

    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)


def _read_golden(path: str | None, model: ir.Model) -> dict[str, Array]:
    if path is None:
        return {}
    from onnx_passes.verify.saved import read_samples

    samples = read_samples(path)
    known = {str(value.name) for value in model.graph.inputs}
    known |= {str(v.name) for node in model.graph for v in node.outputs if v.name}
    values = samples[0] if samples else {}
    if values and not known & values.keys():
        raise ReferenceDataError(
            f"the file holds no value of this model, but {', '.join(list(values)[:3])}",
            where=path,
            help="see that it was saved from this model: onnx-passes data show " + path,
        )
    return {name: array for name, array in values.items() if name in known}


def _fits(golden: Mapping[str, Array], model: ir.Model, path: str | None) -> None:
    """Check values for the inputs, where all are given."""
    from onnx_passes.verify.feeds import check_feeds

    inputs = [str(v.name) for v in model.graph.inputs if not v.is_initializer()]
    if path is not None and golden and all(name in golden for name in inputs):
        feeds = {name: golden[name] for name in inputs}
        check_feeds(feeds, model, dict.fromkeys(inputs, path), allow_nan=True)


def _inner(golden: Mapping[str, Array], model: ir.Model) -> bool:
    return any(value.name in golden for node in model.graph for value in node.outputs)


def _set_shapes(model: ir.Model, texts: Sequence[str]) -> None:
    import onnx_ir as ir

    from onnx_passes.runtime.interface import did_you_mean

    inputs = {str(value.name): value for value in model.graph.inputs}
    for text in texts:
        name, _, dims = text.rpartition(":")
        sizes = re.findall(r"\d+", dims)
        if not name or not re.fullmatch(r"\[?(\d{1,18}([x,]\d{1,18})*)?\]?", dims):
            raise UsageError(
                f"--model-input-shapes {text!r} is not a name and a shape",
                help="write name:1x3x224x224, or name:[1,3,224,224]",
            )
        if name not in inputs:
            raise UsageError(
                f"--model-input-shapes: the model has no input {name!r}",
                help=did_you_mean(name, inputs),
            )
        old = inputs[name].shape
        if old is not None and len(old) != len(sizes):
            raise UsageError(
                f"--model-input-shapes: {name!r} has {len(old)} dimensions, not {len(sizes)}"
            )
        inputs[name].shape = ir.Shape([int(size) for size in sizes])


def _progress(trial: Trial, total: int) -> str:
    outcome = trial.outcome
    took = "replayed" if trial.replayed else f"{trial.seconds:.2f} s"
    told = "".join(c if c.isprintable() else "?" for c in outcome.told)
    return (
        f"{trial.number:4d}  {trial.nodes:{len(str(total))}d} of {total} nodes  "
        f"{outcome.status.value:8s}  {took:>8s}  {told}"
    ).rstrip()


def _write(
    found: Reduction, loaded: LoadedModel, output: Path, min_good: Path | None
) -> dict[str, str]:
    import numpy as np

    from onnx_passes.model.save import save_model
    from onnx_passes.verify.saved import write_samples

    written = {"model": str(output)}
    save_model(found.model, output, source=loaded)
    arrays = {k: v for k, v in (found.feeds or {}).items() if isinstance(v, np.ndarray)}
    if found.feeds is not None and len(arrays) == len(found.feeds) and arrays:
        values = output.with_name(f"{output.stem}-inputs.npz")
        write_samples(values, [arrays])
        written["inputs"] = str(values)
    for number, other in enumerate(found.others, 2):
        path = output.with_name(f"{output.stem}-{number}{output.suffix}")
        save_model(other, path, source=loaded)
        written[f"other {number}"] = str(path)
    if min_good is not None and found.good is not None:
        save_model(found.good, min_good, source=loaded)
        written["good"] = str(min_good)
    return written


def _tell(
    found: Reduction, written: Mapping[str, str], boundary: Boundary, *, as_json: bool
) -> None:
    nodes = [
        {
            "name": node.name or "",
            "operator": node.op_type if not node.domain else f"{node.domain}::{node.op_type}",
        }
        for node in found.model.graph
    ]
    notes = list(found.notes)
    if boundary.why is not None:
        notes.append(f"values at the cuts are not known: {boundary.why}")
    if as_json:
        told = {
            "before": found.before,
            "after": found.after,
            "checks": found.checks,
            "replayed": found.replayed,
            "failure": found.told,
            "nodes": nodes,
            "others": [len(model.graph) for model in found.others],
            "written": dict(written),
            "notes": notes,
        }
        click.echo(json.dumps(told, indent=2))
        return
    replayed = f", {found.replayed} replayed" if found.replayed else ""
    checks = f"{found.checks} checks{replayed}"
    echo_line(f"{found.before} -> {plural(found.after, 'node')} in {checks}: {found.told}")
    for node in nodes[:10]:
        echo_line(f"  {node['operator']} {node['name']}")
    if len(nodes) > 10:
        click.echo(f"  and {len(nodes) - 10} more")
    for what, path in written.items():
        echo_line(f"{what + ':':9s}{path}")
    for note in notes:
        echo_line(f"note: {note}")


# Which checks an option says something to.
_OF = {
    "warm": ("--check",),
    "fail_code": ("--check",),
    "ignore_fail_code": ("--check",),
    "fail_regex": ("--check",),
    "against": ("--engine",),
    "rtol": ("--engine", "--pass"),
    "atol": ("--engine", "--pass"),
}


def check_options(given: PlainMapping) -> None:
    """Check what the words alone show.

    Raises:
        UsageError: Options do not go together, or a number is out of range.
    """
    check = _one_check(given)
    for name, checks in _OF.items():
        if given[name] not in (None, (), False) and check not in checks:
            option = f"--{name.replace('_', '-')}"
            what = ": what to hold against it" if name == "against" else f", not {check}"
            raise UsageError(f"{option} needs {' or '.join(checks)}{what}")
    if given["data"]:
        refuse_data(given)
    else:
        refuse_without_data({name: v for name, v in given.items() if name != "jobs"})
    if given["jobs"] > 1 and check != "--check" and not given["data"]:
        raise UsageError(f"-j {given['jobs']} needs --check: {check} is asked one at a time")
    for name in ("rtol", "atol", "timeout"):
        number = given[name]
        low = "more than 0" if name == "timeout" else "0 or more"
        if number is not None and (
            not math.isfinite(number) or number < 0 or (name == "timeout" and not number)
        ):
            raise UsageError(f"--{name} {number:g}: it has to be a number, {low}")
    both = sorted({*given["fail_code"]} & {*given["ignore_fail_code"]})
    if both:
        raise UsageError(
            f"--fail-code {both[0]} and --ignore-fail-code {both[0]} contradict each other",
            help="give each exit code to one of them",
        )
    if given["no_reduce_inputs"] and given["no_reduce_outputs"]:
        raise UsageError(
            "--no-reduce-inputs and --no-reduce-outputs together leave nothing to take away"
        )
    if given["against"] == "golden" and not given["load_inputs"]:
        raise UsageError(
            "--against golden needs --load-inputs: the golden values",
            help="record them: onnx-passes compare MODEL --outputs all --save-outputs FILE",
        )


def _one_check(given: PlainMapping) -> str:
    asked = [
        option
        for option, value in (
            ("--check", given["check"] is not None),
            ("--check-function", given["check_function"]),
            ("--engine", given["engine"]),
            ("--pass", given["passes"] or given["config"]),
            ("--interactive", given["interactive"]),
        )
        if value
    ]
    if len(asked) != 1:
        raise UsageError(
            f"{' and '.join(asked)} are {len(asked)} checks"
            if asked
            else "nothing says what fails",
            help="give one of --check, --check-function, --engine, --pass and --interactive",
        )
    return asked[0]
