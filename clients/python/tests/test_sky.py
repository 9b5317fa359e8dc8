"""The programming interface of the paper: its listing 1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from tradewind import Client, Infeasible
from tradewind.models import FittingOffer
from tradewind.sky import Dag, Resources, Storage, Task


def hours(offer: FittingOffer) -> float | None:
    """The estimator of the listing: operations by the accelerator's rating."""
    return 3e18 / (offer.tflops * 1e12 * 0.4) / 3600 if offer.tflops else None


def listing() -> tuple[Dag, Task, Task]:
    with Dag("vision") as dag:
        train = Task("train", run="true")
        train.set_input(Storage("s3://images/train", size="150GiB"))
        train.set_output("model", size="2GiB")
        train.set_resources(
            {Resources({"accelerator": "nvidia-v100", "cpu": 4}), Resources({"accelerator": "google-tpuv3-8"})}
        )
        train.set_time_estimator(hours)
        infer = Task("infer", run="true", time="1h")
        infer.set_input(train.output(0))
        infer.set_resources(Resources({"accelerator": "nvidia-t4"}))
        train >> infer
    return dag, train, infer


def test_listing_1_is_planned(client: Client) -> None:
    dag, _, _ = listing()
    plan = dag.plan(client)
    tasks = {t.name: t for t in plan.tasks}
    assert list(tasks) == ["train", "infer"] and tasks["train"].estimator == "file"
    assert plan.usd > 0 and tasks["infer"].offer


def test_the_example_of_the_docs_works(state: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text().partition("## As in the paper")[2]
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    environment = {**os.environ, "TRADEWIND_STATE": str(state)}
    out = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert [line.split()[0] for line in out.stdout.splitlines()] == ["train", "infer"]


def test_listing_1_is_the_same_job() -> None:
    dag, train, infer = listing()
    train.time = "2h"
    assert dag.job().to_dict() == {
        "apiVersion": "tradewind/v1",
        "name": "vision",
        "tasks": {
            "train": {
                "run": "true",
                "inputs": [{"uri": "s3://images/train", "size": "150GiB"}],
                "outputs": [{"name": "model", "path": "model", "size": "2GiB"}],
                "resources": {"anyOf": [{"accelerators": "tpu-v3-8"}, {"cpus": "4+", "accelerators": "V100"}]},
                "time": "2h",
            },
            "infer": {
                "run": "true",
                "inputs": [{"from": "train", "output": "model"}],
                "resources": {"accelerators": "T4"},
                "time": "1h",
            },
        },
    }
    assert infer.before() == [train]


def test_labels_ask_for_machines(client: Client) -> None:
    with Dag(deadline="2h") as dag:
        wide = Task("wide", run="true", time="1h")
        wide.set_resources(Resources({"cpu": 8, "memory": 32, "cloud": "aws", "spot": True, "num_nodes": 2}))
    assert dag.job().to_dict()["deadline"] == "2h"
    assert wide.to_dict()["nodes"] == 2
    assert wide.to_dict()["resources"] == {"cpus": "8+", "memory": "32+", "cloud": "aws", "market": "spot"}
    with Dag() as none:
        Task("none", run="true", time="1h").set_resources(Resources({"accelerator": "nvidia-z1"}))
    with pytest.raises(Infeasible, match="Z1"):
        none.plan(client)


def test_mistakes_are_explained() -> None:
    with pytest.raises(ValueError, match="unknown label 'gpu'"):
        Resources({"gpu": "V100"})
    with pytest.raises(IndexError, match="has 0 outputs"):
        Task("a").output(0)
    with pytest.raises(ValueError, match="num_nodes"):
        Task("a").set_resources([Resources({"num_nodes": 2}), Resources({"cpu": 4})])
    assert Task("outside of a dag").name


def test_a_dag_can_be_planned_again_while_it_is_open(client: Client) -> None:
    with Dag("open") as dag:
        Task("train", run="true").set_resources(Resources({"accelerator": "nvidia-v100:1"})).set_time_estimator(hours)
        assert dag.plan(client).usd == dag.plan(client).usd
    assert len(dag.tasks) == 1
