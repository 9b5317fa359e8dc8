"""The classes have the fields of the job file: a new field of its schema cannot be forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from conftest import ROOT

from tradewind import (
    After,
    Array,
    Checkpoint,
    From,
    Gang,
    Input,
    Job,
    Notify,
    On,
    Output,
    Placement,
    Reaction,
    Readiness,
    Repository,
    Resources,
    Role,
    Service,
    Spark,
    SparkService,
    Task,
)
from tradewind.job import _camel

SCHEMA = json.loads((ROOT / "pkg" / "dag" / "native" / "schema.json").read_text())
DEFS = SCHEMA["$defs"]


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The properties of each object that a schema allows, also within choices and lists."""
    if "properties" in schema:
        yield schema["properties"]
    for choice in schema.get("oneOf", []):
        yield from objects(choice)
    if isinstance(schema.get("items"), dict):
        yield from objects(schema["items"])


def properties(schema: dict[str, Any]) -> set[str]:
    """All of them together."""
    return {name for one in objects(schema) for name in one}


TASK = DEFS["task"]["properties"]
INPUTS = list(objects(TASK["inputs"]))
CASES = {
    Job: set(SCHEMA["properties"]) - {"apiVersion", "defaults"},  # always the same; a variable of Python does it
    Task: set(TASK) | {"name"},  # the key of a task
    Resources: set(DEFS["resources"]["properties"]),
    Service: set(DEFS["service"]["properties"]),
    Spark: set(DEFS["spark"]["properties"]),
    SparkService: properties(DEFS["resources"]["properties"]["service"]),
    Readiness: properties(DEFS["service"]["properties"]["readiness"]),
    Gang: set(DEFS["gang"]["properties"]),
    Role: set(DEFS["gang"]["properties"]["roles"]["additionalProperties"]["properties"]),
    On: set(DEFS["on"]["properties"]),
    Reaction: {name for event in DEFS["on"]["properties"].values() for name in properties(event)},
    Array: set(DEFS["array"]["properties"]),
    Placement: properties(DEFS["placements"]),
    Input: next(set(p) for p in INPUTS if "uri" in p),
    From: next(set(p) for p in INPUTS if "from" in p),
    After: properties(TASK["after"]),
    Output: properties(TASK["outputs"]),
    Checkpoint: properties(TASK["checkpoint"]),
    Repository: properties(TASK["workdir"]),
    Notify: properties(SCHEMA["properties"]["notify"]),
}


@pytest.mark.parametrize("of", CASES, ids=lambda of: of.__name__)
def test_a_class_has_the_fields_of_the_schema(of: Any) -> None:
    assert {_camel(f.name) for f in fields(of)} == CASES[of]


def test_they_are_written_as_a_job_file_has_them() -> None:
    split = Task("split", run="split", outputs=[Output("parts", size="1GiB")], array=Array(from_=1, to=3), share=False)
    wait = Task("wait", run="true")
    train = Task(
        "train",
        inputs=[From(split, output="parts"), Input("s3://bucket/words", mount=True)],
        after=[After(wait, outputs=[])],
        framework="pytorch",
        secrets={"TOKEN": "ssm:/team/hf"},
        timeout="2h",
        gang=Gang(
            roles={"head": Role(run="serve"), "worker": Role(replicas=4, min_available=3, run="work")},
            within="zone",
            on=On(pod_failed=[Reaction("abort", exit_codes=[2])], pod_evicted="restartRole"),
        ),
    )
    etl = Task(
        "etl",
        spark=Spark("app.jar", class_="org.example.Main", args=[2024], py_files=["a.py"]),
        resources=Resources(
            any_of=[Resources(service=SparkService("emr", release="7.5+")), Resources(cpus=4)], executors="2-10"
        ),
    )
    grid = Task("grid", run="try", matrix={"lr": [0.1, 0.01]}, max_parallel=2, allow_failures="5%")
    job = Job("j", [train, grid, etl], secrets=["HF"], notify=Notify(email=["me@example.org"]), on_failure="continue")
    assert job.to_dict() == {
        "apiVersion": "tradewind/v1",
        "name": "j",
        "secrets": ["HF"],
        "notify": {"email": ["me@example.org"]},
        "onFailure": "continue",
        "tasks": {
            "wait": {"run": "true"},
            "split": {
                "run": "split",
                "outputs": [{"name": "parts", "size": "1GiB"}],
                "array": {"from": 1, "to": 3},
                "share": False,
            },
            "train": {
                "inputs": [{"from": "split", "output": "parts"}, {"uri": "s3://bucket/words", "mount": True}],
                "after": [{"task": "wait", "outputs": []}],
                "framework": "pytorch",
                "secrets": {"TOKEN": "ssm:/team/hf"},
                "timeout": "2h",
                "gang": {
                    "roles": {
                        "head": {"run": "serve"},
                        "worker": {"replicas": 4, "minAvailable": 3, "run": "work"},
                    },
                    "within": "zone",
                    "on": {"podFailed": [{"action": "abort", "exitCodes": [2]}], "podEvicted": "restartRole"},
                },
            },
            "grid": {"run": "try", "matrix": {"lr": [0.1, 0.01]}, "maxParallel": 2, "allowFailures": "5%"},
            "etl": {
                "spark": {"main": "app.jar", "class": "org.example.Main", "args": [2024], "pyFiles": ["a.py"]},
                "resources": {
                    "anyOf": [{"service": {"name": "emr", "release": "7.5+"}}, {"cpus": 4}],
                    "executors": "2-10",
                },
            },
        },
    }
