"""Certificates: a line for each rule says what was found of it, with the key of its code.

A line holds while its key does. The key covers the definitions that the pass reaches, the
descriptions of the operators that the models of the rule had, and the number of the verifier.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from onnx.defs import onnx_opset_version

from onnx_passes.certifying.definitions import Definitions, package_folder
from onnx_passes.certifying.proof import CUTS
from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.ops.bodies import body_writer
from onnx_passes.ops.bodies.attach import Body
from onnx_passes.ops.operator_class import Operator, find
from onnx_passes.plain import PlainDict, PlainMapping

VERIFIER = 4
"""Raised when the verdict on a rule may change; a test holds it to a frozen set of rules."""
ON_MODELS = 1
"""The same for passes that are tested on random models."""

FILE = "rules.jsonl"
RENEW = "onnx-passes certify {name} --write"

_PACKAGE = "onnx_passes"
_PARTS = ("code of {name}", "description of an operator of its models", "rule verifier")
"""What the parts of a key cover."""


@dataclass
class Keys:
    """The keys of rules, by definitions that are read once."""

    _places: dict[tuple[str, Path | None], Definitions] = field(default_factory=dict)

    def of(
        self, cls: type[object], operators: Iterable[str], *, on_models: bool = False
    ) -> str:
        """Return the key of a rule, or of a pass that is tested on random models.

        Operators outside the main domain have it in front. UsageError if the class has no
        source file, or a helper is not Python.
        """
        number = ON_MODELS if on_models else VERIFIER
        return f"{self._of_code(cls)}.{self._of_operators(operators)}.{number}"

    def _of_code(self, cls: type[object]) -> str:
        module, name = cls.__module__, cls.__qualname__.partition(".")[0]
        try:
            own = Path(inspect.getfile(cls))
            top = module.partition(".")[0]
            beside = None if package_folder(top) is not None else own.resolve()
            return self._definitions(module, beside).key(module, name)[:16]
        except (LookupError, TypeError, OSError, SyntaxError, ValueError) as error:
            raise UsageError(
                f"{cls.__name__} has no source file to certify: {error}"
            ) from None

    def _of_operators(self, operators: Iterable[str]) -> str:
        found = []
        for name in sorted(operators):
            domain, _, op_type = name.rpartition(":")
            keys = {
                self._definitions(_PACKAGE, None).key(each.__module__, each.__name__)
                for each in _described(domain, op_type)
                if each.__module__.startswith(f"{_PACKAGE}.")
            }
            found.append(" ".join([name, *sorted(keys)]))
        return _digest("\n".join(found))

    def _definitions(self, module: str, beside: Path | None) -> Definitions:
        top = module.partition(".")[0]
        if (top, beside) not in self._places:
            tops = {name: package_folder(name) for name in (_PACKAGE, top)}
            folders = {name: folder for name, folder in tops.items() if folder is not None}
            files = {} if beside is None else {**_neighbours(beside), module: beside}
            self._places[top, beside] = Definitions(folders, files)
        return self._places[top, beside]


@cache
def _described(domain: str, op_type: str) -> frozenset[type[Operator] | Body]:
    """Return what describes an operator: the classes of its versions, and its body."""
    opsets = (None, *range(1, onnx_opset_version() + 1))
    versions = [find(domain, op_type, opset) for opset in opsets]
    writer = body_writer(domain, op_type)
    return frozenset([*(type(v) for v in versions if v), *([writer] if writer else [])])


def _neighbours(file: Path) -> dict[str, Path]:
    """Return the modules beside a script by name; installed ones are strangers."""
    if file.parent.name in ("site-packages", "dist-packages"):
        return {}
    return {path.stem: path for path in file.parent.glob("*.py")}


def certificate(
    cls: type[object],
    name: str,
    results: Sequence[PlainMapping],
    bounds: PlainMapping,
    keys: Keys,
) -> list[PlainDict]:
    """Return the lines of a pass, one for each of its rules."""
    return [_line(cls, name, result, bounds, keys) for result in results]


def _line(
    cls: type[object], name: str, result: PlainMapping, bounds: PlainMapping, keys: Keys
) -> PlainDict:
    tested, proof = result.get("tested") or {}, result.get("proof") or {}
    operators = list(tested.get("operators", ()))
    proved = result["verdict"] == "proved"
    weak = result["verdict"] in ("never fired", "undecided", "refuted")
    opsets = sorted(int(opset) for opset in tested.get("opsets", {}))
    found = {
        "pass": name,
        "rule": result["rule"],
        "key": keys.of(cls, operators, on_models="changed" in tested),
        "verdict": result["verdict"],
        "claim": _claim(proof) if proved else "",
        "contract": result.get("contract"),
        "wrong": result["verdict"] == "refuted",
        "reason": result["reason"] if weak else "",
        "finite": bool(result.get("assumes")),
        "asked": bounds.get("models"),
        "models": tested.get("models", 0),
        "changed": tested.get("changed"),
        "firings": tested.get("firings", 0),
        "opsets": [opsets[0], opsets[-1]] if opsets else None,
        "types": sorted(tested.get("dtypes", {})),
        "error": max((e["rtol"] for e in tested.get("errors", {}).values()), default=0),
        "templates": proof.get("templates", 0) if proved else 0,
        "never_ran": result.get("never_ran", ""),
        "paths": result.get("paths", "") if proved else "",
        "operators": operators,
    }
    if found["error"]:
        found["error"] = float(f"{found['error']:.1e}")
    line = {key: v for key, v in found.items() if v or (key == "changed" and v is not None)}
    return {**line, "digest": _digest(_written(line))}


def _claim(proof: PlainMapping) -> str:
    """Say for which sizes a rule was proved, in each arithmetic."""
    parts = []
    for judgement in proof["judgements"]:
        coverage = judgement["coverage"]
        if judgement["outcome"] == "proved" and coverage is not None:
            sizes = "all sizes" if coverage["everywhere"] else "its own sizes"
            cut = " and cuts" if CUTS in coverage.get("conditions", ()) else ""
            parts.append(f"{judgement['arithmetic']}: {sizes}{cut}")
    return "; ".join(parts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(line: PlainMapping) -> str:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


Certificates = Mapping[str, Sequence[PlainMapping]]
"""The lines of each pass by its name."""


def read_certificates(folder: Path) -> dict[str, list[PlainDict]]:
    """Return the lines of each pass, with unchecked keys, or raise VerificationError."""
    path = folder / FILE
    found: dict[str, list[PlainDict]] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return found
    except (OSError, ValueError) as error:
        raise VerificationError(f"cannot read {path}: {error}") from None
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            found.setdefault(line["pass"], []).append(line)
        except (ValueError, KeyError, TypeError):
            raise VerificationError(
                f"{path}, line {number} is not a certificate",
                help="remove the line, and run: onnx-passes certify --stale --write",
            ) from None
    return found


def write_certificate(name: str, lines: Sequence[PlainMapping], folder: Path) -> Path:
    """Replace the lines of one pass, and return the path of the file."""
    path = folder / FILE
    known = {**read_certificates(folder), name: lines}
    text = "".join(f"{_written(line)}\n" for key in sorted(known) for line in known[key])
    new = path.with_name(f"{FILE}.tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new.write_text(text, "utf-8")
        new.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def check_certificate(
    cls: type[object], name: str, known: Certificates, keys: Keys
) -> tuple[str, ...]:
    """Return why the certificate of a pass is stale, one reason each; none if it is fresh.

    A pass that is not a rule and changed no random model is stale too: what random models hold
    is not its own to say.

    VerificationError if it is missing or was edited, or if a rule is refuted, keeps less than
    its pass declares, was not judged, or never fired.
    """
    renew = f"run: {RENEW.format(name=name)}"
    if not known.get(name):
        raise VerificationError(f"{name} has no certificate", help=renew)
    reasons: dict[str, None] = {}
    for line in known[name]:
        plain = {key: value for key, value in line.items() if key != "digest"}
        if line.get("digest") != _digest(_written(plain)):
            raise VerificationError(
                f"the certificate of {name} was edited by hand: its digest differs", help=renew
            )
        if line.get("wrong"):
            raise VerificationError(
                f"{name} is certified to be wrong: {line['rule']}: {line.get('reason')}",
                help="repair the rule, then " + renew,
            )
        if line["verdict"] == "never fired" and "changed" in line:
            why = f"{name} changed none of the random models, so that nothing is known of it"
            reasons[why] = None
        elif line["verdict"] in ("undecided", "never fired"):
            raise VerificationError(
                f"{name} is not certified: {line['rule']} is {line['verdict']}: "
                f"{line.get('reason')}",
                help="give it time, or a hint, then " + renew,
            )
        key = keys.of(cls, line.get("operators", ()), on_models="changed" in line)
        for what, old, new in zip(
            _PARTS, str(line["key"]).split("."), key.split("."), strict=True
        ):
            if old != new:
                reasons[f"the {what.format(name=name)} has changed since"] = None
    return tuple(reasons)


def unexplored(lines: Sequence[PlainMapping]) -> list[str]:
    """Return which rules have a path to a rewrite that never ran."""
    return [f"{v['rule']} is tested only: {v['never_ran']}" for v in lines if "never_ran" in v]
