"""The command line: one file per command, and the only place that prints."""

import sys

try:
    from onnx_passes.cli.main import main
except KeyboardInterrupt:
    # Ctrl-C while the program itself is still being loaded.
    sys.stderr.write("interrupted: nothing was written\n")
    raise SystemExit(130) from None

__all__ = ["main"]
