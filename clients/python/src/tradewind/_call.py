"""Shared by both clients: builds the API's requests as data and reads its responses."""

from __future__ import annotations

import codecs
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from .errors import BrokerError, Infeasible, TradewindError, Unreachable
from .job import Job
from .models import FittingOffers, JobDetail, JobList, JobUpdate, JobView, PlanView, Problem, Story, Submitted, Why

M = TypeVar("M", bound=BaseModel)

TIMEOUT = httpx.Timeout(60.0, connect=10.0)
UPLOAD = httpx.Timeout(60.0, connect=10.0, write=600.0)
STREAM = httpx.Timeout(120.0, connect=10.0)  # comments keep a silent stream alive
LOG = httpx.Timeout(10.0, read=None)  # a task may print nothing for as long as it likes
TRIES = 5
FIRST_PAUSE = 0.2  # seconds; doubles
SELDOM = 5.0  # seconds between two requests for a log without news
RECONNECT_FOR = 30.0  # seconds without data
PART = 1000  # tasks of a large job in one request
PASSING = frozenset({429, 500, 502, 503, 504})
OVER = frozenset({"succeeded", "failed", "cancelled"})

Source = Job | str | Path | bytes
"""A job, or a job file as a path or its content as bytes."""

File = tuple[str, bytes]
"""A job file to submit: its name and its content."""


@dataclass(frozen=True)
class Call(Generic[M]):
    """One call of the API, and the type of its answer."""

    method: str
    path: str
    answer: type[M]
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, tuple[None, bytes]] | None = None
    content: bytes | None = None
    signed: bool = False
    """It is a signed request to a store: the broker's credentials are not sent."""

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        return http.build_request(
            self.method,
            self.path,
            params=self.params or None,  # an empty mapping would remove those of the URL
            headers=self.headers,
            content=self.content,
            files=self.files,
            timeout=UPLOAD if self.signed else TIMEOUT,
        )

    def read(self, response: httpx.Response) -> M:
        check(response)
        try:
            return self.answer.model_validate_json(response.content)
        except ValidationError as err:
            raise TradewindError(f"the answer of {self.method} {self.path} is not the API's: {err}") from err


def check(response: httpx.Response) -> None:
    """Raises BrokerError if the answer is an error. Its body has been read."""
    if response.is_success:
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:  # a gateway's
        text = response.text[:200]
        problem = Problem(title=response.reason_phrase or "refused", status=response.status_code, detail=text)
    raise BrokerError(problem)


def file(source: Source) -> File:
    """Returns a job file unchanged."""
    if isinstance(source, Job):
        return source.name + ".json", source.to_json().encode()
    if isinstance(source, bytes):
        return "", source
    path = Path(source)
    return path.name, path.read_bytes()


def submit(job: File, key: str | None, hidden: Mapping[str, str] | None, updates: str | None = None) -> Call[Submitted]:
    name, body = job
    params = {k: v for k, v in {"name": name, "updates": updates}.items() if v}
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    if hidden:
        form = {"secrets": (None, json.dumps(dict(hidden)).encode()), "file": (None, body)}
        return Call("POST", "/v1/dags", Submitted, params, headers, files=form)
    headers["Content-Type"] = "application/octet-stream"
    return Call("POST", "/v1/dags", Submitted, params, headers, content=body)


def plan(job: File, objective: str | None, deadline: str | None, budget: float | None) -> Call[PlanView]:
    name, body = job
    given = {
        "name": name,
        "objective": objective,
        "deadline": deadline,
        "budget": None if budget is None else str(budget),
    }
    params = {k: v for k, v in given.items() if v}
    return _Plan("POST", "/v1/plans", PlanView, params, {"Content-Type": "application/octet-stream"}, content=body)


def offers(job: File) -> Call[FittingOffers]:
    """Lists the offers that fit the only task of a job."""
    name, body = job
    headers = {"Content-Type": "application/octet-stream"}
    return Call("POST", "/v1/offers", FittingOffers, {"name": name}, headers, content=body)


class _Plan(Call[PlanView]):
    """A plan. Without one, the reason is an error."""

    def read(self, response: httpx.Response) -> PlanView:
        made = super().read(response)
        if made.status.value == "infeasible":
            raise Infeasible(made)
        return made


def unreachable(request: httpx.Request | None, broker: str, why: object) -> Unreachable:
    """The error if the broker, or the store of a signed request, does not answer."""
    who = f"the store of packs does not answer at {request.url.copy_with(raw_path=b'/')}" if request else ""
    return Unreachable(f"{who or 'the broker does not answer at ' + broker}: {why}")


