"""Jobs as they are described: tasks, what they need, and what waits for what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from .client import Client, Run
    from .models import PlanView

Duration = str | timedelta
"""A span of time: "90m", "2.1h", or a timedelta."""


def _plain(value: Any) -> Any:
    """A value as the job file has it. Fields without a value are left out."""
    if isinstance(value, timedelta):
        return f"{value / timedelta(milliseconds=1):.0f}ms"
    if isinstance(value, _Described):
        pairs = ((_camel(f.name), getattr(value, f.name)) for f in fields(value))
        return {name: _plain(v) for name, v in pairs if v is not None and v != ()}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


@dataclass(frozen=True)
class _Described:
    """Marks what is written into the job file field by field."""


@dataclass(frozen=True, kw_only=True)
class Resources(_Described):
    """What a task runs on. Amounts are as in the job file: cpus 8, "8+" or "8-16"; memory in GiB, "32+", "512MiB+"."""

    cpus: float | str | None = None
    memory: float | str | None = None
    accelerators: str | None = None
    """NAME or NAME:COUNT, such as "V100:4"."""
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    arch: str | None = None
    market: str | None = None
    """spot, on-demand or auto."""
    disk: str | None = None
    image: str | None = None
    any_of: Sequence[Resources] = ()
    """Alternatives, the cheapest first; the fields beside it hold for each that does not have them."""
    ordered: Sequence[Resources] = ()
    """Alternatives in the order in which they are tried."""


@dataclass(frozen=True)
class Input(_Described):
    """What a task reads: it finds it in $TRADEWIND_INPUTS, or where path says."""

    uri: str
    """Of a bucket, or a file or folder of this computer, which is brought along when the job is submitted."""
    path: str | None = None
    size: str | None = None
    mount: str | None = None


@dataclass(frozen=True)
class Output(_Described):
    """What a task leaves in $TRADEWIND_OUTPUT."""

    name: str
    path: str | None = None
    uri: str | None = None
    size: str | None = None


@dataclass(frozen=True)
class Checkpoint(_Described):
    """Where a task saves its progress, and how often it is kept."""

    path: str
    every: Duration | None = None
    size: str | None = None


@dataclass(frozen=True, kw_only=True)
class Placement(_Described):
    """A rule about where machines stand: one of spread, pack and apart. Levels are region, zone, rack and machine."""

    spread: str | None = None
    """At most max machines in one of these."""
    max: int | None = None
    pack: str | None = None
    """All machines in one of these."""
    apart: Mapping[str, str] | None = None
    """Never where a task of another job with one of these labels runs."""
    by: str | None = None
    """How wide that is; machine by default."""
    of: Sequence[str] = ()
    """The tasks that a rule of a job is about; all by default."""


@dataclass(frozen=True, kw_only=True)
class Readiness(_Described):
    """How it is found out whether a replica can be used. Without a path it is a TCP connection to its port."""

    path: str | None = None
    """Of a GET that is answered with 2xx."""
    post: str | None = None
    """The body of a POST instead."""
    headers: Mapping[str, str] | None = None
    initial_delay: Duration | None = None
    """How long a replica may take from its start until it is ready first."""
    timeout: Duration | None = None
    """Of one probe."""


@dataclass(frozen=True, kw_only=True)
class Service(_Described):
    """Has a task run until its job is cancelled, in replicas that are replaced as they are lost: docs/services.md."""

    replicas: int | None = None
    port: int | None = None
    """Where it listens; a replica is told by $PORT."""
    readiness: Readiness | None = None


@dataclass(eq=False)
class Task:
    """A step of a job. `a >> b` says that b waits for a; what a left is in b's $TRADEWIND_INPUTS/a."""

    name: str
    run: str
    setup: str | None = None
    resources: Resources | None = None
    time: Duration | Mapping[str, Duration] | None = None
    """How long it takes: one time, or times by accelerator and machine type."""
    nodes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[Input] = ()
    outputs: Sequence[Output] = ()
    checkpoint: Checkpoint | None = None
    retries: int | None = None
    workdir: str | None = None
    """A folder of this computer, which is brought along when the job is submitted: its content is the task's folder."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What rules of placement of other tasks know it by."""
    placement: Sequence[Placement] = ()
    """Where its machines stand to each other, and to those of other jobs."""
    service: Service | None = None
    """It does not end, and nothing waits for it."""
    after: list[Task] = field(default_factory=list)

    @overload
    def __rshift__(self, other: Task) -> Task: ...
    @overload
    def __rshift__(self, other: Sequence[Task]) -> Sequence[Task]: ...
    def __rshift__(self, other: Task | Sequence[Task]) -> Task | Sequence[Task]:
        for t in [other] if isinstance(other, Task) else other:
            t._wait_for(self)
        return other

    def __rrshift__(self, other: Iterable[Task]) -> Task:
        for t in other:
            self._wait_for(t)
        return self

    def _wait_for(self, other: Task) -> None:
        if other not in self.after:
            self.after.append(other)

    def to_dict(self) -> dict[str, Any]:
        """The task as the job file has it."""
        written: dict[str, Any] = {"after": [t.name for t in self.after], "run": self.run}
        for name in (
            "setup",
            "resources",
            "time",
            "nodes",
            "env",
            "inputs",
            "outputs",
            "checkpoint",
            "retries",
            "workdir",
            "labels",
            "placement",
            "service",
        ):
            value = getattr(self, name)
            if value is not None and value != () and value != {} and value != []:
                written[name] = _plain(value)
        if not written["after"]:
            del written["after"]
        return written


