"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import httpx

from . import _bring, _call, _show
from ._call import Call, File, M, Source
from ._endpoint import Endpoint
from .errors import JobFailed, Unreachable
from .models import JobDetail, JobUpdate, JobView, PlanView, Story, TaskView, Why


class Client:
    """Calls one broker. It is found as the command line finds it: see Endpoint.find. Close it, or use it in a `with`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        state: str | Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.endpoint = Endpoint.find(url, token, state)
        self._http = httpx.Client(
            base_url=self.endpoint.url, auth=self.endpoint.auth(), timeout=_call.TIMEOUT, transport=transport
        )

    def submit(self, job: Source, *, key: str | None = None, secrets: Mapping[str, str] | None = None) -> Run:
        """Hands in a job, or a job file of any form. Of a Job, what it names on this computer is brought along: it raises
        TradewindError where that is not there. The same key is the same job, however often it is sent. Raises
        BrokerError of a job that is not valid: nothing of it is stored."""
        answer = self._do(_call.submit(self._bring(job), key, secrets))
        return Run(self, answer.id, list(answer.warnings or []))

    def update(
        self, job: str, to: Source, *, key: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> JobDetail:
        """Has the services of a job be what another says, one replica after the other. It returns before that is done."""
        return self.job(self._do(_call.submit(self._bring(to), key, secrets, job)).id)

    def plan(
        self, job: Source, *, objective: str | None = None, deadline: str | None = None, budget: float | None = None
    ) -> PlanView:
        """Says where a job would run and what it would cost (USD), without running it. What is given counts for more
        than what the file says."""
        return self._do(_call.plan(_bring.found(job), objective, deadline, budget))

    def jobs(self, limit: int = 50) -> list[JobView]:
        """The jobs, the newest first."""
        return self._do(_call.jobs(limit)).jobs

    def run(self, job: str) -> Run:
        """A job that was submitted before, by its ID."""
        return Run(self, job)

    def job(self, job: str) -> JobDetail:
        """A job with all its tasks, plans and attempts."""
        whole = _call.joined(None, self._do(_call.part(job, 0)))
        while whole.next:
            whole = _call.joined(whole, self._do(_call.part(job, whole.next)))
        return whole

    def explain(self, job: str) -> Story:
        """What happened to a job in the order of time, and why its tasks run where they do."""
        whole = _call.joined_story(None, self._do(_call.story(job, 0)))
        while whole.next:
            whole = _call.joined_story(whole, self._do(_call.story(job, whole.next)))
        return whole

    def waiting(self, job: str) -> Why:
        """Why tasks of a job wait in their queue."""
        return self._do(_call.waiting(job))

    def cancel(self, job: str, reason: str = "") -> JobView:
        """Asks for the end of a job. It returns before the job has ended."""
        return self._do(_call.cancel(job, reason))

    def logs(self, job: str, task: str | int, *, attempt: int = 0, rank: int = 0, tail: int = 0) -> str:
        """What a task has printed so far: of its last attempt, or the one named; tail is in bytes, 0 is all."""
        path, params = _call.logs(job, task, attempt, rank, tail, follow=False)
        log, text = _call.Log(), ""
        while True:
            response = self._send(self._http.build_request("GET", path, params=params))
            _call.check(response)
            text += log.feed(response.content)
            if not log.more(response, params):
                return text

    def follow_logs(self, job: str, task: str | int, *, rank: int = 0) -> Iterator[str]:
        """What a task prints, as it comes, until it has ended."""
        path, params = _call.logs(job, task, 0, rank, 0, follow=True)
        log, more = _call.Log(), True
        while more:
            try:
                with self._http.stream("GET", path, params=params, timeout=_call.LOG) as response:
                    if not response.is_success:
                        response.read()
                        _call.check(response)
                    for piece in response.iter_bytes():
                        yield log.feed(piece)
            except httpx.TransportError as err:
                raise self._unreachable(err) from err
            if more := log.more(response, params):
                time.sleep(log.pause())

    def follow(self, job: str) -> Iterator[JobUpdate]:
        """A job's updates until it is over: first everything, then what changed. A stream that breaks off is opened
        again where it ended."""
        events, broken = _call.Events(), 0.0
        while not events.over:
            failure: Exception | None = None
            try:
                with self._http.stream(
                    "GET", _call.job_path(job) + "/events", headers=events.again(), timeout=_call.STREAM
                ) as response:
                    if not response.is_success:
                        response.read()
                        if response.status_code not in _call.PASSING:
                            _call.check(response)
                    else:
                        for piece in response.iter_bytes():
                            broken = 0.0
                            yield from events.feed(piece)
            except httpx.TransportError as err:
                failure = err
            if events.over:
                return
            broken = broken or time.monotonic()
            if time.monotonic() - broken > _call.RECONNECT_FOR:
                raise self._unreachable(failure or "the stream broke off") from failure
            time.sleep(_call.FIRST_PAUSE)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _bring(self, job: Source) -> File:
        """What is handed in: of a Job, with packs in the place of what it names on this computer."""
        work, answer = _bring.bring(job), None
        while isinstance(next := _bring.step(work, answer), Call):
            answer = self._do(next)
        return next

    def _do(self, call: Call[M]) -> M:
        return call.read(self._send(call.request(self._http), call.signed))

    def _send(self, request: httpx.Request, signed: bool = False) -> httpx.Response:
        """Sends a request, and again while its failure is one that passes. Every one may be repeated: a job has a key."""
        pause = _call.FIRST_PAUSE
        for tried in range(1, _call.TRIES + 1):
            try:
                response = self._http.send(request, auth=None if signed else httpx.USE_CLIENT_DEFAULT)
                if response.status_code not in _call.PASSING or tried == _call.TRIES:
                    return response
            except httpx.ConnectError as err:
                raise self._unreachable(err, request if signed else None) from err  # where nobody listens, nobody will
            except httpx.TransportError as err:
                if tried == _call.TRIES:
                    raise self._unreachable(err, request if signed else None) from err
            time.sleep(pause)
            pause *= 2
        raise AssertionError

    def _unreachable(self, why: object, signed: httpx.Request | None = None) -> Unreachable:
        return _call.unreachable(signed, self.endpoint.url, why)


class Run:
    """A job that was submitted."""

    def __init__(self, client: Client, job: str, warnings: list[str] | None = None) -> None:
        self.client, self.id, self.warnings = client, job, warnings or []

    def status(self) -> JobDetail:
        """The job as it is now, with its tasks."""
        return self.client.job(self.id)

    def tasks(self) -> dict[str, TaskView]:
        """The tasks as they are now, by name."""
        return {t.name: t for t in self.status().task_list or []}

    def wait(self, *, check: bool = True) -> JobView:
        """Waits for the job's end. Raises JobFailed if it ended otherwise than well, unless check is False."""
        job: JobView | None = None
        for update in self.client.follow(self.id):
            job = update.job
        if job is None or job.state not in _call.OVER:
            job = self.client._do(_call.Call("GET", _call.job_path(self.id), JobView, {"limit": "1"}))
        if check and job.state != "succeeded":
            raise JobFailed(job)
        return job

    def follow(self) -> Iterator[JobUpdate]:
        """The job's updates until it is over: first everything, then what changed."""
        return self.client.follow(self.id)

    def logs(self, task: str | int, *, attempt: int = 0, rank: int = 0, tail: int = 0) -> str:
        """What a task has printed so far."""
        return self.client.logs(self.id, task, attempt=attempt, rank=rank, tail=tail)

    def follow_logs(self, task: str | int, *, rank: int = 0) -> Iterator[str]:
        """What a task prints, as it comes, until it has ended."""
        return self.client.follow_logs(self.id, task, rank=rank)

    def explain(self) -> Story:
        """What happened, and why tasks run where they do."""
        return self.client.explain(self.id)

    def update(self, to: Source, *, secrets: Mapping[str, str] | None = None) -> JobDetail:
        """Has the job's services be what another job says, one replica after the other."""
        return self.client.update(self.id, to, secrets=secrets)

    def cancel(self, reason: str = "") -> JobView:
        """Asks for the job's end."""
        return self.client.cancel(self.id, reason)

    def watch(self) -> JobView:
        """Waits for the job's end and shows meanwhile how it goes: in a notebook as a table that is drawn anew,
        elsewhere as lines. It does not raise where the job fails: that is shown."""
        view = _show.live()
        for update in self.follow():
            view.show(update)
        return self.wait(check=False)

    def _repr_html_(self) -> str:
        job = self.status()
        return _show.html(JobView.model_validate(job.model_dump(by_alias=True)), job.task_list or [])

    def __repr__(self) -> str:
        return f"Run({self.id!r})"
