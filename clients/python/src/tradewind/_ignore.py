"""Ignore rules for packing a folder: those of internal/pack, which are git's."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from itertools import pairwise

OWN = ".tradewindignore"
_ALONE = (OWN, ".skyignore")  # if one is at the folder's top, only it applies
_GIT, _GIT_IGNORE = ".git", ".gitignore"


@dataclass(frozen=True)
class _Rule:
    """A line of an ignore file (gitignore(5)); paths start at the folder of the file."""

    match: re.Pattern[str]
    again: bool  # a pattern with !
    folders: bool  # matches only folders


class _File:
    """The rules of one ignore file."""

    def __init__(self, base: str, body: bytes) -> None:
        self.below = len(base.rstrip("/")) + 1
        lines = body.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
        self.rules = [rule for line in lines if (rule := _rule(line.removesuffix("\r")))]
        self.rules.reverse()
        self.some = re.compile("|".join(f"(?:{r.match.pattern})" for r in self.rules) or r"(?!)")

    def leave(self, path: str, folder: bool) -> bool | None:
        """Whether a path is left out; None if no rule matches."""
        below = path[self.below :]
        if self.some.fullmatch(below):  # most files match none
            for rule in self.rules:
                if (folder or not rule.folders) and rule.match.fullmatch(below):
                    return not rule.again
        return None


@dataclass(frozen=True)
class Rules:
    """The rules below a folder. The last matching rule decides."""

    git: bool = False
    files: tuple[_File, ...] = field(default=())

    @staticmethod
    def of(folder: str) -> Rules:
        """The rules for the content of a folder, an absolute path without links."""
        for name in _ALONE:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    return Rules(files=(_File(_slashed(folder), file.read()),))
            except FileNotFoundError:
                continue
        return _repository(folder).inside(folder)

    def inside(self, folder: str) -> Rules:
        """The rules for the content of a folder: those of its parents and its own."""
        return self._with(folder, os.path.join(folder, _GIT_IGNORE)) if self.git else self

    def leave(self, path: str, folder: bool) -> bool:
        """Whether a path is left out. Not called for the content of an ignored folder."""
        path = _slashed(path)
        if self.git and path.rpartition("/")[2] == _GIT:
            return True
        for file in reversed(self.files):
            if (said := file.leave(path, folder)) is not None:
                return said
        return False

    def _with(self, base: str, name: str) -> Rules:
        try:
            if not stat.S_ISREG(os.lstat(name).st_mode):  # as git does, it follows no link
                return self
        except OSError:
            return self
        with open(name, "rb") as file:
            return Rules(self.git, (*self.files, _File(_slashed(base), file.read())))


def _slashed(path: str) -> str:
    return path.replace(os.sep, "/")


def _repository(folder: str) -> Rules:
    """The rules of parent folders in the same repository. They do not apply if they ignore the folder itself, because
    the user named it."""
    none = Rules(git=True)
    path = [folder]  # from the repository's top
    while not os.path.lexists(os.path.join(path[0], _GIT)):
        if (above := os.path.dirname(path[0])) == path[0]:
            return none
        path.insert(0, above)
    found = none._with(path[0], os.path.join(path[0], _GIT, "info", "exclude"))
    for outer, inner in pairwise(path):
        found = found.inside(outer)
        if found.leave(inner, folder=True):
            return none
    return found


def _rule(line: str) -> _Rule | None:
    """Parses a line. An invalid pattern matches nothing, as in git."""
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if line.startswith("#"):
        return None
    again, line = line.startswith("!"), line.removeprefix("!")
    folders, line = line.endswith("/"), line.removesuffix("/")
    glob = line.removeprefix("/")
    if glob == line and "/" not in glob:
        glob = "**/" + glob
    if glob.endswith("/**"):
        glob += "/*"  # git: the content, not the folder
    pattern = _regex(glob.removesuffix("/**/"), glob.endswith("/**/")) if line else None
    return _Rule(re.compile(pattern), again, folders) if pattern is not None else None


def _regex(glob: str, cut: bool) -> str | None:
    """A pattern without its final /**/ as a regular expression; None if it can match nothing. In rare cases in which
    git differs, it does the same as internal/pack, so that a folder has one digest."""
    out: list[str] = []
    at, start = 0, True  # start: of a part between slashes
    while at < len(glob):
        c = glob[at]
        if c == "*":
            stars = len(glob[at:]) - len(glob[at:].lstrip("*"))
            after = at + stars
            if stars == 2 and start and after == len(glob):
                if cut:
                    return None
                out.append(r"[\s\S]*")
            elif stars == 2 and start and glob[after] == "/":
                if out[-1:] != ["(?:[^/]+/)*"]:
                    out.append("(?:[^/]+/)*")
                at = after + 1
                continue
            else:
                out.append("[^/]+" if (stars > 2 or cut) and after == len(glob) else "[^/]*")
            at, start = after, False
            continue
        if c == "?":
            out.append("[^/]")
        elif c == "[":
            if (found := _class(glob, at + 1)) is None:
                return None
            text, at = found
            out.append(text)
            start = False
            continue
        else:
            if c == "\\":
                at += 1
                if at == len(glob):
                    return None
            out.append(re.escape(glob[at]))
        start = c not in "?" and glob[at] == "/"
        at += 1
    return "".join(out)


def _class(glob: str, at: int) -> tuple[str, int] | None:
    """Parses the characters in brackets. Returns the expression and its end, or None without a closing bracket."""
    negate = glob[at : at + 1] in ("!", "^")
    at += negate
    out: list[str] = []
    last = ""  # the start of a range
    while at < len(glob) and (glob[at] != "]"):
        c, at = glob[at], at + 1
        span = bool(last) and c == "-" and at < len(glob) and glob[at] != "]"
        if span:
            c, at = glob[at], at + 1
        if c == "\\":
            if at == len(glob):
                return None
            c, at = glob[at], at + 1
        if span:
            if last <= c:
                out.append(f"{re.escape(last)}-{re.escape(c)}")
            last = ""
        else:
            out.append(re.escape(c))
            last = c
    if at == len(glob) or not out:
        return None
    return f"[{'^' if negate else ''}{''.join(out)}]", at + 1
