"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType

import httpx

from . import _bring, _call
from ._bring import Work
from ._call import Call, File, M, Source
from ._endpoint import Endpoint
from .errors import JobFailed, Unreachable
from .models import JobDetail, JobUpdate, JobView, PlanView, Story, Why


class AsyncClient:
    """Calls one broker from asyncio, with the methods of Client. Close it, or use `async with`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        state: str | Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.endpoint = Endpoint.find(url, token, state)
        self._http = httpx.AsyncClient(
            base_url=self.endpoint.url, auth=self.endpoint.auth(), timeout=_call.TIMEOUT, transport=transport
        )

    async def submit(
        self, job: Source, *, key: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> AsyncRun:
        """Submits a job, or a job file in any format. Repeating a call with the same key returns the same job."""
        answer = await self._do(_call.submit(await self._bring(job), key, secrets))
        return AsyncRun(self, answer.id, list(answer.warnings or []))

    async def update(
        self, job: str, to: Source, *, key: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> JobDetail:
        """Updates the services of a job to those of another job, one replica at a time. Returns before it is done."""
        return await self.job((await self._do(_call.submit(await self._bring(to), key, secrets, job))).id)

    async def plan(
        self, job: Source, *, objective: str | None = None, deadline: str | None = None, budget: float | None = None
    ) -> PlanView:
        """Returns where a job would run and its cost (USD), without running it."""
        return await self._do(_call.plan(await self._work(_bring.found(job)), objective, deadline, budget))

    async def jobs(self, limit: int = 50) -> list[JobView]:
        """The jobs, the newest first."""
        return (await self._do(_call.jobs(limit))).jobs

    def run(self, job: str) -> AsyncRun:
        """An earlier job, by its ID."""
        return AsyncRun(self, job)

    async def job(self, job: str) -> JobDetail:
        """A job with all its tasks, plans and attempts."""
        whole = _call.joined(None, await self._do(_call.part(job, 0)))
        while whole.next:
            whole = _call.joined(whole, await self._do(_call.part(job, whole.next)))
        return whole

    async def explain(self, job: str) -> Story:
        """What happened to a job, in order of time, and why its tasks run where they do."""
        whole = _call.joined_story(None, await self._do(_call.story(job, 0)))
        while whole.next:
            whole = _call.joined_story(whole, await self._do(_call.story(job, whole.next)))
        return whole

    async def waiting(self, job: str) -> Why:
        """Why tasks of a job wait in their queue."""
        return await self._do(_call.waiting(job))

    async def cancel(self, job: str, reason: str = "") -> JobView:
        """Requests the cancellation of a job. Returns before the job has ended."""
        return await self._do(_call.cancel(job, reason))

    async def remove(self, job: str) -> JobView:
        """Removes a finished job with its records, logs and outputs, and returns it as it was."""
        return await self._do(_call.remove(job))

    async def logs(
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
        """The log of a task so far, of its last attempt or the given one. tail is the maximum number of bytes from the
        end; 0 returns everything. since leaves out lines that are older. timestamps begins each line with its time."""
        path, params = _call.logs(job, task, attempt, rank, tail, since, timestamps=timestamps)
        log, text = _call.Log(), ""
        while True:
            response = await self._send(self._http.build_request("GET", path, params=params))
            _call.check(response)
            text += log.feed(response.content)
            if not log.more(response, params):
                return text

    async def follow_logs(
        self,
        job: str,
        task: str | int,
        *,
        rank: int = 0,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[str]:
        """Yields the log of a task as it is printed, until the task has ended. See logs for since and timestamps."""
        path, params = _call.logs(job, task, 0, rank, 0, since, timestamps=timestamps, follow=True)
        log, more = _call.Log(), True
        while more:
            try:
                async with self._http.stream("GET", path, params=params, timeout=_call.LOG) as response:
                    if not response.is_success:
                        await response.aread()
                        _call.check(response)
                    async for piece in response.aiter_bytes():
                        yield log.feed(piece)
            except httpx.TransportError as err:
                raise self._unreachable(err) from err
            if more := log.more(response, params):
                await asyncio.sleep(log.pause())

    async def follow(self, job: str) -> AsyncIterator[JobUpdate]:
        """Yields a job's updates until it has finished: first everything, then changes."""
        events, broken = _call.Events(), 0.0
        while not events.over:
            failure: Exception | None = None
            try:
                async with self._http.stream(
                    "GET", _call.job_path(job) + "/events", headers=events.again(), timeout=_call.STREAM
                ) as response:
                    if not response.is_success:
                        await response.aread()
                        if response.status_code not in _call.PASSING:
                            _call.check(response)
                    else:
                        async for piece in response.aiter_bytes():
                            broken = 0.0
                            for update in events.feed(piece):
                                yield update
            except httpx.TransportError as err:
                failure = err
            if events.over:
                return
            broken = broken or time.monotonic()
            if time.monotonic() - broken > _call.RECONNECT_FOR:
                raise self._unreachable(failure or "the stream broke off") from failure
            await asyncio.sleep(_call.FIRST_PAUSE)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _bring(self, job: Source) -> File:
        """The file to submit. In a Job, local files are replaced by packs, which are uploaded."""
        return await self._work(_bring.bring(job))

    async def _work(self, work: Work) -> File:
        answer = None
        while isinstance(next := await asyncio.to_thread(_bring.step, work, answer), Call):
            answer = await self._do(next)
        return next

    async def _do(self, call: Call[M]) -> M:
        return call.read(await self._send(call.request(self._http), call.signed))

    async def _send(self, request: httpx.Request, signed: bool = False) -> httpx.Response:
        pause = _call.FIRST_PAUSE
        for tried in range(1, _call.TRIES + 1):
            try:
                response = await self._http.send(request, auth=None if signed else httpx.USE_CLIENT_DEFAULT)
                if response.status_code not in _call.PASSING or tried == _call.TRIES:
                    return response
            except httpx.ConnectError as err:
                raise self._unreachable(err, request if signed else None) from err  # not retried
            except httpx.TransportError as err:
                if tried == _call.TRIES:
                    raise self._unreachable(err, request if signed else None) from err
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError

    def _unreachable(self, why: object, signed: httpx.Request | None = None) -> Unreachable:
        return _call.unreachable(signed, self.endpoint.url, why)


