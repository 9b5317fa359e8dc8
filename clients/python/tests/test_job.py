"""Jobs and the files that they produce."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tradewind import Checkpoint, Input, Job, Output, Placement, Readiness, Resources, Service, Task, task


def test_a_job_is_written_as_a_job_file() -> None:
    prepare = Task("prepare", run="true", outputs=[Output("samples", size="40GiB")])
    train = Task(
        "train",
        run="python train.py",
        resources=Resources(any_of=[Resources(accelerators="V100:1"), Resources(cpus="8+", market="spot")]),
        checkpoint=Checkpoint("ckpt/", every=timedelta(minutes=15)),
        inputs=[Input("s3://imagenet-mini/", size="150GiB")],
        time={"V100": "2h", "default": timedelta(hours=9)},
    )
    job = Job("demo", prepare >> train, deadline="12h", budget=40, keep_on_failure="1h", patience="3h")
    assert json.loads(job.to_json()) == {
        "apiVersion": "tradewind/v1",
        "name": "demo",
        "deadline": "12h",
        "budget": 40,
        "patience": "3h",
        "keepOnFailure": "1h",
        "tasks": {
            "prepare": {"run": "true", "outputs": [{"name": "samples", "size": "40GiB"}]},
            "train": {
                "after": ["prepare"],
                "run": "python train.py",
                "resources": {"anyOf": [{"accelerators": "V100:1"}, {"cpus": "8+", "market": "spot"}]},
                "checkpoint": {"path": "ckpt/", "every": "900000ms"},
                "inputs": [{"uri": "s3://imagenet-mini/", "size": "150GiB"}],
                "time": {"V100": "2h", "default": "32400000ms"},
            },
        },
    }


def test_a_service_is_written_as_a_job_file_has_it() -> None:
    ready = Readiness(path="/health", initial_delay=timedelta(minutes=5))
    web = Task("web", run="./serve", service=Service(replicas=3, port=8080, readiness=ready))
    assert Job("chat", web).to_dict()["tasks"]["web"] == {
        "run": "./serve",
        "service": {"replicas": 3, "port": 8080, "readiness": {"path": "/health", "initialDelay": "300000ms"}},
    }


def test_rules_of_placement_are_written_as_a_job_file_has_them() -> None:
    a = Task("a", run="true", labels={"app": "web"}, placement=[Placement(apart={"app": "db"}, by="zone")])
    b = Task("b", run="true")
    written = Job(
        "j", [a, b], labels={"team": "red"}, placement=[Placement(spread="zone", max=2, of=["a", "b"])]
    ).to_dict()
    assert written["labels"] == {"team": "red"}
    assert written["placement"] == [{"spread": "zone", "max": 2, "of": ["a", "b"]}]
    assert written["tasks"]["a"] == {
        "run": "true",
        "labels": {"app": "web"},
        "placement": [{"apart": {"app": "db"}, "by": "zone"}],
    }


def test_arrows_go_to_many_and_from_many() -> None:
    a, b, c, d = (Task(n, run="true") for n in "abcd")
    a >> [b, c] >> d
    assert [t.name for t in d.before()] == ["b", "c"]
    assert [t.name for t in Job("j", d).all_tasks()] == ["a", "b", "c", "d"]
    a >> b
    assert b.after == [a]


def test_circles_and_names_that_two_have_are_refused() -> None:
    a, b = Task("a", run="true"), Task("b", run="true")
    a >> b >> a
    with pytest.raises(ValueError, match="a >> b >> a|b >> a >> b"):
        Job("j", a).to_dict()
    with pytest.raises(ValueError, match="two tasks have the name 'x'"):
        Job("j", [Task("x", run="1"), Task("x", run="2")]).to_dict()


@task(time="1m")
def square(n: int) -> int:
    import math

    return math.prod([n, n])


def test_tasks_are_one_list() -> None:
    a, b = Task("a", run="true"), Task("b", run="true")
    wrong: list[tuple[Any, ...]] = [(a, b), ("a",), (["a"],)]
    for tasks in wrong:
        with pytest.raises(TypeError, match=r"as in Job\(name, \[a, b\]\)"):
            Job("j", *tasks)
    with pytest.raises(TypeError, match=r"^double\(\): too many positional"):
        task(double)(1, 2)  # type: ignore[call-arg]


def double(n: int) -> int:
    return 2 * n


def test_a_function_is_a_task_that_runs_elsewhere(tmp_path: object) -> None:
    assert square.local(3) == 9
    made = square.named("nine")(3)
    assert made.name == "nine" and made.time == "1m"
    subprocess.run(["sh", "-c", made.run], check=True, env={"PATH": "/usr/bin:/bin", "TRADEWIND_OUTPUT": str(tmp_path)})
    assert (tmp_path / "result.json").read_text() == "9"  # type: ignore[operator]


@task(
    time="1m",
)
def divide(a: int, b: int) -> float:
    # a comment, which moves the lines
    return a / b


def test_a_traceback_points_at_the_line_of_the_function(tmp_path: object) -> None:
    made = divide(1, 0)
    env = {"PATH": "/usr/bin:/bin", "TRADEWIND_OUTPUT": str(tmp_path)}
    ran = subprocess.run(["sh", "-c", made.run], check=False, env=env, capture_output=True, text=True, cwd="/")
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "return a / b" in text)
    assert ran.returncode == 1
    shown = ran.stderr.replace("~~^~~", "").splitlines()  # Python 3.11 and newer also mark the expression
    assert [text.strip() for text in shown if text.strip(" ^~")] == [
        "Traceback (most recent call last):",
        f'File "{__file__}", line {line}, in divide',
        "return a / b",
        "ZeroDivisionError: division by zero",
    ]


def test_wrong_calls_fail_before_anything_is_sent() -> None:
    with pytest.raises(TypeError, match="missing a required argument"):
        square()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="go as JSON"):
        square(object())  # type: ignore[arg-type]
    around = 3
    with pytest.raises(TypeError, match="uses around from around it"):
        task(inside(around))


def inside(around: int) -> Callable[[], int]:
    def inner() -> int:
        return around

    return inner
