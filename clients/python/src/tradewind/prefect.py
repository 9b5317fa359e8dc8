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
    """Runs a job to its end; what it tells goes to the flow's log. Each try of Prefect's is one job. A job that ends
    otherwise than well raises JobFailed; a flow that is cancelled cancels it. `run_job.with_options(retries=2)` and the
    like are Prefect's own."""
    attempt = key("prefect", task_run.get_id(), task_run.get_run_count())
    with Client(url, state=state) as client:
        return to_end(client, job, attempt, get_run_logger().info)
