"""Capital letters of 3 by 5 dots, for labels."""

from __future__ import annotations

import numpy as np

from onnx_passes.arrays import Array

# Five rows from the top, an octal digit each: 4 is the left dot, 2 the middle, 1 the right.
_FORMS = """
A 25755 B 65656 C 34443 D 65556 E 74647 F 74644 G 34553 H 55755 I 72227 J 11152 K 55655
L 44447 M 57755 N 65555 O 25552 P 65644 Q 25573 R 65655 S 34216 T 72222 U 55557 V 55552
W 55775 X 55255 Y 55222 Z 71247 0 75557 1 26227 2 71747 3 71317 4 55711 5 74717 6 74757
7 71122 8 75757 9 75717 . 00002 , 00024 : 02020 - 00700 _ 00007 / 11244 ( 12221 ) 42224
[ 64446 ] 31113 = 07070 + 02720 | 22222 % 51245 < 12421 > 42124 ' 22000 # 57575
"""
_WORDS = _FORMS.split()
_ROWS = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True)) | {" ": "00000"}
_UNKNOWN = "71202"
WIDTH, HEIGHT = 4, 5
"""Dots that a character takes, the gap after it included."""


def text_width(text: str, scale: int = 2) -> int:
    """Return the width of a text in pixels.

    Args:
        text: The text, in characters of fixed width.
        scale: Pixels for each dot of a character.
    """
    return len(text) * WIDTH * scale


def draw_text(
    image: Array, x: int, y: int, text: str, colour: tuple[int, int, int], scale: int = 2
) -> None:
    """Write into a picture; what does not fit is cut off.

    Args:
        image: uint8 of shape [height, width, 3].
        x: Left edge of the first character.
        y: Its upper edge.
        text: Letters are written as capitals, what has no form here as a question mark.
        colour: Red, green and blue.
        scale: Pixels a dot.
    """
    for index, character in enumerate(text.upper()):
        rows = _ROWS.get(character, _UNKNOWN)
        dots = np.array([[int(row) >> bit & 1 for bit in (2, 1, 0)] for row in rows], bool)
        dots = dots.repeat(scale, 0).repeat(scale, 1)
        left = x + index * WIDTH * scale
        space = image[y : y + dots.shape[0], left : left + dots.shape[1]]
        space[dots[: space.shape[0], : space.shape[1]]] = colour
