"""Kill runs at every pass and at random moments, go on from what they left, and compare.

Run as a program, because it forks, which a process with threads of ONNX Runtime must not:
``python kill_and_resume.py MODEL CONFIG FOLDER STEP MOMENTS`` kills at every STEP-th boundary
of a pass and at MOMENTS random times, and prints a line for each.
"""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import resume_passes  # noqa: F401  (registers)

from onnx_passes.config.load import load_config
from onnx_passes.io.load import load_model
from onnx_passes.io.save import save_model
from onnx_passes.pipeline import resume
from onnx_passes.pipeline.instruments import Instrument
from onnx_passes.pipeline.run import run_pipeline

MODEL, CONFIG, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
OUTPUT, COUNT = FOLDER / "out.onnx", FOLDER / "count"


class Killer(Instrument):
    def __init__(self, place):
        self.place = place

    def before_pass(self, pass_, model, report):
        if self.place == ("before", report.index):
            os.kill(os.getpid(), signal.SIGKILL)

    def after_pass(self, pass_, model, report):
        if self.place == ("after", report.index):
            os.kill(os.getpid(), signal.SIGKILL)


def run(cache, wanted, place=None, seconds=None):
    """Run in a process of its own; return whether it was killed, and what it told."""
    OUTPUT.unlink(missing_ok=True)
    COUNT.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        resume.SHARE = 1e9
        if seconds is not None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
        loaded = load_model(MODEL)
        kept = resume.Resume(cache, wanted, interval=0)
        config = load_config(CONFIG, ["on_failure=rollback", "reproducers=false"])
        done = run_pipeline(
            loaded.model, config, name=MODEL, instruments=[Killer(place)], resume=kept
        )
        save_model(done.model, OUTPUT, source=loaded)
        assert done.report.exit_code == 0, done.report.error
        passes = done.report.passes
        again = sum(p.resumed for p in passes)
        names = hashlib.sha256(repr([(p.name, p.group) for p in passes]).encode()).hexdigest()
        COUNT.write_text(f"{len(passes)} {again} {names}")
        kept.done()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True, None
    assert os.waitstatus_to_exitcode(status) == 0, "a run failed"
    count, again, names = COUNT.read_text().split()
    return False, (int(count), int(again), names, OUTPUT.read_bytes())


def main():
    run(FOLDER / "none", False)
    start = time.monotonic()
    _, (count, _, names, expected) = run(FOLDER / "none", False)
    took = time.monotonic() - start
    chance = random.Random(0)
    step, moments = int(sys.argv[4]), int(sys.argv[5])
    places = [(when, i) for i in range(count) for when in ("before", "after")]
    cases = [(f"{when} {i}", (when, i), None) for when, i in places[::step]]
    times = [chance.uniform(0.2, 0.8) * took for _ in range(moments)]
    cases += [(f"at {seconds:.4f} s", None, seconds) for seconds in times]
    for number, (words, place, seconds) in enumerate(cases):
        cache = FOLDER / f"cache{number}"
        killed, told = run(cache, False, place, seconds)
        if killed:
            _, told = run(cache, True)
        total, again, same_names, produced = told
        assert produced == expected, f"{words}: another result"
        assert (total, same_names) == (count, names), f"{words}: other passes"
        print(words, "killed" if killed else "survived", again, flush=True)


main()