def job_path(job: str) -> str:
    return "/v1/jobs/" + quote(job, safe="")


def jobs(limit: int) -> Call[JobList]:
    return Call("GET", "/v1/jobs", JobList, {"limit": str(limit)})


def part(job: str, after: int) -> Call[JobDetail]:
    return Call("GET", job_path(job), JobDetail, _from(after))


def story(job: str, after: int) -> Call[Story]:
    return Call("GET", job_path(job) + "/explain", Story, _from(after))


def _from(after: int) -> dict[str, str]:
    return {"limit": str(PART), **({"after": str(after)} if after else {})}


def cancel(job: str, reason: str) -> Call[JobView]:
    return Call("POST", job_path(job) + "/cancel", JobView, {"reason": reason} if reason else {})


def remove(job: str) -> Call[JobView]:
    return Call("POST", job_path(job) + "/remove", JobView)


def waiting(job: str) -> Call[Why]:
    return Call("GET", job_path(job) + "/waiting", Why)


def logs(
    job: str,
    task: str | int,
    attempt: int,
    rank: int,
    tail: int,
    since: datetime | None,
    *,
    timestamps: bool = False,
    follow: bool = False,
) -> tuple[str, dict[str, str]]:
    params = {name: str(n) for name, n in (("attempt", attempt), ("rank", rank), ("tail", tail)) if n}
    if since is not None:
        params["since"] = since.astimezone(timezone.utc).isoformat()
    params |= {name: "true" for name, on in (("timestamps", timestamps), ("follow", follow)) if on}
    return f"{job_path(job)}/tasks/{quote(str(task), safe='')}/logs", params


class Log:
    """Reads a log from one or several answers. Functions on AWS return parts; each names the start of the next."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pause = 0.0
        self._news = False

    def feed(self, piece: bytes) -> str:
        """Decodes a piece; an incomplete character waits for the next piece."""
        self._news = True
        return self._decode(piece)

    def more(self, response: httpx.Response, params: dict[str, str]) -> bool:
        """Reports whether another answer follows this one; params then request it."""
        after = response.headers.get("Tradewind-Next", "")
        params.update({"after": after} if after else {})
        return bool(after)

    def pause(self) -> float:
        """How long to wait before the next request; longer after each answer without news."""
        self._pause = 0.0 if self._news else min(max(self._pause * 1.5, FIRST_PAUSE), SELDOM)
        self._news = False
        return self._pause


def joined(whole: JobDetail | None, more: JobDetail) -> JobDetail:
    if whole is None:
        return more
    return more.model_copy(
        update={
            "task_list": [*(whole.task_list or []), *(more.task_list or [])],
            "plans": [*(whole.plans or []), *(more.plans or [])],
            "attempts": [*(whole.attempts or []), *(more.attempts or [])],
            "services": [*(whole.services or []), *(more.services or [])],
        }
    )


def joined_story(whole: Story | None, more: Story) -> Story:
    if whole is not None:
        entries = [*(whole.entries or []), *(more.entries or [])]
        choices = [*(whole.choices or []), *(more.choices or [])]
        more = more.model_copy(update={"entries": entries, "choices": choices})
    return more.model_copy(update={"entries": sorted(more.entries or [], key=lambda e: e.at)})


class Events:
    """Reads a stream of server-sent events (WHATWG HTML, section 9.2), as far as the API uses them."""

    def __init__(self) -> None:
        self.last = ""
        """ID of the last event that was read."""
        self.over = False
        self._line = b""  # incomplete
        self._forget()

    def _forget(self) -> None:
        self._name, self._id, self._data = "", "", list[str]()

    def again(self) -> dict[str, str]:
        """The headers that continue the stream where it ended."""
        self._line = b""
        self._forget()
        return {"Last-Event-ID": self.last} if self.last else {}

    def feed(self, piece: bytes) -> Iterator[JobUpdate]:
        """Yields the updates that a piece of the stream completes. Only a line feed ends a line: other line ends of
        Unicode and httpx are text of an event, such as a U+0085 printed by a program."""
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            yield from self._read(line.removesuffix(b"\r").decode(errors="replace"))

    def _read(self, line: str) -> Iterator[JobUpdate]:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return
        name, ident, data = self._name, self._id, "\n".join(self._data)
        self._forget()
        if name == "end":
            self.over = True
        elif name == "job":
            self.last = ident
            yield JobUpdate.model_validate_json(data)


def merged(known: dict[int, Any], update: JobUpdate) -> None:
    """Stores an update's tasks by index."""
    for t in update.tasks or []:
        known[t.index] = t
