"""Libraries that may be missing, and how they are installed."""

from __future__ import annotations

import importlib

from onnx_passes.errors import UsageError
from onnx_passes.plain import Foreign

EXTRAS = {
    "pyarrow": ("data", "reads Parquet files and Hugging Face data sets"),
    "scipy": ("data", "computes confidence intervals and integer programs"),
    "PIL": ("data", "decodes images"),
    "distributed": ("distributed", "runs data sets on a Dask cluster"),
}


def import_optional(module: str) -> Foreign:
    """Import a module of an optional library; ``UsageError`` says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        extra, use = EXTRAS[library]
        raise UsageError(
            f"the library {library!r}, which {use}, is not installed",
            help=f"in a checkout: pip install '.[{extra}]'",
        ) from error
