"""The client with a running broker."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tradewind import AsyncClient, BrokerError, Client, Infeasible, Job, JobFailed, Resources, Run, Service, Task, task


@task(time="2m", resources=Resources(cpus="1+"))
def square(n: int) -> int:
    return n * n


@task(time="1m")
def total(numbers: list[int], title: str = "sum") -> int:
    print(f"{title}: {sum(numbers)}")
    return sum(numbers)


def test_functions_hand_on_what_they_return(client: Client) -> None:
    run = Job("squares", total([square(3), square(4)], title="3² + 4²")).submit(client)
    job = run.wait()
    assert job.state == "succeeded" and job.succeeded == 3
    assert "3² + 4²: 25" in run.logs("total")
    assert {t.state for t in run.tasks().values()} == {"succeeded"}


def test_a_job_is_planned_explained_and_listed(client: Client) -> None:
    job = Job("arrows", Task("a", run="echo one", time="1m") >> Task("b", run="echo two", time="1m"), budget=5)
    plan = job.plan(client)
    assert [t.name for t in plan.tasks] == ["a", "b"] and plan.usd > 0 and plan.status.value == "optimal"
    run = job.submit(client)
    assert "".join(run.follow_logs("b")).strip().endswith("two")
    run.wait()
    printed = run.logs("b", timestamps=True)
    assert datetime.fromisoformat(printed.split()[0].replace("Z", "+00:00")) <= datetime.now(timezone.utc)
    assert printed.strip().endswith(" two") and run.logs("b", since=datetime.now(timezone.utc)) == ""
    kinds = [e.kind for e in run.explain().entries or []]
    assert kinds[0] == "submitted" and kinds[-1] == "finished"
    assert run.id in [j.id for j in client.jobs()]
    assert client.run(run.id).status().name == "arrows"


def test_a_job_without_a_plan_says_why(client: Client) -> None:
    large = Job("large", Task("t", run="true", resources=Resources(cpus=100_000), time="1m"))
    with pytest.raises(Infeasible, match=r"job large: .*tasks\.t: no offer has 100000"):
        large.plan(client)


def test_the_same_key_is_the_same_job(client: Client) -> None:
    job = Job("once", Task("t", run="true", time="1m"))
    first, second = client.submit(job, key="k1"), client.submit(job, key="k1")
    assert first.id == second.id
    first.wait()


def test_a_job_that_fails_says_why(client: Client) -> None:
    run = Job("fails", Task("t", run="echo no >&2; exit 3", time="1m")).submit(client)
    with pytest.raises(JobFailed, match="fails"):
        run.wait()
    assert run.wait(check=False).state == "failed"


def test_a_job_that_is_not_valid_is_told_where(client: Client) -> None:
    with pytest.raises(BrokerError) as refused:
        Job("bad", Task("t", run="true", time="soon")).submit(client)
    assert refused.value.status == 422
    assert refused.value.problem.field == "tasks.t.time" and refused.value.problem.line
    assert str(refused.value).count("write a number with") == 1


def test_a_job_is_cancelled(client: Client) -> None:
    run = Job("long", Task("t", run="sleep 600", time="10h")).submit(client)
    run.cancel("no longer wanted")
    assert run.wait(check=False).state == "cancelled"


def test_secrets_reach_the_task_alone(client: Client) -> None:
    text = b"apiVersion: tradewind/v1\nname: s\nsecrets: {KEY: null}\ntasks: {t: {run: 'echo ${#KEY}', time: 1m}}\n"
    run = client.submit(text, secrets={"KEY": "abcdef"})
    run.wait()
    assert "6" in run.logs("t")


def test_watching_prints_lines(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    run = Job("watched", Task("t", run="true", time="1m")).submit(client)
    assert run.watch().state == "succeeded"
    printed = capsys.readouterr().out
    assert "t: succeeded" in printed and "watched: succeeded" in printed
    shown = run._repr_html_()
    assert "<table>" in shown and "watched" in shown and "1 of 1 tasks" in shown


def test_a_service_is_updated_replica_by_replica(client: Client, state: Path) -> None:
    def serving(what: str) -> Job:
        return Job("serves", Task("web", run=f"echo {what}; sleep 600", service=Service(replicas=2)))

    def until_ready(run: Run, text: str) -> None:
        for _ in range(300):
            if all(t.ready and text in run.logs(t.name) for t in run.tasks().values()):
                return
            time.sleep(0.1)
        raise AssertionError(f"not all say {text}: {run.tasks()}")

    run = serving("one").submit(client)
    until_ready(run, "one")
    assert run.update(serving("two")).id == run.id
    until_ready(run, "two")

    async def again() -> None:
        async with AsyncClient(state=state) as c:
            assert (await c.run(run.id).update(serving("three"))).id == run.id

    asyncio.run(again())
    with pytest.raises(BrokerError, match="has 3 replicas, but 2 are running"):
        run.update(Job("serves", Task("web", run="true", service=Service(replicas=3))))
    run.cancel()
    assert run.wait(check=False).state == "cancelled"


def test_many_jobs_at_once_with_asyncio(state: Path) -> None:
    async def go() -> list[str]:
        async with AsyncClient(state=state) as c:
            runs = await asyncio.gather(*(c.submit(Job(f"a{i}", square(i))) for i in range(3)))
            done = await asyncio.gather(*(r.wait() for r in runs))
            entries = (await runs[0].explain()).entries or []
            assert entries[0].kind == "submitted"
            with pytest.raises(BrokerError):
                await c.logs("nothing", "t")
            return [j.state for j in done]

    assert asyncio.run(go()) == ["succeeded"] * 3
