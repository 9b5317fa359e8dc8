"""Run times that a function computes, with a running broker."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from conftest import ROOT

from tradewind import AsyncClient, Client, Gang, Infeasible, Job, Resources, Role, Task, TradewindError
from tradewind.job import Duration
from tradewind.models import FittingOffer

EITHER = Resources(any_of=[Resources(accelerators="V100:1"), Resources(accelerators="A100:8")])


def test_a_function_decides_where_a_task_runs(client: Client) -> None:
    calls: Counter[str] = Counter()

    def hours(offer: FittingOffer) -> float | None:
        calls[offer.time_key] += 1
        if offer.accelerator == "V100":
            return None
        assert offer.tflops
        return 3e18 / (offer.tflops * 1e12 * 0.4) / 3600

    [task] = client.plan(Job("train", Task("train", run="true", resources=EITHER, time=hours))).tasks
    assert set(calls.values()) == {1} and "V100:1" in calls
    assert task.estimator == "file" and task.time is not None and task.time.hours == pytest.approx(0.8347, abs=0.001)
    assert task.offer and "p3." not in task.offer


def test_the_example_of_the_docs_works(state: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text().partition("## Run times")[2]
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    environment = {**os.environ, "TRADEWIND_STATE": str(state)}
    out = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    offer, hours = out.stdout.split()
    assert "/" in offer and float(hours) < 1


def always(time: Duration | float, _: FittingOffer) -> Duration | float:
    return time


def test_times_may_be_durations(client: Client) -> None:
    for time in (timedelta(hours=2), "2h", 2):
        job = Job("train", Task("train", run="true", resources=EITHER, time=partial(always, time)))
        [task] = client.plan(job).tasks
        assert task.time is not None and task.time.hours == 2


def test_it_is_submitted_as_a_table(client: Client, state: Path) -> None:
    short = Resources(cpus="=2", memory="=8", cloud="aws")
    job = Job("quick", Task("quick", run="echo done", resources=short, time=lambda o: timedelta(minutes=1) / o.speed))
    run = job.submit(client)
    assert run.wait().state == "succeeded" and run.logs("quick") == "done\n"
    with pytest.raises(TypeError, match=r"tasks\.quick\.time is a function"):
        job.to_json()

    async def planned() -> str:
        async with AsyncClient(state=state) as other:
            return (await other.plan(job)).status.value

    assert asyncio.run(planned()) == "optimal"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            Task("a", run="true", resources=EITHER, time=lambda _: None),
            r"tasks\.a\.time: the function returned no time",
        ),
        (
            Task("a", run="true", resources=EITHER, time=lambda _: -1.0),
            r"tasks\.a\.time: the function returned .* for ",
        ),
        (Task("a", gang=Gang(roles={"w": Role(run="true")}), time=lambda _: 1.0), r"tasks\.a\.time: a gang with roles"),
    ],
)
def test_errors_name_the_task(client: Client, task: Task, message: str) -> None:
    with pytest.raises(TradewindError, match=message):
        client.plan(Job("wrong", task))


def test_if_no_offer_fits_the_plan_says_why(client: Client) -> None:
    task = Task("a", run="true", resources=Resources(accelerators="V100:7"), time=lambda _: 1.0)
    with pytest.raises(Infeasible, match="V100"):
        client.plan(Job("none", task))
