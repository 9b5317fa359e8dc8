"""Shared by the integrations: a job that another orchestrator waits for."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping

from ._call import Source
from ._show import Lines
from .client import Client, Run
from .errors import JobFailed, TradewindError, Unreachable
from .models import JobView

PATIENCE = 3600.0  # seconds to wait for an unreachable broker, whose job continues
LOOK = 5.0  # seconds between two tries


def key(*parts: object) -> str:
    """Makes an idempotency key from the identity of one try. If an orchestrator submits the same try again, it finds
    the same job."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def to_end(
    client: Client,
    job: Source,
    submission: str,
    say: Callable[[str], object],
    secrets: Mapping[str, str] | None = None,
    started: Callable[[Run], object] = lambda run: None,
) -> JobView:
    """Submits a job, reports its progress, and raises JobFailed if it does not succeed. It waits for an unreachable
    broker, because the job continues and another try would be a second job. An interruption of the wait cancels the
    job, so that it does not run unattended."""
    run = client.submit(job, key=submission, secrets=secrets)
    started(run)
    say(f"job {run.id} at {client.endpoint.url}")
    try:
        return _followed(run, say)
    except (JobFailed, Unreachable):
        raise
    except BaseException:
        with contextlib.suppress(TradewindError):  # only the interruption is reported
            run.cancel("the orchestrator gave up")
        raise


def _followed(run: Run, say: Callable[[str], object]) -> JobView:
    lines, away = Lines(say), 0.0
    while True:
        try:
            for update in run.follow():
                if away:
                    say("the broker is back")
                    away = 0.0
                lines.show(update)
            return run.wait()
        except Unreachable as err:
            if not away:
                say(f"{err}: waiting for the broker and job {run.id}")
                away = time.monotonic()
            if time.monotonic() - away > PATIENCE:
                raise Unreachable(f"{err}; job {run.id} may still run there") from err
            time.sleep(LOOK)
