import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_passes import risky_runs
from onnx_passes.cli import supervision
from tests.tables import each_of, each_row

PROGRAM = [sys.executable, "-m", "onnx_passes"]


def as_from_a_terminal():
    # A signal that is ignored, as by nohup, is ignored in children, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def names(folder):
    left = {p.name for p in folder.iterdir()} - {"__pycache__"}
    return sorted(left)


def start(folder, *words, before=as_from_a_terminal, program=PROGRAM):
    command = [*program, *map(str, words)]
    return subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, preexec_fn=before
    )


def test_nohup_is_respected(tmp_path, model):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start(tmp_path, "-c", "cleanup", "-o", "out.onnx", model, before=ignore)
    time.sleep(0.5)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert (tmp_path / "out.onnx").exists()


@each_of("delay", 0.15, 0.5, 1.1)
def test_ctrl_c_at_any_moment_leaves_all_or_nothing(tmp_path, model, delay):
    before = model.read_bytes()
    process = start(tmp_path, "-c", "optimize", "-o", "out.onnx", model)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert model.read_bytes() == before
    out = tmp_path / "out.onnx"
    if out.exists():
        onnx.checker.check_model(onnx.load(out))
    if process.returncode == 130:
        assert "interrupted: " in err
        told = "nothing was written" in err or "the result was not written" in err
        assert told == (not out.exists())
    elif process.returncode == 0:
        assert out.exists()
    left = set(names(tmp_path)) - {"model.onnx", "out.onnx"}
    assert all("before-step" in name and name in err for name in left)
    assert "internal error" not in err


def test_an_interrupt_while_saving_leaves_the_old_output_alone(cli, model, monkeypatch):
    Path("out.onnx").write_text("old")

    def interrupted(handle):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("os.fsync", interrupted)
    done = cli("-c", "cleanup", "-o", "out.onnx", "--json", "r.json", model)
    assert done.code == 130
    assert done.err.strip().endswith("interrupted: nothing was written")
    assert Path("out.onnx").read_text() == "old"
    assert names(Path()) == ["model.onnx", "out.onnx"]


def test_a_second_interrupt_while_one_is_reported_changes_nothing(cli, model, monkeypatch):
    say = sys.modules["onnx_passes.cli.main"]._tell

    def press_again(text):
        os.kill(os.getpid(), signal.SIGINT)
        say(text)

    def interrupted(handle):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("os.fsync", interrupted)
    monkeypatch.setattr(sys.modules["onnx_passes.cli.main"], "_tell", press_again)
    done = cli("-c", "cleanup", "-o", "out.onnx", model)
    assert done.code == 130
    assert done.err.strip() == "interrupted: nothing was written"


def test_an_interrupt_after_saving_says_what_is_there(cli, model, monkeypatch):
    replace = os.replace

    def interrupted(*paths):
        replace(*paths)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("os.replace", interrupted)
    done = cli("-c", "cleanup", "-o", "out.onnx", model)
    done.tells(130, "interrupted: out.onnx was complete by then")
    onnx.checker.check_model(onnx.load("out.onnx"))


def test_an_interrupt_that_a_pass_swallows_still_ends_the_run(cli, model, write):
    write(
        "swallow.py",
        """\
import os, signal
from onnx_passes import passes
@passes.register()
class Swallow(passes.Analysis):
    def analyse(self, model):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:
            pass
""",
    )
    config = write("cfg.yaml", "imports: [swallow]\npasses: [swallow]\n")
    assert cli("-c", config, "-o", "out.onnx", model).code == 130
    assert not Path("out.onnx").exists()


LOST = """
import os, signal, sys, weakref

class Lock: pass

def press(_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "onnx_passes.cli.main":
            lock = Lock()
            self.held = weakref.ref(lock, press)

sys.meta_path.insert(0, Finder())
from onnx_passes.cli import main
main(["--version"])
"""


