"""Cuts the stream of a pack's contents into pieces and names them."""

from __future__ import annotations

import hashlib

_MIN_PIECE, MAX_PIECE = 512 << 10, 8 << 20  # bytes
_CUT = (1 << 20) - 1 << 44  # a piece ends where these bits of the hash are 0
_MASK = (1 << 64) - 1


def digest(content: bytes | bytearray) -> str:
    return "sha256-" + hashlib.sha256(content).hexdigest()


def _gear() -> list[int]:
    """A different number for each byte. It must never change, because pieces would be cut elsewhere."""
    table, state = [], 0
    for _ in range(256):  # SplitMix64, from 0
        state = state + 0x9E3779B97F4A7C15 & _MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        table.append(int(f"{z ^ z >> 31:064b}"[::-1], 2))
    return table


_GEAR = _gear()


def cut(data: bytearray) -> int:
    """The length of the first piece of data, which has at least MAX_PIECE bytes or the rest of the stream. It ends
    where the gear hash of the last 64 bytes starts with 20 zeros."""
    end = min(len(data), MAX_PIECE)
    value, gear = 0, _GEAR.__getitem__
    for g in map(gear, data[_MIN_PIECE - 64 : _MIN_PIECE]):
        value = value + value + g
    for at in range(_MIN_PIECE, end, 64):
        value &= _MASK  # as rarely as possible: this loop takes most of the packing time
        for n, g in enumerate(map(gear, data[at : min(at + 64, end)]), at + 1):
            value = value + value + g
            if not value & _CUT:
                return n
    return end
