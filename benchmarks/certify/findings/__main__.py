"""Print the page of findings."""

import logging

from benchmarks.certify.findings import page

if __name__ == "__main__":
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    print("\n".join(page()))
