"""``onnx-passes certify``: every rewrite rule verified on its own."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import file, flag, option, several
from onnx_passes.cli.output import advance, echo_line, echo_lines
from onnx_passes.errors import OnnxPassesError, UsageError, VerificationError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.report_files import write_text
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    from onnx_passes.certifying.certificates import Keys
    from onnx_passes.certifying.rewrite_rule import Job
    from onnx_passes.passes.base import Pass
    from onnx_passes.passes.registry import Scope


BY_METRICS = "promises metrics, which a pipeline measures on its data; no certificate"


@dataclass(frozen=True)
class Target:
    """One thing to certify; ``problem`` says why it cannot be.

    ``subject`` is ``module:object``. Rules from outside have no ``cls``; passes that are not
    rewrites have no ``rules``.
    """

    name: str
    subject: str
    rules: int | None
    cls: type[Pass] | None = None
    problem: str = ""

    @property
    def by_metrics(self) -> bool:
        """Whether the pass promises metrics alone, which need a user's data."""
        from onnx_passes.contracts import Metric

        promised = () if self.cls is None else self.cls.contracts()
        return bool(promised) and all(isinstance(one, Metric) for one in promised)

    def indices(self, level: str) -> Sequence[int | None]:
        """Return what a child is started for: each rule, or the pass as a whole."""
        if self.by_metrics:
            return ()
        if self.rules is not None:
            return range(self.rules)
        return [] if level == "prove" else [None]


def targets_of(
    names: Sequence[str | type[Pass]], scope: Scope, *, everything: bool
) -> list[Target]:
    """Return the passes that names mean."""
    from onnx_passes.passes.registry import all_passes, collect

    chosen = dict.fromkeys(all_passes() if everything else collect(names, scope))
    places = {cls: f"{cls.__module__}:{cls.__qualname__}" for cls in chosen}
    return [_target(cls.name, place, cls, cls) for cls, place in places.items()]


def outside_target(subject: str) -> Target:
    """Return a rule, or a pass, of ``module:object``."""
    from onnx_passes.certifying.rewrite_rule import resolve

    try:
        return _target(subject, subject, resolve(subject), None)
    except OnnxPassesError as error:
        return Target(subject, subject, 0, problem=str(error))


def _target(name: str, subject: str, found: object, cls: type[Pass] | None) -> Target:
    from onnx_passes.certifying.rewrite_rule import rules_of
    from onnx_passes.passes.base import Pass, RewriteRulePass, RewriteRuleSetPass

    of_rules = RewriteRulePass | RewriteRuleSetPass
    if isinstance(found, type) and issubclass(found, Pass) and not issubclass(found, of_rules):
        return Target(name, subject, None, cls)
    try:
        return Target(name, subject, len(rules_of(found)), cls)
    except Exception as error:
        problem = f"cannot be made without options: {error}"
        return Target(name, subject, 0, cls, problem if cls else str(error))


CERTIFICATES = "certificates"
_MOST_FAULTS = 50
_MODELS = 100


