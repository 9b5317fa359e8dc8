"""Packs a folder or file like internal/pack: pieces named by their content, and a list of files."""

from __future__ import annotations

import bisect
import json
import os
import posixpath
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import quote

from ._cut import MAX_PIECE, cut, digest
from ._ignore import OWN, Rules
from ._large import large
from .errors import TradewindError

MAX_BYTES = 2 << 30
MAX_FILES = 200_000  # and folders and links
_MOST_ENTRIES, _MOST_LIST = 1 << 20, 64 << 20  # maximum entries and bytes of a list

_CHUNK = 1 << 20

TRIES = 3  # maximum tries for changing files
_STILL = 0.3  # seconds between tries


class Unfit(TradewindError):
    """Something cannot be packed. The text names it and the remedy."""


class Changed(Unfit):
    """A file changes while it is packed."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{shown(path)} changes while it is packed; wait until whatever writes it is done, or leave it out in {OWN}"
        )


def shown(path: str) -> str:
    """A printable form of a path."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class _File:
    """The content of an entry: its end in the stream, and the data that detects changes."""

    path: str
    end: int
    size: int
    modified: int

    def still(self, file: BinaryIO) -> bool:
        info = os.fstat(file.fileno())
        return info.st_size == self.size and info.st_mtime_ns == self.modified


