"""Errors of this package."""

from __future__ import annotations

from .models import JobView, PlanView, Problem


class TradewindError(Exception):
    """The base class of all errors of this package."""


class Unreachable(TradewindError):
    """The broker's URL does not answer."""


class BrokerError(TradewindError):
    """The broker refused a request. `problem` has the details; for an invalid job: line, field, reason and hint."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        text = problem.detail or problem.title
        for e in problem.errors or []:
            text += f"; {e.location}: {e.message}" if e.location else f"; {e.message}"
        if problem.hint and problem.hint not in text:  # the text of a file's error already contains it
            text += f" ({problem.hint})"
        super().__init__(text)

    @property
    def status(self) -> int:
        """HTTP status code."""
        return self.problem.status


class Infeasible(TradewindError):
    """No plan meets the needs of a job. `plan` has the details."""

    def __init__(self, plan: PlanView) -> None:
        self.plan = plan
        super().__init__(f"job {plan.name}: {plan.message or 'there is no plan'}")


class JobFailed(TradewindError):
    """A job failed or was cancelled. `job` has its state and reason."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        super().__init__(f"job {job.id} ({job.name}) {job.state}" + (f": {job.reason}" if job.reason else ""))
