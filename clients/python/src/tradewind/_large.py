"""Error text for a folder that is too large to pack."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from ._ignore import OWN

_PARTS = 5  # maximum parts in the text


@dataclass
class _Part:
    """A file, or a folder with its content."""

    path: str
    size: int = 0
    files: int = 0


def large(path: str, entries: list[dict[str, Any]], max_bytes: int, max_files: int) -> str:
    """Names the large parts and how to leave them out."""
    size = sum(e.get("size", 0) for e in entries)
    most = _size(max_bytes) if size > max_bytes else f"{max_files} files"
    text = f"{path} has {_size(size)} in {len(entries)} files, more than {most} can be packed. The largest parts:"
    for p in _most(entries, size > max_bytes):
        text += f"\n  {_size(p.size):>9}  {p.files:7} files  {p.path}"
    return (
        f"{text}\nleave out what no task needs: a line each in {OWN}; or put data into a bucket and name it in inputs"
    )


def _most(entries: list[dict[str, Any]], by_size: bool) -> list[_Part]:
    """The parts with most bytes or files. If one subfolder has nearly all of a folder, the subfolder is named."""
    below: dict[str, _Part] = {}
    inside: defaultdict[str, list[_Part]] = defaultdict(list)

    def part(path: str) -> _Part:
        if path not in below:
            below[path] = _Part(path)
            if path:
                inside[posixpath.dirname(path)].append(below[path])
        return below[path]

    def weight(p: _Part) -> int:
        return p.size if by_size else p.files

    def heaviest(folder: str) -> list[_Part]:
        return sorted(inside[folder], key=lambda p: (-weight(p), p.path))

    for e in entries:
        path = e["path"]
        part(path).files -= "dir" in e  # its folder counts it
        while True:
            at = part(path)
            at.size, at.files = at.size + e.get("size", 0), at.files + 1
            if not path:
                break
            path = posixpath.dirname(path)
    out = []
    for p in heaviest("")[:_PARTS]:
        while (deeper := heaviest(p.path)) and 10 * weight(deeper[0]) >= 9 * weight(p):
            p = deeper[0]
        out.append(_Part(p.path + "/" * bool(inside[p.path]), p.size, p.files))
    return out


def _size(n: int) -> str:
    """An amount of data for people."""
    unit, value = 0, float(n)
    while value >= 1024 and unit < 4:
        unit, value = unit + 1, value / 1024
    digits = 1 if unit and value < 100 else 0
    return f"{value:.{digits}f} {['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}"