@dataclass
class Tree:
    """A folder or file to pack. `Tree.scan` lists it without reading it; `pack` does both."""

    dir: str  # the folder, or the folder of the file
    name: str
    single: bool
    max_bytes: int = MAX_BYTES
    max_files: int = MAX_FILES
    size: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    digest: str = ""
    _files: list[_File] = field(default_factory=list)
    _pieces: dict[str, tuple[int, int]] = field(default_factory=dict)  # offset and size
    _body: bytes = b""

    @classmethod
    def scan(cls, path: str, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> Tree:
        """Lists the content of an absolute path. Raises OSError if it is missing, and Unfit."""
        real = os.path.realpath(path, strict=True)
        info, single = os.stat(real), not os.path.isdir(real)
        folder = os.path.dirname(real) if single else real
        tree = cls(folder, os.path.basename(os.path.normpath(path)) or "root", single, max_bytes, max_files)
        tree._fit_name(tree.name)
        at: dict[str, tuple[str, os.stat_result]] = {}
        if not single:
            tree._folders(at)
        elif stat.S_ISREG(info.st_mode):
            tree._add({"path": "."}, os.path.basename(real), info, at)
        else:
            raise Unfit(f"{shown(real)} cannot be packed: neither a file nor a folder")
        tree.entries.sort(key=lambda e: str(e["path"]))
        for e in tree.entries:
            if e.get("size"):
                tree.size += e["size"]
                below, info = at[e["path"]]
                tree._files.append(_File(below, tree.size, e["size"], info.st_mtime_ns))
        if tree.size > max_bytes or len(tree.entries) > max_files:
            raise tree._large()
        return tree

    @property
    def uri(self) -> str:
        """The reference to the pack in jobs, after it was read."""
        return f"pack://{self.digest}/{quote(self.name, safe='$&+=:@')}"

    def at(self, place: str) -> str:
        """An entry at or below a path: a file, a link or a folder's content; "" for none."""
        below = (e["path"] for e in self.entries if e["path"] == place and "dir" not in e or _in(e["path"], place))
        return next(below, "")

    def read(self) -> None:
        """Cuts the contents of all files into pieces, and writes the list."""
        window, chunks, begin, pieces = bytearray(), self._chunks(), 0, []
        while True:
            while len(window) < MAX_PIECE and (chunk := next(chunks, None)) is not None:
                window += chunk
            if not window:
                break
            n = cut(window)
            name = digest(window[:n])
            self._pieces.setdefault(name, (begin, n))
            pieces.append({"digest": name, "size": n})
            begin += n
            del window[:n]
        # Like Go's JSON, because the list is named by the digest of these bytes.
        made = {"version": 1, "entries": self.entries, "pieces": pieces}
        text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
        for c in "<>&\u2028\u2029":
            text = text.replace(c, f"\\u{ord(c):04x}")
        self._body = text.encode()
        if len(self._body) > _MOST_LIST:
            raise self._large()
        self.digest = digest(self._body)

    def pieces(self) -> dict[str, int]:
        """The size of each piece by digest; the list is last."""
        return {**{name: size for name, (_, size) in self._pieces.items()}, self.digest: len(self._body)}

    def content(self, name: str) -> bytes:
        """The bytes of the piece, or the list of pieces, with this digest. Raises Changed if the folder has changed."""
        if name == self.digest:
            return self._body
        at, left = self._pieces[name]
        body, k = bytearray(), bisect.bisect_right(self._files, at, key=lambda f: f.end)
        while left:
            f = self._files[k]
            part = min(left, f.end - at)
            with self._open(f) as file:
                file.seek(at - (f.end - f.size))
                body += file.read(part)
            at, left, k = at + part, left - part, k + 1
        if digest(body) != name:
            raise Changed(self._path(f.path))
        return bytes(body)

    def _path(self, below: str) -> str:
        return os.path.join(self.dir, *below.split("/"))

    @contextmanager
    def _open(self, f: _File) -> Iterator[BinaryIO]:
        """Opens a file and checks before and after reading that it has not changed."""
        try:
            with open(self._path(f.path), "rb") as file:
                if not f.still(file):
                    raise Changed(self._path(f.path))
                yield file
                if not f.still(file):
                    raise Changed(self._path(f.path))
        except OSError as err:
            raise self._gone(f.path, err) from err

    def _chunks(self) -> Iterator[bytes]:
        """The contents of the files, one after the other."""
        for f in self._files:
            with self._open(f) as file:
                left = f.size
                while left and (chunk := file.read(min(left, _CHUNK))):
                    left -= len(chunk)
                    yield chunk
                if left:
                    raise Changed(self._path(f.path))

    def _folders(self, at: dict[str, tuple[str, os.stat_result]]) -> None:
        todo = [("", Rules.of(self.dir))]
        while todo:
            folder, rules = todo.pop()
            try:
                with os.scandir(self._path(folder)) as found:
                    listed = sorted(found, key=lambda d: d.name)
            except OSError as err:
                raise self._gone(folder, err) from err
            for d in listed:
                path, full = posixpath.join(folder, d.name), os.path.join(self._path(folder), d.name)
                try:
                    if rules.leave(full, d.is_dir(follow_symlinks=False)):
                        continue
                    self._fit_name(path)
                    info = d.stat(follow_symlinks=False)
                    link = self._link(path) if stat.S_ISLNK(info.st_mode) else ""
                except OSError as err:
                    raise self._gone(path, err) from err
                if link:
                    self.entries.append({"path": path, "link": link})
                elif stat.S_ISDIR(info.st_mode):
                    self._add({"path": path}, path, info, at)
                    todo.append((path, rules.inside(full)))
                elif stat.S_ISREG(info.st_mode):
                    self._add({"path": path}, path, info, at)
                if len(self.entries) > _MOST_ENTRIES:
                    raise self._large()

    def _add(
        self, entry: dict[str, Any], below: str, info: os.stat_result, at: dict[str, tuple[str, os.stat_result]]
    ) -> None:
        """Adds a file or a folder. Zero values are left out, as in Go."""
        folder = stat.S_ISDIR(info.st_mode)
        fields = {"mode": info.st_mode & 0o777, "size": 0 if folder else info.st_size, "dir": folder}
        entry.update({name: value for name, value in fields.items() if value})
        self.entries.append(entry)
        at[entry["path"]] = below, info

    def _fit_name(self, path: str) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            fault = "its name is not UTF-8; rename it, or leave it out in " + OWN
            raise Unfit(f'{shown(self.dir)}: "{shown(path)}" cannot be packed: {fault}') from None

    def _gone(self, path: str, err: OSError) -> Exception:
        """The error for an unreadable file: it has disappeared, or the user may not read it."""
        if isinstance(err, FileNotFoundError):
            return Changed(self._path(path))
        if isinstance(err, PermissionError):
            fault = f"you may not read it; change its rights, or leave it out in {OWN}"
            return Unfit(f"{shown(self._path(path))} cannot be packed: {fault}")
        return err

    def _link(self, path: str) -> str:
        """The target of a link. An absolute path into the folder becomes relative, because the folder moves."""
        target = os.readlink(self._path(path))
        if os.path.isabs(target):
            below = os.path.relpath(target, self.dir)
            if below != ".." and not below.startswith(".." + os.sep):
                target = posixpath.normpath("../" * path.count("/") + below.replace(os.sep, "/"))
        target = target.replace(os.sep, "/")
        if not _link_inside(path, target):
            raise Unfit(
                f"{shown(self._path(path))} cannot be packed: it is a link out of {shown(self.dir)}, to "
                f"{shown(target)}; replace the link by its target, name the target in inputs, or leave the link out in {OWN}"
            )
        return target

    def _large(self) -> Unfit:
        return Unfit(large(shown(self.dir), self.entries, self.max_bytes, self.max_files))


def _in(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


def _link_inside(path: str, target: str) -> bool:
    """Whether a link points into the folder. `..` after a name is refused: the name may be another link."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    down = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    ends = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    try:
        target.encode()
    except UnicodeEncodeError:
        return False
    return not target.startswith("/") and ".." not in parts[down:] and ends != ".." and not ends.startswith("../")


def pack(path: str) -> Tree:
    """Lists and reads a folder or file. If it changes meanwhile, it is packed again a few times before this fails."""
    for tried in range(1, TRIES + 1):
        try:
            tree = Tree.scan(path)
            tree.read()
            return tree
        except Changed:
            if tried == TRIES:
                raise
            time.sleep(_STILL)
    raise AssertionError