class Seconds(click.ParamType[float]):
    """A duration: ``10``, ``10s``, ``2m``."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)?", str(value))
        if match is None or float(match[1]) == 0:
            self.fail(f"{value!r} is not a time; write 10s or 2m", param, ctx)
        return float(match[1]) * {"ms": 0.001, "m": 60.0}.get(match[2], 1.0)


@click.command("certify")
@click.argument("passes", nargs=-1, metavar="[PASS]...")
@several("--rules MODULE:OBJECT", "Rules or passes of another module.")
@option("-c --config FILE", "Certify the passes of this pipeline, with its imports.")
@option(
    "--level",
    "Property test, proof (needs z3), or both.",
    type=click.Choice(["test", "prove", "all"]),
    default="all",
    show_default=True,
)
@option(
    "--time",
    "Limit of the property test of a rule, which is undecided after it.",
    type=Seconds(),
    default="10m",
    show_default=True,
)
@option(
    "--models",
    "Models that the property test of a rule draws, besides those it enumerates. "
    "For a pass that names the kinds of models it is tested on: those that it changes, 200 "
    f"by default. Default of others: {_MODELS}.",
    type=click.IntRange(1),
)
@flag("--all-faults", "Continue after the first fault, and list each distinct cause.")
@option("-j jobs", "Rules certified at once.", type=click.IntRange(1), default=1)
@file("--json json_file", "Write verdicts.")
@option("--seed", "Seed of all random choices.", type=click.IntRange(0), default=0)
@flag("--write", "Write the certificates of passes.")
@flag("--check", "Only check certificates; warn of stale ones.")
@flag("--strict", "With --check, refuse stale certificates.")
@flag("--stale", "Certify only passes whose certificate --check would renew.")
@file(
    "--certificates folder", "Folder of certificates.", default=CERTIFICATES, show_default=True
)
@file(
    "--reproducers",
    "Folder that refutations are written under.",
    default="reproducers",
    show_default=True,
)
def command(
    passes: tuple[str, ...],
    rules: tuple[str, ...],
    config: str | None,
    level: str,
    time: float,
    models: int | None,
    all_faults: bool,
    jobs: int,
    json_file: Path | None,
    seed: int,
    write: bool,
    check: bool,
    strict: bool,
    stale: bool,
    folder: Path,
    reproducers: Path,
) -> None:
    """Test and prove rewrite rules on their own, without a model.

    Without PASS and --rules: those of -c, or all registered passes.

    Examples:
      onnx-passes certify fuse-gelu --time 30s
      onnx-passes certify -c pipeline.yaml
      onnx-passes certify --rules my_rules:RULES --level test --json verdicts.json
    """
    from onnx_passes.certifying.rule_paths import cap
    from onnx_passes.cli.pass_descriptions import (
        import_from,
        importable_by_children,
        passes_of,
    )

    importable_by_children(config)
    scope = import_from(config)
    used = () if config is None else passes_of(config)
    chosen = passes or (() if rules else used)
    everything = not (passes or rules or config)
    targets = [*targets_of(chosen, scope, everything=everything), *map(outside_target, rules)]
    store = _Store.of(folder) if check or stale or write else None
    if check and store is not None:
        _check(targets, store, strict=strict)
        return
    if stale and store is not None:
        targets = [target for target in targets if _is_stale(target, store)]
    given = {"seed": seed, "seconds": time, "level": level}
    bounds = {target: {**given, "models": models or _models(target)} for target in targets}
    faults = _MOST_FAULTS if all_faults else 1
    work = [
        _job(target, index, {**bounds[target], "faults": faults}, reproducers)
        for target in targets
        for index in target.indices(level)
    ]
    rows = []
    with closing(_run_jobs(work, jobs)) as results:
        for target in targets:
            found = [next(results) for _ in target.indices(level)]
            cap(found)
            rows.append(show_verdicts(target, found))
            if store is not None and write and target.cls is not None and found:
                _write(target, found, bounds[target], store)
    if json_file is not None:
        write_text(json.dumps(rows, indent=1) + "\n", json_file)
    verdicts = [rule for row in rows for rule in row["rules"]]
    if any(r["verdict"] == "refuted" for r in verdicts):
        raise click.exceptions.Exit(1)
    if any(t.problem for t in targets):
        raise click.exceptions.Exit(2)
    if any(r["verdict"] in ("undecided", "never fired") for r in verdicts):
        raise click.exceptions.Exit(4)


def _job(target: Target, index: int | None, bounds: PlainDict, to: Path) -> Job:
    from onnx_passes.certifying.rewrite_rule import Job

    name = re.sub(r"[^\w.-]+", "-", target.name)
    folder = str((to / (name if index is None else f"{name}-{index}")).absolute())
    return Job(target.subject, index, folder=folder, **bounds)


@dataclass(frozen=True)
class _Store:
    """The certificates of a folder, as they are when a command begins."""

    folder: Path
    lines: Mapping[str, Sequence[PlainMapping]]
    keys: Keys

    @classmethod
    def of(cls, folder: Path) -> _Store:
        """Read the certificates of a folder."""
        from onnx_passes.certifying.certificates import Keys, read_certificates

        return cls(folder, read_certificates(folder), Keys())


def _is_stale(target: Target, store: _Store) -> bool:
    """Whether the certificate of a target is stale, missing, or does not hold."""
    from onnx_passes.certifying.certificates import check_certificate

    if target.cls is None or target.by_metrics:
        return False
    try:
        return bool(check_certificate(target.cls, target.name, store.lines, store.keys))
    except VerificationError:
        return True


def _models(target: Target) -> int:
    """Return how many models are drawn."""
    from onnx_passes.certifying.models.fuzz_pass import models_wanted

    if target.cls is None or target.rules is not None:
        return _MODELS
    return models_wanted(target.cls)


def _run_jobs(work: Sequence[Job], jobs: int) -> Generator[PlainDict]:
    """Yield the verdicts in the order of the work, each as soon as it is there."""
    from onnx_passes.certifying.certification import certify_apart, end_children

    pool = ThreadPoolExecutor(jobs)
    try:
        advance(0, len(work), "rule")
        for done, found in enumerate(pool.map(certify_apart, work), 1):
            advance(done, len(work), "rule")
            yield found
    except BaseException:
        # Ctrl-C, here or where results are read: the children have a session of their own,
        # and would run to their limits.
        pool.shutdown(wait=False, cancel_futures=True)
        end_children()
        raise
    finally:
        pool.shutdown()


def _write(
    target: Target, results: Sequence[PlainDict], bounds: PlainDict, store: _Store
) -> None:
    from onnx_passes.certifying.certificates import certificate, write_certificate

    assert target.cls is not None
    lines = certificate(target.cls, target.name, results, bounds, store.keys)
    path = write_certificate(target.name, lines, store.folder)
    echo_line(f"  wrote {plural(len(lines), 'line')} of {path}")


def _check(targets: Sequence[Target], store: _Store, *, strict: bool) -> None:
    from onnx_passes.certifying.certificates import RENEW, check_certificate, unexplored

    faults = []
    for target in targets:
        if target.cls is None:
            raise UsageError("--check is for passes; rules from outside have no certificate")
        if target.by_metrics:
            echo_line(f"{target.name}: {BY_METRICS}")
            continue
        try:
            stale = check_certificate(target.cls, target.name, store.lines, store.keys)
        except VerificationError as error:
            faults.append(str(error))
            continue
        click.echo(f"{target.name}: {'stale' if stale else 'fresh'}")
        if stale:
            said = f"{target.name} is stale: {'; '.join(stale)}"
            echo_line(f"warning: {said}; run: {RENEW.format(name=target.name)}", err=True)
            faults.extend([said] * strict)
        for said in unexplored(store.lines[target.name]):
            echo_line(f"warning: {said}", err=True)
            faults.extend([said] * strict)
    if faults:
        raise VerificationError("\n".join(faults))


_WHERE = " where the original is finite (pipelines compare NaN and infinities, too)"


def show_verdicts(target: Target, results: Sequence[PlainDict]) -> PlainDict:
    """Print the verdicts on a target, and return them as plain data."""
    click.secho(target.name, bold=True)
    if target.problem:
        echo_lines(f"  {line}" for line in f"not run: {target.problem}".splitlines())
    elif target.by_metrics:
        echo_line(f"  {BY_METRICS}")
    elif target.rules is None and not results:
        click.echo("  not a rewrite rule: there is nothing to prove")
    for result in results:
        echo_line(f"  {result['rule']}: {_line(result)}")
        if "counterexample" in result:
            click.echo("    " + result["counterexample"].replace("\n", "\n    "))
        for sort, text in result.get("further", ()):
            click.echo(f"    {sort}: " + text.replace("\n", "\n    "))
        if "folder" in result:
            echo_line(f"    python {result['folder']}/repro.py")
    reason = target.problem
    if target.by_metrics:
        reason = BY_METRICS
    elif target.rules is None and not results:
        reason = "not a rewrite rule"
    return {"name": target.name, "not_run": reason, "rules": list(results)}


def _line(result: PlainDict) -> str:
    parts = [result["verdict"]]
    if result["verdict"] == "refuted" and result.get("cause"):
        parts.append(result["cause"])
    tested = result.get("tested")
    if tested and "changed" in tested:
        refused = f", {tested['refused']} refused" if tested["refused"] else ""
        models = plural(tested["models"], "random model")
        parts.append(f"{models}, {tested['changed']} changed{refused}")
    elif tested:
        parts.append(
            f"{plural(tested['models'], 'model')}, {plural(tested['firings'], 'firing')}, "
            f"types {' '.join(tested['dtypes']) or 'none'}"
        )
    if result.get("claim"):
        parts.append(f"proved: {result['claim']}")
    if result["reason"]:
        parts.append(result["reason"])
    if result["contract"]:
        loose = result["contract"] == "tolerance"
        parts.append(f"supports {result['contract']}{_WHERE if loose else ''}")
    for kind, error in (tested or {}).get("errors", {}).items():
        parts.append(f"{kind} off by at most {error['rtol']:.2g} of the largest element")
    if result.get("declared"):
        parts.append(f"declared {result['declared']}")
    return "; ".join(parts)
