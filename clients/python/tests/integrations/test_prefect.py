"""The task in a flow that Prefect itself runs, with its own server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tradewind import Job, JobFailed, Task

prefect = pytest.importorskip("prefect")


def test_a_flow_runs(state: Path) -> None:
    from prefect.testing.utilities import prefect_test_harness

    from tradewind.prefect import run_job

    @prefect.flow
    def pipeline(run: str) -> str:
        job = Job("from-prefect", Task("t", run=run, time="1m"))
        return str(run_job(job, state=str(state)).state)

    with prefect_test_harness():
        assert pipeline("seq 3") == "succeeded"
        with pytest.raises(JobFailed, match="from-prefect"):
            pipeline("exit 3")
