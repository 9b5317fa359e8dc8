"""The programming interface of the paper on the intercloud broker (SkyPilot, listing 1): a Dag of tasks with resource
labels, inputs and outputs, and time estimators.

from tradewind.sky import Dag, Resources, Storage, Task

with Dag("vision") as dag:
    train = Task("train", run='python train.py "$TRADEWIND_INPUTS" "$TRADEWIND_OUTPUT/model"')
    train.set_input(Storage("s3://images/train", size="150GiB"))
    train.set_output("model", size="2GiB")
    train.set_resources({Resources({"accelerator": "nvidia-v100", "cpu": 4}), Resources({"accelerator": "google-tpuv3-8"})})
    train.set_time_estimator(lambda offer: 3e18 / (offer.tflops * 1e12 * 0.4) / 3600)
    infer = Task("infer", run='python serve.py "$TRADEWIND_INPUTS/train/model"')
    infer.set_input(train.output(0))
    train >> infer
plan = dag.plan()

It makes the same jobs as the classes of tradewind, and everything of these can be used with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from . import job
from .client import Client, Run
from .job import Estimator, From, Input, Job, Output
from .models import PlanView

__all__ = ["Dag", "Resources", "Storage", "Task"]

Storage = Input
"""A storage object that a task reads: a URI in a bucket, or a local file or folder, and its size."""

_LABELS = {
    "accelerator": "accelerators",
    "cpu": "cpus",
    "memory": "memory",
    "cloud": "cloud",
    "region": "region",
    "zone": "zone",
    "instance_type": "instance_type",
    "disk": "disk",
    "image": "image",
}
"""The field of tradewind.Resources for each label."""


class Resources:
    """One alternative for the machines of a task, as labels: {"accelerator": "nvidia-v100:8", "cpu": 4}. Numbers of vCPUs
    and of GiB of memory are minimums. "spot": True asks for spot machines, and "num_nodes": 4 for four of them."""

    def __init__(self, labels: Mapping[str, str | float | bool]) -> None:
        for label in labels:
            if label not in _LABELS and label not in ("spot", "num_nodes"):
                known = ", ".join(sorted([*_LABELS, "spot", "num_nodes"]))
                raise ValueError(f"resources: unknown label {label!r} (labels: {known})")
        self.labels = dict(labels)

    def machine(self) -> job.Resources:
        """The same as tradewind.Resources."""
        known: dict[str, Any] = {_LABELS[k]: v for k, v in self.labels.items() if k in _LABELS}
        if "accelerators" in known:
            known["accelerators"] = _accelerator(str(known["accelerators"]))
        for amount in ("cpus", "memory"):
            if isinstance(known.get(amount), (int, float)):
                known[amount] = f"{known[amount]:g}+"
        if "spot" in self.labels:
            known["market"] = "spot" if self.labels["spot"] else "on-demand"
        return job.Resources(**known)

    def __repr__(self) -> str:
        return f"Resources({self.labels!r})"


def _accelerator(name: str) -> str:
    """The name of an accelerator in the catalogue: V100 for nvidia-v100, tpu-v3-8 for google-tpuv3-8."""
    if found := re.fullmatch(r"nvidia-([\w-]+)(:[\d.]+)?", name):
        return found[1].upper() + (found[2] or "")
    return re.sub(r"^google-tpu-?v", "tpu-v", name)


class Task(job.Task):
    """A task of a Dag. Inside of `with Dag(...)`, it belongs to that Dag."""

    def __init__(self, name: str, run: str = "", **fields: Any) -> None:
        super().__init__(name, run, **fields)
        if (dag := _open.get()) is not None:
            dag.add(self)

    def set_input(self, *inputs: str | Storage | From) -> Task:
        """Sets what it reads: URIs or paths, storage objects, and outputs of other tasks."""
        self.inputs = [Input(i) if isinstance(i, str) else i for i in inputs]
        return self

    def set_output(
        self, name: str, path: str | None = None, *, uri: str | None = None, size: str | None = None
    ) -> Task:
        """Adds an output: a path in $TRADEWIND_OUTPUT (by default its name), and where it is stored (by default in the
        store of the place that the task is assigned to)."""
        self.outputs = [*self.outputs, Output(name, path or name, uri, size)]
        return self

    def output(self, index: int) -> From:
        """One of its outputs, as an input of another task."""
        if not 0 <= index < len(self.outputs):
            raise IndexError(
                f"task {self.name!r} has {len(self.outputs)} outputs, and no output {index}: set_output adds one"
            )
        return From(self, self.outputs[index].name)

    def set_resources(self, alternatives: Resources | Iterable[Resources]) -> Task:
        """Sets its machines: one of some alternatives, which the broker chooses."""
        options = [alternatives] if isinstance(alternatives, Resources) else sorted(alternatives, key=repr)
        nodes = {o.labels.get("num_nodes", 1) for o in options}
        if len(nodes) > 1:
            raise ValueError(f"task {self.name!r}: num_nodes must be the same for all alternatives")
        number = int(nodes.pop() if nodes else 1)
        self.nodes = number if number > 1 else None
        machines = [o.machine() for o in options]
        self.resources = machines[0] if len(machines) == 1 else job.Resources(any_of=machines)
        return self

    def set_time_estimator(self, estimator: Estimator) -> Task:
        """Sets the function that returns the hours it takes on an offer, or None if it cannot run there."""
        self.time = estimator
        return self


_open: ContextVar[Dag | None] = ContextVar("dag", default=None)


@contextmanager
def _closed() -> Iterator[None]:
    """No Dag is open: the client copies tasks."""
    before = _open.set(None)
    try:
        yield
    finally:
        _open.reset(before)


class Dag:
    """Tasks that are planned together. The fields are those of tradewind.Job: deadline, budget, objective, …"""

    def __init__(self, name: str = "dag", **fields: Any) -> None:
        self.name, self.fields = name, fields
        self.tasks: list[job.Task] = []
        self._before: list[Token[Dag | None]] = []

    def add(self, task: job.Task) -> None:
        """Adds a task that was made elsewhere."""
        self.tasks.append(task)

    def __enter__(self) -> Dag:
        self._before.append(_open.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _open.reset(self._before.pop())

    def job(self) -> Job:
        """The same as tradewind.Job."""
        return Job(self.name, list(self.tasks), **self.fields)

    def plan(self, client: Client | None = None) -> PlanView:
        """Returns where the tasks would run and their cost, without running them. Raises Infeasible if there is no plan."""
        with _closed():
            return self.job().plan(client)

    def submit(self, client: Client | None = None) -> Run:
        """Runs the tasks."""
        with _closed():
            return self.job().submit(client)