@dataclass
class Job:
    """Tasks that are planned together: those named, and all that they wait for."""

    name: str
    tasks: Task | Sequence[Task]
    objective: str | None = None
    """cost or makespan."""
    deadline: Duration | None = None
    budget: float | None = None
    """The most it may cost, USD."""
    queue: str | None = None
    priority: int | None = None
    regions: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every task."""
    placement: Sequence[Placement] = ()
    """Where machines of several tasks stand to each other."""
    infeasible: str | None = None
    """What to do when no place is left: retry, fail or wait; retry by default, which waits for blocks that end."""
    patience: Duration | None = None
    """How long it waits at most while no place is left for it; a day, or until the deadline where that is later."""
    keep_on_failure: Duration | None = None
    """How long the machines of a task that failed are kept to be looked at, within the budget; up to a day."""

    def __post_init__(self) -> None:
        tasks = [self.tasks] if isinstance(self.tasks, Task) else self.tasks
        if isinstance(self.objective, Task) or isinstance(tasks, str) or not all(isinstance(t, Task) for t in tasks):
            raise TypeError(f"job {self.name!r}: tasks is a Task or a list of them, as in Job(name, [a, b])")

    def all_tasks(self) -> list[Task]:
        """The tasks, each after those that it waits for. Raises ValueError of a circle, and of a name that two have."""
        done: dict[int, Task] = {}
        names: dict[str, Task] = {}
        path: list[Task] = []

        def visit(t: Task) -> None:
            if id(t) in done:
                return
            if t in path:
                circle = " >> ".join(p.name for p in [*path[path.index(t) :], t])
                raise ValueError(f"job {self.name!r}: tasks wait for each other: {circle}")
            path.append(t)
            for before in t.after:
                visit(before)
            path.pop()
            if names.setdefault(t.name, t) is not t:
                raise ValueError(f"job {self.name!r}: two tasks have the name {t.name!r}")
            done[id(t)] = t

        for t in [self.tasks] if isinstance(self.tasks, Task) else self.tasks:
            visit(t)
        return list(done.values())

    def to_dict(self) -> dict[str, Any]:
        """The job as a job file has it (docs: the native form)."""
        written: dict[str, Any] = {"apiVersion": "tradewind/v1", "name": self.name}
        for name in (
            "objective",
            "deadline",
            "budget",
            "queue",
            "priority",
            "regions",
            "infeasible",
            "patience",
            "env",
            "labels",
            "placement",
        ):
            value = getattr(self, name)
            if value is not None and value != () and value != {} and value != []:
                written[name] = _plain(value)
        if self.keep_on_failure is not None:
            written["keepOnFailure"] = _plain(self.keep_on_failure)
        written["tasks"] = {t.name: t.to_dict() for t in self.all_tasks()}
        return written

    def to_json(self) -> str:
        """The job as a file that `tradewind submit` takes. Paths in it begin at the folder that the file lies in."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def submit(self, client: Client | None = None) -> Run:
        """Hands the job in, with what it names on this computer. Without a client the broker is found as the command
        line finds it."""
        return _client(client).submit(self)

    def plan(self, client: Client | None = None) -> PlanView:
        """Says where the job would run and what it would cost, without running it."""
        return _client(client).plan(self)


def _client(client: Client | None) -> Client:
    from .client import Client

    return client if client is not None else Client()
