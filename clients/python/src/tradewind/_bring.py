"""Uploads the local files of a job as packs, like `tradewind submit`, and puts references in their place."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from pydantic import BaseModel

from . import _estimate
from ._call import Call, File, Source, file
from ._pack import TRIES, Changed, Tree, pack
from .errors import TradewindError
from .job import Duration, Job
from .models import Grant, Missing

Work = Generator[Call[Any], Any, File]
"""Yields calls to make, receives their answers, and returns the job file. Reads files between calls."""

_ASK = 1000  # pieces in one request
_SIGNED_FOR = timedelta(minutes=1)  # minimum remaining validity of a grant
_COPIED = ("false", "no", "off")  # words of `mount`
_FULL = (
    "the broker's disk has no space left for uploaded files: free some space and submit the job again; "
    "uploaded parts are not sent twice"
)


def bring(source: Source) -> Work:
    """Uploads the local files of a Job that the broker does not have, and returns the file with references to the
    packs. A job file is returned unchanged. Raises TradewindError; if a file is missing, before anything is sent."""
    if not isinstance(source, Job):
        return file(source)
    job, places = _found(source, (yield from _estimate.tables(source)))
    packed: dict[str, str] = {}
    for place in places:
        if place.path not in packed:
            packed[place.path] = yield from _sent(place)
        place.put(packed[place.path])
    return _written(source, job)


def found(source: Source) -> Work:
    """The file to plan with: local files of a Job must exist, and their sizes are included."""
    if not isinstance(source, Job):
        return file(source)
    return _written(source, _found(source, (yield from _estimate.tables(source)))[0])


def step(work: Work, answer: Any) -> Call[Any] | File:
    """The next call of some work, or its result."""
    try:
        return work.send(answer)
    except StopIteration as done:
        made: File = done.value
        return made


def _written(source: Job, job: dict[str, Any]) -> File:
    return source.name + ".json", (json.dumps(job, indent=2) + "\n").encode()


@dataclass(frozen=True)
class _Place:
    """The place in a job that names a local file."""

    task: str
    where: str
    fields: dict[str, Any]
    key: str
    path: str

    def put(self, uri: str) -> None:
        self.fields[self.key] = uri

    @contextmanager
    def told(self) -> Iterator[None]:
        """Adds the place in the job to errors."""
        at, uri = f"tasks.{self.task}.{self.where}", json.dumps(self.fields[self.key], ensure_ascii=False)
        try:
            yield
        except FileNotFoundError as err:
            raise TradewindError(f"{at}: {uri}: there is no {self.path} (paths begin at {os.getcwd()})") from err
        except TradewindError as err:
            raise TradewindError(f"{at}: {err}") from err
        except (OSError, ValueError) as err:
            raise TradewindError(f"{at}: {uri}: {err}") from err


def _places(job: dict[str, Any]) -> Iterator[_Place]:
    for name, task in job["tasks"].items():
        _refuse(name, task)
        if path := _path(task.get("workdir")):
            yield _Place(name, "workdir", task, "workdir", path)
        for role, of in _roles(task):
            if path := _path(of.get("workdir")):
                yield _Place(name, f"gang.roles.{role}.workdir", of, "workdir", path)
        for k, given in enumerate(task.get("inputs", ())):
            if path := _path(given.get("uri")):
                yield _Place(name, f"inputs[{k}]", given, "uri", path)


def _roles(task: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    gang = task.get("gang")
    yield from gang["roles"].items() if isinstance(gang, dict) else ()


def _refuse(name: str, task: dict[str, Any]) -> None:
    """Raises an error for what only the command line uploads."""
    submit = "use `tradewind submit` with the file that job.to_json() returns"
    for of in (task, *(role for _, role in _roles(task))):
        if isinstance(of.get("workdir"), dict):
            raise TradewindError(f"tasks.{name}.workdir: this client does not clone repositories ({submit})")
    if any("source" in given for given in task.get("inputs", ())):
        raise TradewindError(f"tasks.{name}.inputs: this client does not upload to a bucket ({submit})")


def _path(uri: object) -> str:
    """The absolute local path that a job names; "" if it names none."""
    if not isinstance(uri, str) or not uri or "://" in uri:
        return ""
    path = os.path.expanduser(uri) if uri.startswith("~/") else uri
    path = os.path.normpath(os.path.join(os.getcwd(), path))
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _outputs(job: dict[str, Any]) -> set[str]:
    """The paths that tasks of the job write to. The job then has their absolute paths."""
    made = set()
    for task in job["tasks"].values():
        outputs = list(task.get("outputs", ()))
        for _, role in _roles(task):
            outputs += role.get("outputs", ())
        for out in outputs:
            uri = out.get("uri", "")
            if path := _path(uri):
                out["uri"] = path
                made.add(path)
            elif uri.startswith("file://"):
                made.add(unquote(urlsplit(uri).path))
    return made


def _found(source: Job, times: Mapping[str, Mapping[str, Duration]]) -> tuple[dict[str, Any], list[_Place]]:
    """The job with absolute paths and sizes of inputs, and the places to pack. times are those of its estimators."""
    job = source._written(times)
    made, places, trees = _outputs(job), [], dict[str, Tree]()
    for place in _places(job):
        if not made.isdisjoint([place.path, *map(str, Path(place.path).parents)]):
            place.put(place.path)
            continue
        with place.told():
            tree = trees[place.path] = trees.get(place.path) or Tree.scan(place.path)
            if place.key == "workdir":
                _fit_workdir(tree, job["tasks"][place.task].get("inputs", ()))
            elif tree.size and "size" not in place.fields:
                place.fields["size"] = f"{tree.size}B"
        place.put(place.path)
        places.append(place)
    return job, places


def _fit_workdir(tree: Tree, inputs: list[dict[str, Any]]) -> None:
    """Checks that it is a folder, and that no mount hides its content."""
    if tree.single:
        at = os.path.join(tree.dir, tree.name)
        raise TradewindError(
            f"{at} is a file, not a folder (name the folder that it is in, or list the file in inputs)"
        )
    for k, given in enumerate(inputs):
        mounted = str(given.get("mount", "no")).lower() not in _COPIED
        if mounted and given.get("path") and (hidden := tree.at(posixpath.normpath(given["path"]))):
            raise TradewindError(
                f"inputs[{k}] would be mounted over {hidden} of it (give the mount a folder that is empty or not in "
                "the workdir, or leave that out in .tradewindignore)"
            )


def _sent(place: _Place) -> Generator[Call[Any], Any, str]:
    """Packs a path and uploads the missing pieces. If files change meanwhile, they are packed again."""
    for tried in range(1, TRIES + 1):
        with place.told():
            tree = pack(place.path)
            try:
                yield from _send(tree)
                return tree.uri
            except Changed:
                if tried == TRIES:
                    raise
    raise AssertionError


def _send(tree: Tree) -> Generator[Call[Any], Any, None]:
    """Uploads the missing pieces of a tree. The list is last, so its presence means that all pieces exist."""
    sizes, missing = tree.pieces(), dict[str, Grant]()
    names = iter(sizes)
    while part := list(islice(names, _ASK)):
        answer: Missing = yield _ask({name: sizes[name] for name in part})
        missing.update({lack.digest: lack.grant for lack in answer.missing})
    if strange := missing.keys() - sizes.keys():
        raise TradewindError(f"the broker asks for {sorted(strange)}, which are no pieces of the pack")
    for name in sorted(missing, key=lambda name: name == tree.digest):
        body, grant = tree.content(name), missing[name]
        if grant.expires - datetime.now(timezone.utc) < _SIGNED_FOR:  # of a large upload, or a slow one
            again: Missing = yield _ask({name: sizes[name]})
            if not again.missing:
                continue  # another client uploaded it
            grant = again.missing[0].grant
        yield _Upload(grant.method, grant.url, _Sent, headers=grant.header or {}, content=body, signed=True)


def _ask(pieces: dict[str, int]) -> Call[Missing]:
    body = json.dumps({"pieces": [{"digest": name, "size": size} for name, size in pieces.items()]}).encode()
    headers = {"Content-Type": "application/json"}
    return Call("POST", "/v1/packs/missing", Missing, headers=headers, content=body)


class _Sent(BaseModel):
    """The answer is empty."""


class _Upload(Call[_Sent]):
    """The upload of a piece. Its URL grants access, so it is never in an error."""

    def read(self, response: httpx.Response) -> _Sent:
        if response.status_code == httpx.codes.INSUFFICIENT_STORAGE:
            raise TradewindError(_FULL)
        if not response.is_success:
            at = f"{self.method} {self.path.partition('?')[0]}"
            raise TradewindError(
                f"upload: {at}: {response.status_code} {response.reason_phrase}: {response.text[:512]}"
            )
        return _Sent()
