"""A task for Prefect 3: pip install 'tradewind[prefect]'.

from tradewind.prefect import run_job

@flow
def pipeline() -> float:
    return run_job(Job("train", Task("t", run="python train.py", time="2h"))).spent_usd
"""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger
from prefect.runtime import task_run

from ._call import Source
from ._orchestrated import key, to_end
from .client import Client
from .models import JobView


@task(name="tradewind job", cache_policy=NO_CACHE)
def run_job(job: Source, url: str | None = None, state: str | None = None) -> JobView:
    """Runs a job to its end, and logs its progress to the flow. Each Prefect try is one job. Raises JobFailed if the
    job does not succeed. Cancelling the flow cancels the job. `run_job.with_options(retries=2)` and similar options
    work as in Prefect."""
    attempt = key("prefect", task_run.get_id(), task_run.get_run_count())
    with Client(url, state=state) as client:
        return to_end(client, job, attempt, get_run_logger().info)