def test_ctrl_c_that_the_import_system_loses_still_ends_the_program():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True)
    assert "Exception ignored" in done.stderr, "it was not lost: the test shows nothing"
    assert done.returncode == 130
    assert "interrupted: nothing was written" in done.stderr


EINSUM = """<ir_version: 8, opset_import: ["" : 17]>
main (float[b,2,3,4] q, float[b,2,3,4] k) => (float[b,2,3,3] y) {
    i = Identity(q)
    y = Einsum<equation = "bhqd,bhkd->bhqk">(i, k)
}"""

# The processor ends a process that divides the least integer by -1.
DIVISION = """<ir_version: 8, opset_import: ["" : 17]>
main (int64[n] x, bool c) => (int64[n] y) {
    i = Identity(x)
    y = If(c) <then_branch = t () => (int64[n] a)
        <int64[1] k = {-9223372036854775808}, int64[1] z = {-1}> {
            q = Div(k, z) a = Add(i, q) },
        else_branch = e () => (int64[n] b) { b = Neg(i) }>
}"""

PASSES = """
import os, pathlib, signal, time
import onnx_ir as ir
from onnx_passes import passes

class Ends(passes.Analysis):
    def analyse(self, model):
        pathlib.Path("started").write_text(str(os.getpid()))
        self.end()

@passes.register()
class Exits(Ends):
    def end(self): os._exit(0)

@passes.register()
class Dies(Ends):
    def end(self): os.kill(os.getpid(), signal.SIGSEGV)

@passes.register()
class Killed(Ends):
    def end(self): os.kill(os.getpid(), signal.SIGKILL)

@passes.register()
class Sleeps(Ends):
    def end(self): time.sleep(60)

@passes.register()
class Deaf(Ends):
    def end(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        time.sleep(600)
"""

# What a part reads that no run of a whole model had is drawn.
ENGINE = '''
import os, signal, time
from contextlib import contextmanager
import numpy as np
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.runtime.engines import register_engine
from onnx_passes.runtime.ort import OnnxRuntimeEngine

class Fragile:
    name = "fragile"
    node_by_node = True

    def __init__(self, on, how): self.on, self.how, self.seen = on, how, set()

    def describe(self): return {"engine": self.name}

    @contextmanager
    def prepare(self, model):
        operators = {node.op_type for node in model.graph}
        session = Session(None, self, "Relu" in operators)
        if self.on == "result" and session.whole and "Identity" not in operators:
            session.end()
        with OnnxRuntimeEngine().prepare(model) as session.session:
            yield session

class Session:
    def __init__(self, session, engine, whole):
        self.session, self.engine, self.whole = session, engine, whole

    def run(self, feeds, outputs=None):
        read = {a.tobytes() for a in feeds.values()}
        match self.engine.on:
            case "one": bad = any(a.shape[:1] == (1,) for a in feeds.values())
            case "drawn": bad = not self.whole and not read <= self.engine.seen
            case on: bad = on == "any"
        if bad:
            self.end()
        found = self.session.run(feeds, outputs)
        if self.whole:
            self.engine.seen |= read | {a.tobytes() for a in found.values()}
        return found

    def end(self):
        match self.engine.how:
            case "hangs": time.sleep(1000)
            case "exits": os._exit(0)
            case number: os.kill(os.getpid(), getattr(signal, number))

@passes.verify.equality
@passes.register()
class SwapAdd(Transformation, RewriteRulePass):
    """Before: ``Add(x, y)``. After: ``Sum(y, x)``."""

    def pattern(self, op, x, y): return op.Add(x, y)
    def rewrite(self, op, x, y): return op.Sum(y, x)

register_engine("fragile")(lambda options: Fragile(**options))
'''


def save(folder, text, name="model.onnx"):
    (folder / name).write_bytes(onnx.parser.parse_model(text).SerializeToString())


