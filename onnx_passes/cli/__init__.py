"""The command line: one file per command, and the only place that prints."""

import sys

from onnx_passes.cli.supervision import interruptible, received

try:
    with interruptible():
        from onnx_passes.cli.main import main
    received.check()  # the import system loses what is raised while it lets go of a lock
except KeyboardInterrupt:
    # Ctrl-C while the program itself is still being loaded.
    sys.stderr.write("interrupted: nothing was written\n")
    raise SystemExit(130) from None

__all__ = ["main"]
