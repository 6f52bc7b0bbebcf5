"""Certificates: what was found of a pass's rules, kept until their source changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.verify.rules.code import hash_of
from onnx_passes.verify.rules.sources import sources_of, verifier_of

FORMAT = 2
RENEW = "onnx-passes certify {name} --write"


def source_hash(cls: type[object]) -> str:
    """Return the SHA-256 of the code that a verdict depends on (``code_of``).

    The whole file that defines the class, since a rule's guard may call functions beside it,
    and the helper modules of its project that it imports (``sources_of``).

    Raises:
        UsageError: The class has no source file, or a helper is not Python.
    """
    try:
        return hash_of(sources_of(cls))
    except (TypeError, OSError, SyntaxError) as error:
        raise UsageError(f"{cls.__name__} has no source file to certify: {error}") from None


def verifier_hash(results: Sequence[PlainMapping]) -> str:
    """Return the SHA-256 of the code that verdicts were found with (``code_of``).

    The verifier's modules, and the descriptions of the operators that the models had.

    Args:
        results: The verdicts, each with the operators that its test has seen.
    """
    tests = [r.get("tested") or {} for r in results]
    operators = {name for test in tests for name in test.get("operators", ())}
    rules = all(map(_is_of_rule, results))
    return hash_of(verifier_of(operators, rules=rules))


def certificate(
    cls: type[object], name: str, results: Sequence[PlainMapping], bounds: PlainMapping
) -> PlainDict:
    """Return the certificate of a pass as plain data.

    Args:
        cls: The class of the pass.
        name: Its name.
        results: The verdict of each of its rules.
        bounds: Seed and limits that the verdicts were found with.
    """
    content = {
        "format": FORMAT,
        "name": name,
        "subject": f"{cls.__module__}:{cls.__qualname__}",
        "source": source_hash(cls),
        "verifier": verifier_hash(results),
        "bounds": dict(bounds),
        "versions": versions(),
        # Where a refutation was written is of this machine.
        "rules": [{k: v for k, v in r.items() if k != "folder"} for r in results],
    }
    return {**content, "digest": _digest(content)}


def versions() -> dict[str, str]:
    """Return the versions that a verdict may depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("onnx", "onnx-ir", "onnxscript", "onnxruntime", "z3-solver", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def write_certificate(content: PlainMapping, folder: Path) -> Path:
    """Write a certificate as ``NAME.json``, and return the path.

    Args:
        content: The certificate.
        folder: The folder of all certificates.

    Raises:
        UsageError: The folder cannot be written.
    """
    path = folder / f"{content['name']}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def models_of(name: str, folder: Path) -> int:
    """Return how many models the certificate of a pass was drawn with; 0 if there is none.

    Args:
        name: Name of the pass.
        folder: The folder of all certificates.
    """
    try:
        return int(
            json.loads((folder / f"{name}.json").read_text("utf-8"))["bounds"]["models"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def check_certificate(cls: type[object], name: str, folder: Path) -> tuple[str, ...]:
    """Return why the certificate of a pass is stale, one reason each; none if it is fresh.

    A pass that is not a rule and changed no random model is stale too: it has no hints, and
    what random models hold is not its own to say.

    Args:
        cls: The class of the pass.
        name: Its name.
        folder: The folder of all certificates.

    Raises:
        VerificationError: It is missing, unreadable, was edited, or says that a rule is
            refuted, keeps less than its pass declares, was not judged, or never fired.
    """
    path = folder / f"{name}.json"
    renew = f"run: {RENEW.format(name=name)}"
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise VerificationError(f"{name} has no certificate {path}", help=renew) from None
    except (OSError, ValueError) as error:
        raise VerificationError(f"cannot read {path}: {error}", help=renew) from None
    if not isinstance(content, dict) or content.get("format") not in range(1, FORMAT + 1):
        raise VerificationError(f"{path} is no certificate of format {FORMAT}", help=renew)
    if content.pop("digest", None) != _digest(content):
        raise VerificationError(f"{path} was edited by hand: its digest differs", help=renew)
    for rule in content["rules"]:
        if rule["verdict"] == "refuted" or rule.get("disagrees"):
            raise VerificationError(
                f"{name} is certified to be wrong: {rule['rule']}: {rule['reason']}",
                help="repair the rule, then " + renew,
            )
        unmet = rule["verdict"] == "never fired" and not _is_of_rule(rule)
        if rule["verdict"] in ("undecided", "never fired") and not unmet:
            raise VerificationError(
                f"{name} is not certified: {rule['rule']} is {rule['verdict']}: "
                f"{rule['reason']}",
                help="give it time, or a hint, then " + renew,
            )
    return tuple(_staleness(cls, name, content))


def _staleness(cls: type[object], name: str, content: PlainMapping) -> Iterator[str]:
    if content["name"] != name or content["source"] != source_hash(cls):
        yield f"the source of {name} has changed since it was certified"
    if content["format"] != FORMAT:
        yield f"it has format {content['format']}, and today's is {FORMAT}"
    if any(r["verdict"] == "never fired" for r in content["rules"]):
        yield f"{name} changed none of the random models, so that nothing is known of it"
    if content["format"] == FORMAT and content["verifier"] != verifier_hash(content["rules"]):
        yield "the verifier, or what is told of an operator, has changed since"


def _is_of_rule(result: PlainMapping) -> bool:
    """Whether a verdict is on a rewrite rule, and not on a pass over random models."""
    return "changed" not in (result.get("tested") or {})


def _digest(content: PlainMapping) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()