def call(folder, *words, command=PROGRAM, **options):
    """Run the program to its end; return its exit code and what it printed on stderr."""
    done = subprocess.run(
        [*command, *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        **options,
    )
    return done.returncode, done.stderr


def notes(folder):
    return json.loads((folder / "r.json").read_text())["notes"]


def test_a_sample_that_ends_the_engine_is_left_out(tmp_path):
    save(tmp_path, EINSUM)
    code, err = call(
        tmp_path, "-c", "optimize", "-o", "o.onnx", "--json", "r.json", "model.onnx"
    )
    assert (code, err[:8]) == (0, "VERIFIED"), err
    (note,) = [note for note in notes(tmp_path) if "repeated" in note]
    assert note == (
        "the run was repeated without made-up inputs (size 0): an engine died of SIGFPE there"
    )
    assert err.count(note) == 1
    assert [node.op_type for node in onnx.load(tmp_path / "o.onnx").graph.node] == ["Einsum"]


LAYER = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,N,3] x) => (float[2,1,N,2] y)
<float[1,8,3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
float[1,8,2] r = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}>
{ i = Identity(x) y = LSTM<hidden_size = 2>(i, w, r) }"""


def test_an_engine_that_aborts_on_a_made_up_sample_prints_nothing(tmp_path):
    save(tmp_path, LAYER)
    words = "-c", "optimize", "-s", "verify.inputs=adversarial", "-o", "o.onnx", "model.onnx"
    code, err = call(tmp_path, *words, "--json", "r.json")
    assert (code, err[:8]) == (0, "VERIFIED"), err
    assert any("an engine died of SIGABRT there" in note for note in notes(tmp_path))


FRAMES = """<ir_version: 10, opset_import: ["" : 17]>
    g (float[batch, n] x) => (float[batch, m] y) <int64 width = {300}> {
    size = Shape <start = 1> (x) length = Squeeze(size) left = Sub(length, width)
    half = Sub(width, width) zero = Cast <to = 7> (half) one = Constant <value_int = 1> ()
    less = Less(left, zero) broken = Where(less, zero, one) rest = Div(length, broken)
    f = Cast <to = 1> (rest) z = Identity(f) y = Add(x, z) }"""


def test_sizes_are_found_where_smaller_ones_end_the_engine(tmp_path):
    save(tmp_path, FRAMES)
    words = "-c", "cleanup", "-o", "o.onnx", "--json", "r.json", "model.onnx"
    code, err = call(tmp_path, *words)
    assert (code, err[:8]) == (0, "VERIFIED"), err
    assert "on the first generated inputs; used: batch=300, n=300" in "".join(notes(tmp_path))


@pytest.mark.cold
def test_the_program_repeats_a_run_when_started_as_users_do(tmp_path):
    save(tmp_path, DIVISION)
    words = "-c", "simplify", "-o", "o.onnx", "model.onnx", "--no-verify"
    code, err = call(tmp_path, *words)
    assert code == 0, err
    assert "without folding (Div" in err


def test_a_node_that_ends_the_engine_is_not_folded(tmp_path):
    save(tmp_path, DIVISION)
    code, err = call(
        tmp_path, "-c", "simplify", "-o", "o.onnx", "--json", "r.json", "model.onnx"
    )
    assert (code, err[:8]) == (0, "VERIFIED"), err
    # One of the generated samples takes the branch with the division.
    (note,) = [note for note in notes(tmp_path) if "repeated" in note]
    found = re.findall(r"(generated inputs|folding|engines) \(", note)
    assert found == ["generated inputs", "folding", "engines"], note
    (node,) = onnx.load(tmp_path / "o.onnx").graph.node
    assert [n.op_type for n in node.attribute[0].g.node] in (["Div", "Add"], ["Neg"])


CONSTANTS = """<ir_version: 8, opset_import: ["" : 17]>
main (int64[1] x, float[2,3] f) => (int64[1] y, float[2,3] z)
<int64[1] k = {-9223372036854775808}, int64[1] w = {-1}> {
    q = Div(k, w) y = Add(x, q) z = Relu(f)
}"""


@each_of(
    "words",
    ("compare", "model.onnx", "model.onnx"),
    ("reduce", "model.onnx", "-o", "o.onnx", "--engine", "onnxruntime"),
    ("tune", "model.onnx", "-c", "c.yaml", "-o", "o.onnx"),
)
def test_no_command_ends_without_a_word(tmp_path, write, words):
    save(tmp_path, CONSTANTS)
    np.savez(tmp_path / "in.npz", x=np.zeros(1, "i8"), f=np.ones((2, 3), "f4"))
    metrics = "verify: {metrics: {rmse: [0, 0.1]}}\ntune: {formats: [float16]}"
    write("c.yaml", f"reference: {{inputs: in.npz}}\n{metrics}\n")
    code, err = call(tmp_path, *words)
    assert code == 3
    assert "error[engine-crashed]: the program died of SIGFPE" in err
    assert "'isolate: true' of an engine" in err


@each_of("dies, named", ("data_prop", "values"), ("True", "types"))
def test_what_ends_the_inference_of_onnx_is_not_asked_again(tmp_path, write, dies, named):
    save(tmp_path, DIVISION.replace("-1}", "-2}"))
    write(
        "dies.py",
        "import os\nimport onnx.shape_inference as known\nasked = known.infer_shapes\n"
        "def infer(model, check_type=False, strict_mode=False, data_prop=False):\n"
        f"    if {dies}: os.abort()\n"
        "    return asked(model, check_type, strict_mode, data_prop)\n"
        "known.infer_shapes = infer\n",
    )
    config = write("c.yaml", "imports: [dies]\npasses: [optimize]\n")
    words = "-c", config, "-o", "o.onnx", "--json", "r.json", "model.onnx"
    code, err = call(tmp_path, *words)
    assert (code, err[:8]) == (0, "VERIFIED"), err
    told = "the run was repeated without shape inference "
    told += f"({named}): onnx died of SIGABRT there"
    assert [note for note in notes(tmp_path) if "repeated" in note] == [told]


def test_reduce_finds_what_ends_an_engine_in_a_child(tmp_path):
    save(tmp_path, CONSTANTS)
    engine = "onnxruntime{isolate=true}"
    code, err = call(tmp_path, "reduce", "model.onnx", "-o", "o.onnx", "--engine", engine)
    assert code == 0, err
    assert [node.op_type for node in onnx.load(tmp_path / "o.onnx").graph.node] == ["Div"]


@each_row("""name | code | message
- exits | =2 | ended the program in pass 'exits' (os._exit(0))
- dies | =1 | error[pass]: the program died of SIGSEGV in pass 'dies'
- killed | =3 | error[memory]: the program died of SIGKILL in pass 'killed'
""")
def test_a_pass_that_ends_the_program_is_named(tmp_path, model, write, name, code, message):
    write("ends.py", PASSES)
    config = write("c.yaml", f"imports: [ends]\npasses: [eliminate-identity, {name}]\n")
    found, err = call(tmp_path, "-c", config, "-o", "o.onnx", model)
    assert found == code
    assert message in err
    assert "repeated" not in err
    assert not (tmp_path / "o.onnx").exists()


def fragile(write, on, how):
    write("fragile.py", ENGINE)
    return write(
        "c.yaml",
        "imports: [fragile]\npasses: [eliminate-identity, SwapAdd]\n"
        f"engines: [fragile: {{'on': {on}, how: {how}}}]\n",
    )


REPLACED = "fragile cannot run the original: an engine died of SIGSEGV there"


@each_of(
    "on, how, given, code, told",
    # As a system does that is out of memory.
    ("one", "SIGKILL", False, 0, "inputs (size 1): an engine died of SIGKILL there"),
    ("one", "exits", False, 0, "an engine ended the process with exit code 0 there"),
    ("drawn", "SIGSEGV", False, 0, "the run was repeated without drawn values ("),
    ("any", "SIGSEGV", True, 0, REPLACED),
    ("result", "SIGSEGV", True, 3, "names the pass that made it: -e 'fragile{isolate=true}'"),
)
def test_where_a_users_engine_may_end(tmp_path, model, write, on, how, given, code, told):
    config = fragile(write, on, how)
    np.savez(tmp_path / "in.npz", a=np.ones((2, 2), "f"), b=np.ones((2, 2), "f"))
    words = ("-s", "reference.inputs=in.npz") if given else ()
    found, err = call(tmp_path, "-c", config, "-o", "o.onnx", model, *words)
    assert found == code, err
    assert told in err
    assert err.startswith("VERIFIED") == (code == 0) == (tmp_path / "o.onnx").exists()


def test_an_engine_that_hangs_on_a_made_up_sample_is_not_waited_for(tmp_path, model, write):
    config = fragile(write, "one", "hangs")
    program = (
        "from onnx_passes.cli import main, supervision as parent\n"
        "parent.SECONDS, parent.TIMES = 2, 0\nmain()"
    )
    command = [sys.executable, "-c", program]
    code, err = call(tmp_path, "-c", config, "-o", "o.onnx", model, command=command)
    assert (code, err[:8]) == (0, "VERIFIED"), err
    assert "without made-up inputs (size 1): an engine took longer than 2 s there" in err


@pytest.fixture
def sleeping(request, tmp_path, model, write):
    """Start a run whose pass sleeps, in a process group of its own; return the process."""
    write("ends.py", PASSES)
    name = getattr(request, "param", "sleeps")
    write("o.onnx", "old")
    config = write("c.yaml", f"imports: [ends]\npasses: [{name}]\n")

    def alone():
        os.setsid()
        as_from_a_terminal()

    words = ("-c", config, "-o", "o.onnx", "--json", "r.json", model)
    impatient = "parent._PATIENCE = 1\n" if name == "deaf" else ""
    code = f"from onnx_passes.cli import main, supervision as parent\n{impatient}main()"
    process = start(tmp_path, *words, before=alone, program=[sys.executable, "-c", code])
    started = tmp_path / "started"
    while not (started.exists() and started.read_text()):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    with process:
        yield process, int(started.read_text())
        process.kill()


@each_of(
    "send, number, word",
    (os.kill, signal.SIGINT, "interrupted"),
    (os.killpg, signal.SIGINT, "interrupted"),
    (os.killpg, signal.SIGTERM, "terminated"),
    (os.kill, signal.SIGHUP, "terminated"),
)
def test_a_signal_to_parent_or_both_is_handled_once(sleeping, tmp_path, send, number, word):
    process, child = sleeping
    assert child != process.pid
    send(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.strip() == f"{word}: nothing was written"
    assert (tmp_path / "o.onnx").read_text() == "old"
    assert names(tmp_path) == ["c.yaml", "ends.py", "model.onnx", "o.onnx", "started"]


@each_of("sleeping", "deaf", indirect=True)
def test_a_child_that_does_not_hear_a_signal_is_killed(sleeping):
    process, _ = sleeping
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.strip() == "interrupted: nothing was written"


def test_a_parent_that_is_killed_leaves_no_child(sleeping):
    process, _ = sleeping
    process.kill()
    process.communicate(timeout=30)  # their stderr is closed when both are gone


@each_of("seed", *range(20))
def test_the_parent_gives_up_in_the_end(seed):
    rng = np.random.default_rng(seed)
    parent = object.__new__(supervision._Keeper)
    parent._avoided, parent._counts, parent._alone = {}, Counter(), False
    labels = [risky_runs.label(group, str(n)) for group in risky_runs.GROUPS for n in range(9)]
    labels += [risky_runs.INPUTS, "the check of pass 'x'"]
    for _ in range(60):
        running = [tuple(rng.choice(labels, 2)) for _ in range(rng.integers(1, 4))]
        if not parent._can_repeat(running, "died of SIGSEGV"):
            break
    else:
        pytest.fail("each crash was repeated")
    assert parent._avoided


def test_the_parent_imports_nothing_large():
    code = (
        "import sys, onnx_passes.cli.supervision, onnx_passes.cli.main\n"
        "print(sorted({'numpy', 'onnx', 'onnxruntime', 'onnx_ir'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
