"""What the integrations share: a job that another orchestrator waits for."""

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

PATIENCE = 3600.0  # seconds that a broker may be away while its job goes on
LOOK = 5.0  # seconds between two looks whether it is back


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
    """Submits a job, tells what becomes of it, and raises JobFailed where it did not end well. A broker that is away is
    waited for: its job goes on, and another try would be a second one. What interrupts the wait cancels the job, so
    that nothing goes on that nobody waits for."""
    run = client.submit(job, key=submission, secrets=secrets)
    started(run)
    say(f"job {run.id} at {client.endpoint.url}")
    try:
        return _followed(run, say)
    except (JobFailed, Unreachable):
        raise
    except BaseException:
        with contextlib.suppress(TradewindError):  # what interrupts is told, and not this
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
                say(f"{err}: job {run.id} is waited for")
                away = time.monotonic()
            if time.monotonic() - away > PATIENCE:
                raise Unreachable(f"{err}; job {run.id} may go on there") from err
            time.sleep(LOOK)
