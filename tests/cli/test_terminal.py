"""What a terminal of few columns shows: the words of a log, each whole, none past the edge."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.tables import each_of

ROOT = Path(__file__).parents[2]
DIGITS, BROKEN = ROOT / "examples" / "digits", ROOT / "examples" / "break_adds"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ENVIRONMENT = {
    key: value
    for key, value in os.environ.items()
    if key not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "GITHUB_ACTIONS")
} | {"TERM": "xterm"}


def start(words, folder, **streams):
    command = [sys.executable, "-m", "onnx_passes", *map(str, words), "--no-progress"]
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, **streams)


def on_terminal(words, folder, columns):
    """Return the lines that a terminal gets."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with start(words, folder, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:
            pass  # the last program that had it open has ended
    os.close(ours)
    return ESCAPE.sub("", text.decode()).splitlines()


def words_of(text):
    return re.sub(r"[\d.]+ m?s", "TIME", " ".join(text.split()))


@each_of("columns", 60, 80)
@each_of(
    "words, folder",
    (("compare", DIGITS / "model.onnx", "-e", "onnxruntime{optimization=all}"), DIGITS),
    (("-c", "pipeline.yaml", "model.onnx", "-s", "reproducers=false"), BROKEN),
    (("list",), DIGITS),
    (("-c", "optimise", "model.onnx"), DIGITS),
)
def test_words_of_a_log_are_whole_on_a_terminal(words, folder, columns):
    piped = start(words, folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = piped.communicate()[0]
    assert "\x1b" not in log
    lines = on_terminal(words, folder, columns)
    assert max(map(len, lines)) <= columns
    assert not any(line.endswith(" ") for line in lines)
    told, shown = (
        re.sub(r"[\d.]+ m?s", "TIME", " ".join(t.split())) for t in (log, " ".join(lines))
    )
    assert shown == told
