"""What the integrations share: a job that another orchestrator waits for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from ._call import Source
from ._show import Lines
from .client import Client, Run
from .errors import JobFailed
from .models import JobView


def key(*parts: object) -> str:
    """An idempotency key made of what names one try: an orchestrator that lost the answer, and submits the same try
    again, finds the job that is there already."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def to_end(
    client: Client,
    job: Source,
    submission: str,
    say: Callable[[str], object],
    secrets: Mapping[str, str] | None = None,
    started: Callable[[Run], object] = lambda run: None,
) -> JobView:
    """Submits a job, tells what becomes of it, and raises JobFailed where it did not end well. What interrupts the
    wait cancels the job, so that nothing goes on that nobody waits for."""
    run = client.submit(job, key=submission, secrets=secrets)
    started(run)
    say(f"job {run.id} at {client.endpoint.url}")
    lines = Lines(say)
    try:
        for update in run.follow():
            lines.show(update)
        return run.wait()
    except JobFailed:
        raise
    except BaseException:
        run.cancel("the orchestrator gave up")
        raise