class AsyncRun:
    """A job that was submitted, for asyncio."""

    def __init__(self, client: AsyncClient, job: str, warnings: list[str] | None = None) -> None:
        self.client, self.id, self.warnings = client, job, warnings or []

    async def status(self) -> JobDetail:
        """The current state of the job, with its tasks."""
        return await self.client.job(self.id)

    async def wait(self, *, check: bool = True) -> JobView:
        """Waits for the job's end. Raises JobFailed if it did not succeed, unless check is False."""
        job: JobView | None = None
        async for update in self.client.follow(self.id):
            job = update.job
        if job is None or job.state not in _call.OVER:
            job = await self.client._do(_call.Call("GET", _call.job_path(self.id), JobView, {"limit": "1"}))
        if check and job.state != "succeeded":
            raise JobFailed(job)
        return job

    def follow(self) -> AsyncIterator[JobUpdate]:
        """Yields the job's updates until it has finished: first everything, then changes."""
        return self.client.follow(self.id)

    async def logs(
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
        return await self.client.logs(
            self.id, task, attempt=attempt, rank=rank, tail=tail, since=since, timestamps=timestamps
        )

    async def explain(self) -> Story:
        """What happened, and why tasks run where they do."""
        return await self.client.explain(self.id)

    async def update(self, to: Source, *, secrets: Mapping[str, str] | None = None) -> JobDetail:
        """Updates the job's services to those of another job, one replica at a time."""
        return await self.client.update(self.id, to, secrets=secrets)

    async def cancel(self, reason: str = "") -> JobView:
        """Requests the job's cancellation."""
        return await self.client.cancel(self.id, reason)

    def __repr__(self) -> str:
        return f"AsyncRun({self.id!r})"
