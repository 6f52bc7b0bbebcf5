import itertools

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.eliminate.eliminate_cast_chain import _NUMBERS, holds
from tests.tables import each_of, pass_cases

test_cases = pass_cases("""
there and back: (float[2,3] x) => (float[2,3] y) { a = Cast<to = 11>(x) b = Cast<to = 1>(a)
  y = Exp(b) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
wider first: (float16[2] x) => (double[2] y) { a = Cast<to = 1>(x) y = Cast<to = 11>(a) }
  | (float16[2] x) => (double[2] y) { y = Cast<to = 11>(x) }
integers: (uint8[2] x) => (float[2] y) { a = Cast<to = 7>(x) y = Cast<to = 1>(a) }
  | (uint8[2] x) => (float[2] y) { y = Cast<to = 1>(x) }
narrower between: (float[2,3] x) => (float[2,3] y) { a = Cast<to = 10>(x)
  y = Cast<to = 1>(a) }
rounds to integers: (float[2,3] x) => (float[2,3] y) { a = Cast<to = 7>(x)
  y = Cast<to = 1>(a) }
signed to unsigned: (int8[2] x) => (int64[2] y) { a = Cast<to = 12>(x) y = Cast<to = 7>(a) }
too many bits: (int32[2] x) => (int64[2] y) { a = Cast<to = 1>(x) y = Cast<to = 7>(a) }
to bool: (float[2] x) => (float[2] y) { a = Cast<to = 9>(x) y = Cast<to = 1>(a) }
""")


def numbers(dtype):
    """Return the extremes of a type, and what lies beside powers of two."""
    if dtype is ir.DataType.BOOL:
        return [0, 1]
    if dtype.is_floating_point():
        found = [0.0, -0.0, np.inf, -np.inf, dtype.max, dtype.min, 2.0**-14, 1 / 3]
    else:
        powers = [2**k + d for k in range(64) for d in (-1, 0, 1)]
        found = [n for p in powers for n in (p, -p) if dtype.min <= n <= dtype.max]
    return np.asarray(found).astype(dtype.numpy()) if dtype.is_floating_point() else found


@each_of("wide, narrow", *list(itertools.permutations(sorted(_NUMBERS), 2)), ids=str)
def test_a_type_that_holds_another_gives_every_value_back(wide, narrow):
    if not holds(wide, narrow):
        return
    array = np.asarray(numbers(narrow), narrow.numpy())
    back = array.astype(wide.numpy()).astype(narrow.numpy())
    np.testing.assert_array_equal(back, array)
