"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType

import httpx

from . import _bring, _call, _show
from ._bring import Work
from ._call import Call, File, M, Source
from ._endpoint import Endpoint
from .errors import JobFailed, Unreachable
from .models import JobDetail, JobUpdate, JobView, PlanView, Story, TaskView, Why


class Client:
    """Calls one broker, which is found like the command line finds it (Endpoint.find). Close it, or use `with`."""

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
        """Submits a job, or a job file in any format. Local files of a Job are uploaded; if one is missing,
        TradewindError is raised. Repeating a call with the same key returns the same job. Raises BrokerError if the
        job is invalid; it is not stored then."""
        answer = self._do(_call.submit(self._bring(job), key, secrets))
        return Run(self, answer.id, list(answer.warnings or []))

    def update(
        self, job: str, to: Source, *, key: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> JobDetail:
        """Updates the services of a job to those of another job, one replica at a time. Returns before it is done."""
        return self.job(self._do(_call.submit(self._bring(to), key, secrets, job)).id)

    def plan(
        self, job: Source, *, objective: str | None = None, deadline: str | None = None, budget: float | None = None
    ) -> PlanView:
        """Returns where a job would run and its cost (USD), without running it. The arguments override the
        file."""
        return self._do(_call.plan(self._work(_bring.found(job)), objective, deadline, budget))

    def jobs(self, limit: int = 50) -> list[JobView]:
        """The jobs, the newest first."""
        return self._do(_call.jobs(limit)).jobs

    def run(self, job: str) -> Run:
        """An earlier job, by its ID."""
        return Run(self, job)

    def job(self, job: str) -> JobDetail:
        """A job with all its tasks, plans and attempts."""
        whole = _call.joined(None, self._do(_call.part(job, 0)))
        while whole.next:
            whole = _call.joined(whole, self._do(_call.part(job, whole.next)))
        return whole

    def explain(self, job: str) -> Story:
        """What happened to a job, in order of time, and why its tasks run where they do."""
        whole = _call.joined_story(None, self._do(_call.story(job, 0)))
        while whole.next:
            whole = _call.joined_story(whole, self._do(_call.story(job, whole.next)))
        return whole

    def waiting(self, job: str) -> Why:
        """Why tasks of a job wait in their queue."""
        return self._do(_call.waiting(job))

    def cancel(self, job: str, reason: str = "") -> JobView:
        """Requests the cancellation of a job. Returns before the job has ended."""
        return self._do(_call.cancel(job, reason))

    def remove(self, job: str) -> JobView:
        """Removes a finished job with its records, logs and outputs, and returns it as it was."""
        return self._do(_call.remove(job))

    def logs(
        self,
        job: str,
        task: str | int,
        *,
        attempt: int = 0,
        rank: int = 0,
        tail: int = 0,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> str:
        """The log of a task so far, of its last attempt or the given one. tail is in bytes; 0 returns everything. since
        leaves out the lines printed before. timestamps begins each line with its time."""
        path, params = _call.logs(job, task, attempt, rank, tail, since, timestamps=timestamps)
        log, text = _call.Log(), ""
        while True:
            response = self._send(self._http.build_request("GET", path, params=params))
            _call.check(response)
            text += log.feed(response.content)
            if not log.more(response, params):
                return text

    def follow_logs(
        self,
        job: str,
        task: str | int,
        *,
        rank: int = 0,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> Iterator[str]:
        """Yields the log of a task as it is printed, until the task has ended. See logs for since and timestamps."""
        path, params = _call.logs(job, task, 0, rank, 0, since, timestamps=timestamps, follow=True)
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
        """Yields a job's updates until it has finished: first everything, then changes. Reconnects if the stream
        breaks."""
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
        """The file to submit. In a Job, local files are replaced by packs, which are uploaded."""
        return self._work(_bring.bring(job))

    def _work(self, work: Work) -> File:
        answer = None
        while isinstance(next := _bring.step(work, answer), Call):
            answer = self._do(next)
        return next

    def _do(self, call: Call[M]) -> M:
        return call.read(self._send(call.request(self._http), call.signed))

    def _send(self, request: httpx.Request, signed: bool = False) -> httpx.Response:
        """Sends a request and retries it after temporary failures. All are safe to repeat: a job has a key."""
        pause = _call.FIRST_PAUSE
        for tried in range(1, _call.TRIES + 1):
            try:
                response = self._http.send(request, auth=None if signed else httpx.USE_CLIENT_DEFAULT)
                if response.status_code not in _call.PASSING or tried == _call.TRIES:
                    return response
            except httpx.ConnectError as err:
                raise self._unreachable(err, request if signed else None) from err  # not retried
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
        """The current state of the job, with its tasks."""
        return self.client.job(self.id)

    def tasks(self) -> dict[str, TaskView]:
        """The current state of the tasks, by name."""
        return {t.name: t for t in self.status().task_list or []}

    def wait(self, *, check: bool = True) -> JobView:
        """Waits for the job's end. Raises JobFailed if it did not succeed, unless check is False."""
        job: JobView | None = None
        for update in self.client.follow(self.id):
            job = update.job
        if job is None or job.state not in _call.OVER:
            job = self.client._do(_call.Call("GET", _call.job_path(self.id), JobView, {"limit": "1"}))
        if check and job.state != "succeeded":
            raise JobFailed(job)
        return job

    def follow(self) -> Iterator[JobUpdate]:
        """Yields the job's updates until it has finished: first everything, then changes."""
        return self.client.follow(self.id)

    def logs(
        self,
        task: str | int,
        *,
        attempt: int = 0,
        rank: int = 0,
        tail: int = 0,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> str:
        """The log of a task so far."""
        return self.client.logs(
            self.id, task, attempt=attempt, rank=rank, tail=tail, since=since, timestamps=timestamps
        )

    def follow_logs(
        self, task: str | int, *, rank: int = 0, since: datetime | None = None, timestamps: bool = False
    ) -> Iterator[str]:
        """Yields the log of a task as it is printed, until the task has ended."""
        return self.client.follow_logs(self.id, task, rank=rank, since=since, timestamps=timestamps)

    def explain(self) -> Story:
        """What happened, and why tasks run where they do."""
        return self.client.explain(self.id)

    def update(self, to: Source, *, secrets: Mapping[str, str] | None = None) -> JobDetail:
        """Updates the job's services to those of another job, one replica at a time."""
        return self.client.update(self.id, to, secrets=secrets)

    def cancel(self, reason: str = "") -> JobView:
        """Requests the job's cancellation."""
        return self.client.cancel(self.id, reason)

    def watch(self) -> JobView:
        """Waits for the job's end and shows its progress: in a notebook as a table, elsewhere as lines. It does not
        raise if the job fails, but shows it."""
        view = _show.live()
        for update in self.follow():
            view.show(update)
        return self.wait(check=False)

    def _repr_html_(self) -> str:
        job = self.status()
        return _show.html(JobView.model_validate(job.model_dump(by_alias=True)), job.task_list or [])

    def __repr__(self) -> str:
        return f"Run({self.id!r})"
