"""Print the page of findings, or the models of those that are numbered."""

import logging
import sys

from benchmarks.certify.findings import FINDINGS, counterexample, page

if __name__ == "__main__":
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    chosen = [counterexample(FINDINGS[int(number) - 1]) for number in sys.argv[1:]]
    print("\n\n".join("\n".join(lines) for lines in chosen or [page()]))
