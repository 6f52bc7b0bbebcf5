"""Certify one rule in a process of its own: what it crashes, hangs or eats is a verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace

from onnx_passes.plain import PlainDict
from onnx_passes.runtime.processes import kill, kill_group, start
from onnx_passes.verify.rules.job import GIB, Job, resolve

_running: set[subprocess.Popen[bytes]] = set()
_killed: set[subprocess.Popen[bytes]] = set()
"""Children that :func:`end_children` ended: nothing is asked again without the proof."""


def end_children() -> None:
    """End the children that other threads wait for, and what these have started."""
    for child in tuple(_running):
        _killed.add(child)
        kill_group(child.pid)


def certify_apart(job: Job) -> PlainDict:
    """Run a job in a child process, and return its verdict as plain data.

    Never raises for what the rule does: a child that dies, hangs or fails gives the verdict
    "refuted" (a crash) or "undecided" (limits), with the reason.
    """
    command = [sys.executable, "-m", "onnx_passes.verify.rules.fuzz_child"]
    pipe = subprocess.PIPE
    child = start(command, stdin=pipe, stdout=pipe, stderr=pipe)
    _running.add(child)
    try:
        asked = json.dumps(asdict(job)).encode()
        out, err = child.communicate(asked, job.seconds + job.grace)
    except subprocess.TimeoutExpired:
        unended = f"did not end in {job.seconds + job.grace:g} seconds"
        found = _without_proof(job, unended) if job.level == "all" else {}
        if found.get("verdict") == "refuted":
            return found
        # What was tested is kept, but a verdict must not depend on the machine.
        what = "the proof" if found else "it"
        ended = _ended(job, "undecided", f"out of time: {what} {unended}")
        return {**found, **ended, "rule": found.get("rule", ended["rule"])}
    finally:
        # Its own group: an engine that the child started ends with it.
        kill(child)
        child.communicate()
        _running.discard(child)
        interrupted = child in _killed
        _killed.discard(child)
    if child.returncode == 0:
        result: PlainDict = json.loads(out.splitlines()[-1])
        return result
    if child.returncode < 0:
        died = f"died of {signal.Signals(-child.returncode).name}"
        if job.level != "all" or interrupted:
            verdict = "undecided" if job.level == "prove" else "refuted"
            return _ended(job, verdict, f"the process {died}")
        # Engines have a process of their own: what is left is the rule, or the proof.
        return _without_proof(job, died)
    said = err.decode(errors="replace")
    if "MemoryError" in said or "bad_alloc" in said:
        if job.level == "all":
            return _without_proof(job, f"needs {_memory(job)}")
        return _ended(job, "undecided", f"it needs {_memory(job)}")
    last = (said.strip().splitlines() or ["no message"])[-1]
    return _ended(job, "undecided", f"the process failed: {last}")


def _without_proof(job: Job, why: str) -> PlainDict:
    """Return what the property test alone finds, where the proof did not come to an end."""
    tested = certify_apart(replace(job, level="test"))
    return {**tested, "reason": tested["reason"] or f"the proof {why}"}


def _memory(job: Job) -> str:
    return f"over {job.memory / GIB:g} GiB of memory"


def _ended(job: Job, verdict: str, reason: str) -> PlainDict:
    name = job.subject if job.index is None else f"{job.subject}[{job.index}]"
    return {"rule": name, "verdict": verdict, "reason": reason, "contract": None}


def _work(job: Job) -> PlainDict:
    from onnx_passes.verify.rules.applying import rules_of
    from onnx_passes.verify.rules.fuzz_verdict import verdict_of

    subject = resolve(job.subject)
    if job.index is None:
        from onnx_passes.verify.models.verdict import verdict_of_pass

        return verdict_of_pass(
            subject,
            seconds=job.seconds,
            seed=job.seed,
            models=job.models,
            folder=job.folder,
        )
    return verdict_of(subject, rules_of(subject)[job.index], job)


def _main() -> None:
    import logging
    import resource

    job = Job(**json.loads(sys.stdin.read()))
    resource.setrlimit(resource.RLIMIT_AS, (job.memory, job.memory))
    # Rules may print: the answer goes where stdout was, all else to stderr.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    print(json.dumps(_work(job)), file=answer, flush=True)


if __name__ == "__main__":
    _main()
