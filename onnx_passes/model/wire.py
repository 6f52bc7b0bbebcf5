"""Protobuf's encoding, a field at a time: what is large is never in memory twice.

Source: Protocol Buffers' encoding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol, overload

LENGTH = 2
"""The wire type of strings, bytes and messages."""
_WINDOW = 1 << 16


class Bytes(Protocol):
    """What is read by place, as ``bytes`` are."""

    @overload
    def __getitem__(self, place: int, /) -> int: ...

    @overload
    def __getitem__(self, place: slice, /) -> bytes: ...


class Field(NamedTuple):
    """A field of a message, from ``start`` to ``end``; its content begins at ``content``."""

    number: int
    wire: int
    start: int
    content: int
    end: int


def fields(data: Bytes, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message that lies from one byte to another.

    Args:
        data: The bytes that hold the message.
        start: Offset of its first byte.
        end: Offset after its last byte.

    Raises:
        ValueError: It is not a message.
        IndexError: The data end too early.
    """
    place = start
    while place < end:
        tag, content = _varint(data, place)
        match tag & 7:
            case 0:
                after = _varint(data, content)[1]
            case 1:
                after = content + 8
            case 2:
                size, content = _varint(data, content)
                after = content + size
            case 5:
                after = content + 4
            case other:
                raise ValueError(f"wire type {other}")
        if after > end:
            raise ValueError("a field ends behind its message")
        yield Field(tag >> 3, tag & 7, place, content, after)
        place = after


def head(number: int, size: int) -> bytes:
    """Return what stands before the content of a string, bytes or message field.

    Args:
        number: The number of the field.
        size: Bytes of its content.
    """
    return _number(number << 3 | LENGTH) + _number(size)


def _varint(data: Bytes, place: int) -> tuple[int, int]:
    found = shift = 0
    while shift < 70:
        byte = data[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, place
        shift += 7
    raise ValueError("a number of more than 10 bytes")


def _number(left: int) -> bytes:
    found = bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


class FileBytes:
    """The bytes of a file, read where they are asked for.

    It is not mapped: a process that looks at a mapped file is killed when another one cuts
    it short.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._handle = stream.fileno()
        self._size = os.fstat(self._handle).st_size
        self._first, self._window = 0, b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int, /) -> int: ...

    @overload
    def __getitem__(self, place: slice, /) -> bytes: ...

    def __getitem__(self, place: int | slice, /) -> int | bytes:
        """Return a byte, or all from one to another.

        Raises:
            ValueError: The file has become shorter.
            IndexError: There is no such byte.
            OSError: The file cannot be read.
        """
        if isinstance(place, slice):
            return self._slice(place.start, place.stop)
        offset = place - self._first
        if not 0 <= offset < len(self._window):
            self._first, offset = place, 0
            self._window = os.pread(self._handle, _WINDOW, place)
        return self._window[offset]

    def _slice(self, start: int, stop: int) -> bytes:
        found = os.pread(self._handle, stop - start, start)
        while len(found) < stop - start:
            more = os.pread(self._handle, stop - start - len(found), start + len(found))
            if not more:
                raise ValueError("the file ends too early")
            found += more
        return found
