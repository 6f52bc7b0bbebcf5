"""Types of arrays, whose elements may be of any type."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any shape and element type."""

DType: TypeAlias = np.dtype[Any]
"""An element type of numpy."""

Numbers: TypeAlias = Array | float
"""An array of any shape, or one number."""
