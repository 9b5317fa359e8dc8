"""What is left out of a folder that is packed: the rules of internal/pack, which are git's."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from itertools import pairwise

OWN = ".tradewindignore"
_ALONE = (OWN, ".skyignore")  # where one lies at the folder's top, it alone counts
_GIT, _GIT_IGNORE = ".git", ".gitignore"


@dataclass(frozen=True)
class _Rule:
    """A line of an ignore file (gitignore(5)); paths are below the folder that the file lies in."""

    match: re.Pattern[str]
    again: bool  # what it matches is not left out after all
    folders: bool  # it matches folders alone


class _File:
    """The rules of one ignore file."""

    def __init__(self, base: str, body: bytes) -> None:
        self.below = len(base.rstrip("/")) + 1
        lines = body.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
        self.rules = [rule for line in lines if (rule := _rule(line.removesuffix("\r")))]
        self.rules.reverse()
        self.some = re.compile("|".join(f"(?:{r.match.pattern})" for r in self.rules) or r"(?!)")

    def leave(self, path: str, folder: bool) -> bool | None:
        """Whether a path is left out; None where no rule says."""
        below = path[self.below :]
        if self.some.fullmatch(below):  # most files match none
            for rule in self.rules:
                if (folder or not rule.folders) and rule.match.fullmatch(below):
                    return not rule.again
        return None


@dataclass(frozen=True)
class Rules:
    """What is left out below a folder; of several rules that match, the last one counts."""

    git: bool = False
    files: tuple[_File, ...] = field(default=())

    @staticmethod
    def of(folder: str) -> Rules:
        """The rules for what lies in a folder, an absolute path without links."""
        for name in _ALONE:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    return Rules(files=(_File(_slashed(folder), file.read()),))
            except FileNotFoundError:
                continue
        return _repository(folder).inside(folder)

    def inside(self, folder: str) -> Rules:
        """The rules for what lies in a folder: those for the folder itself, and its own."""
        return self._with(folder, os.path.join(folder, _GIT_IGNORE)) if self.git else self

    def leave(self, path: str, folder: bool) -> bool:
        """Whether something is left out. What lies in a folder that is left out is not asked for."""
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
    """The rules of the folders above one, where they are of one repository with it. They do not count where they leave
    out the folder itself, which its user named."""
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
    """Reads a line. One that is no pattern matches nothing, as with git."""
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
        glob += "/*"  # git: what is inside, not the folder
    pattern = _regex(glob.removesuffix("/**/"), glob.endswith("/**/")) if line else None
    return _Rule(re.compile(pattern), again, folders) if pattern is not None else None


def _regex(glob: str, cut: bool) -> str | None:
    """A pattern, of which /**/ was cut off, as a regular expression; None of one that can match nothing. Also where git
    differs in what is hardly ever written, it says what internal/pack does, so that a folder has one name."""
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
    """Reads the characters between brackets: the expression, and where they end; None where they do not."""
    negate = glob[at : at + 1] in ("!", "^")
    at += negate
    out: list[str] = []
    last = ""  # what a range would begin with
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
