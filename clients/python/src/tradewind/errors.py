"""What can go wrong."""

from __future__ import annotations

from .models import JobView, Problem


class TradewindError(Exception):
    """Any error of this package."""


class Unreachable(TradewindError):
    """Nobody answers at the broker's URL."""


class BrokerError(TradewindError):
    """The broker's refusal. `problem` has its parts: of a job that is not valid, line, field, reason and hint."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        text = problem.detail or problem.title
        for e in problem.errors or []:
            text += f"; {e.location}: {e.message}" if e.location else f"; {e.message}"
        if problem.hint and problem.hint not in text:  # the text of a file's error has it already
            text += f" ({problem.hint})"
        super().__init__(text)

    @property
    def status(self) -> int:
        """HTTP status code."""
        return self.problem.status


class JobFailed(TradewindError):
    """A job ended otherwise than well. `job` tells of it."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        super().__init__(f"job {job.id} ({job.name}) {job.state}" + (f": {job.reason}" if job.reason else ""))
