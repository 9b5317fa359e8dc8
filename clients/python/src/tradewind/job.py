"""Descriptions of jobs: tasks, their needs and dependencies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from .client import Client, Run
    from .models import FittingOffer, PlanView

Duration = str | timedelta
"""A span of time: "90m", "2.1h", or a timedelta."""

Estimator = Callable[["FittingOffer"], Duration | float | None]
"""Returns the run time of a task on an offer: hours, or a Duration; None if the offer does not fit. The client calls it
once for each machine type that fits the resources of the task, at its cheapest place."""


def _plain(value: Any) -> Any:
    """Converts a value for the job file. Fields without a value are left out."""
    if isinstance(value, timedelta):
        return f"{value / timedelta(milliseconds=1):.0f}ms"
    if isinstance(value, Task):
        return value.name
    if isinstance(value, _Described):
        pairs = ((_camel(f.name), getattr(value, f.name)) for f in fields(value))
        return {name: _plain(v) for name, v in pairs if v is not None and v not in ((), {})}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.rstrip("_").split("_")
    return head + "".join("USD" if part == "usd" else part.title() for part in rest)


@dataclass(frozen=True)
class _Described:
    """Base of the classes that are written into the job file field by field."""


@dataclass(frozen=True)
class SparkService(_Described):
    """A service that runs Spark, with its release."""

    name: str
    release: str | None = None
    """7.5 or 7.5.0, or "7.5+" for this one or a later one."""


@dataclass(frozen=True)
class Spark(_Described):
    """A Spark application: what spark-submit starts."""

    main: str
    """A Python file or a jar, as a path or a URI."""
    class_: str | None = None
    """The main class of a jar."""
    args: Sequence[str | float | bool] = ()
    """In them, $NAME stands for a variable of the task, and $$ for a dollar sign."""
    py_files: Sequence[str] = ()
    jars: Sequence[str] = ()
    packages: Sequence[str] = ()
    """Libraries of Maven Central: GROUP:ARTIFACT:VERSION."""
    conf: Mapping[str, str | float | bool] = field(default_factory=dict)
    version: str | None = None
    """3.5 for any 3.5, 3.5.1 for exactly this one, "3.5+" for this one or a later one."""


@dataclass(frozen=True, kw_only=True)
class Resources(_Described):
    """The machine of a task. Amounts as in the job file: cpus 8, "8+" or "8-16"; memory in GiB, "32+", "512MiB+"."""

    cpus: float | str | None = None
    memory: float | str | None = None
    accelerators: str | None = None
    """NAME or NAME:COUNT, such as "V100:4"."""
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    family: str | None = None
    """A family of machine types: c7a, n2d."""
    cpu: str | None = None
    """A processor or its generation: genoa, graviton3."""
    arch: str | None = None
    market: str | None = None
    """spot, on-demand or auto."""
    disk: str | None = None
    max_usd_per_hour: float | None = None
    """The maximum price of one machine with its disk, USD per hour."""
    image: str | None = None
    burstable: bool | None = None
    """Also machine types whose CPUs may be busy only for a part of the time."""
    service: str | SparkService | None = None
    """A service in place of machines, for a Spark task: emr, emr-serverless, dataproc or dataproc-serverless."""
    executors: int | str | None = None
    """Of a Spark task: a number, or the least and the most as "2-10"."""
    any_of: Sequence[Resources] = ()
    """Alternatives, cheapest first. The other fields apply to each alternative that does not set them."""
    ordered: Sequence[Resources] = ()
    """Alternatives in the order in which they are tried."""


@dataclass(frozen=True)
class Input(_Described):
    """An input of a task, found in $TRADEWIND_INPUTS or at path."""

    uri: str
    """In a bucket, or a local file or folder, which is uploaded when the job is submitted."""
    path: str | None = None
    size: str | None = None
    mount: bool | str | None = None
    """True mounts it for reading; "write" and "cached" also for writing."""
    bucket: str | None = None
    """"make" creates a missing bucket, "temporary" also deletes it when the job has finished."""
    source: str | None = None
    """A local path that is uploaded to the URI first; only by `tradewind submit`."""


@dataclass(frozen=True)
class From(_Described):
    """An input of a task that is an output of another task, which it waits for."""

    from_: Task
    output: str | None = None
    """Its name; default all outputs."""
    each: bool | None = None
    """Both are arrays: each member reads from the member with its index."""


@dataclass(frozen=True)
class After(_Described):
    """A task to wait for, with details; for the list `after` of a task."""

    task: Task
    outputs: Sequence[str] | None = None
    """The names of the outputs that are read: default all, none if empty."""
    data: str | None = None
    """The amount of data that is read, if it differs from the size of the outputs."""
    each: bool | None = None
    """Both are arrays: each member waits for the member with its index."""


@dataclass(frozen=True)
class Output(_Described):
    """An output of a task in $TRADEWIND_OUTPUT."""

    name: str
    path: str | None = None
    uri: str | None = None
    size: str | None = None


@dataclass(frozen=True)
class Checkpoint(_Described):
    """The folder in which a task saves its progress, and how often it is uploaded."""

    path: str
    every: Duration | None = None
    size: str | None = None


@dataclass(frozen=True, kw_only=True)
class Placement(_Described):
    """A placement rule: one of spread, pack and apart. Levels are region, zone, rack and machine."""

    spread: str | None = None
    """At most max machines in one of this level."""
    max: int | None = None
    pack: str | None = None
    """All machines in one of this level."""
    apart: Mapping[str, str] | None = None
    """Away from tasks of other jobs with one of these labels."""
    by: str | None = None
    """The level of apart; default machine."""
    of: Sequence[str] = ()
    """The tasks that a rule of a job applies to; default all."""


@dataclass(frozen=True, kw_only=True)
class Readiness(_Described):
    """How a replica is checked. Without a path, the check is a TCP connection to its port."""

    path: str | None = None
    """Of a GET request; an answer of 2xx means ready."""
    post: str | None = None
    """The body of a POST instead."""
    headers: Mapping[str, str] | None = None
    initial_delay: Duration | None = None
    """The maximum time from a replica's start until it is first ready."""
    timeout: Duration | None = None
    """Of one probe."""


@dataclass(frozen=True, kw_only=True)
class Array(_Described):
    """The indexes or values for which a task runs (docs/arrays.md)."""

    from_: int | None = None
    to: int | None = None
    step: int | None = None
    values: Sequence[str | float | bool] = ()


@dataclass(frozen=True)
class Repository(_Described):
    """A git repository as the working folder of a task; only for `tradewind submit`, which clones it."""

    url: str
    ref: str | None = None


@dataclass(frozen=True)
class Reaction(_Described):
    """The reaction to an event of a gang: restartGang, restartRole, abort or complete."""

    action: str
    exit_codes: Sequence[int] = ()
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class On(_Described):
    """Reactions of a gang, or of a task, to events of its machines (docs/gangs.md)."""

    pod_evicted: str | Reaction | Sequence[Reaction] | None = None
    pod_failed: str | Reaction | Sequence[Reaction] | None = None
    task_completed: str | Reaction | Sequence[Reaction] | None = None
    task_failed: str | Reaction | Sequence[Reaction] | None = None


@dataclass(frozen=True, kw_only=True)
class Role(_Described):
    """A role of a gang. What it does not set, it has from the task."""

    replicas: int | None = None
    """The number of its machines."""
    min_available: int | None = None
    """The number that is enough to start."""
    min: int | None = None
    max: int | None = None
    """Up to this number, further machines join while it runs, and may leave."""
    run: str | None = None
    setup: str | None = None
    resources: Resources | None = None
    time: Duration | Mapping[str, Duration] | None = None
    env: Mapping[str, str] | None = None
    outputs: Sequence[Output] = ()
    checkpoint: Checkpoint | None = None
    retries: int | None = None
    timeout: Duration | None = None
    workdir: str | Repository | None = None
    labels: Mapping[str, str] | None = None
    placement: Sequence[Placement] = ()
    on: On | None = None
    login: bool | None = None
    recorded: Duration | None = None
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class Gang(_Described):
    """Makes a task a gang of roles that start together or not at all (docs/gangs.md)."""

    roles: Mapping[str, Role]
    min_available: int | None = None
    within: str | None = None
    """zone, region or anywhere."""
    placement: Sequence[Placement] = ()
    on: On | None = None


@dataclass(frozen=True, kw_only=True)
class Notify(_Described):
    """Who is notified when the job ends (docs/notifications.md)."""

    webhook: str | None = None
    command: str | None = None
    email: str | Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Service(_Described):
    """Keeps a task running until its job is cancelled. Lost replicas are replaced (docs/services.md)."""

    replicas: int | None = None
    port: int | None = None
    """The port that it listens on; a replica gets it as $PORT."""
    readiness: Readiness | None = None
    of: str | None = None
    """Makes the task one replica of this service, instead of replicas."""


@dataclass(eq=False)
class Task:
    """A step of a job. With `a >> b`, b waits for a and finds a's outputs in $TRADEWIND_INPUTS/a."""

    name: str
    run: str = ""
    spark: Spark | None = None
    """A Spark application, in place of run."""
    setup: str | None = None
    resources: Resources | None = None
    time: Duration | Mapping[str, Duration] | Estimator | None = None
    """The expected run time: one time, times by accelerator and machine type, or a function that computes them."""
    nodes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[Input | From] = ()
    outputs: Sequence[Output] = ()
    checkpoint: Checkpoint | None = None
    retries: int | None = None
    timeout: Duration | None = None
    """Ends an attempt whose setup and run take longer together. It has then failed, and is not tried again."""
    workdir: str | Repository | None = None
    """A local folder, uploaded when the job is submitted. Its content is the task's working folder."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that placement rules of other tasks refer to."""
    placement: Sequence[Placement] = ()
    """Placement rules for its machines."""
    service: Service | None = None
    """Makes it a service: it does not end, and no task may wait for it."""
    after: list[Task | After] = field(default_factory=list)
    secrets: Sequence[str] | Mapping[str, str] = ()
    """Names of variables whose values are passed to submit, or references to stored values by name."""
    gang: str | Gang | None = None
    """The name of its gang, or the roles of one."""
    framework: str | None = None
    """pytorch, tensorflow, mpi, horovod, ray, spark or dask."""
    role: str | None = None
    joins: str | None = None
    """The running gang that it joins."""
    within: str | None = None
    """The maximum distance between machines of its gang: zone, region or anywhere."""
    on: On | None = None
    array: int | Array | None = None
    """A number of members, or their indexes or values: the task runs once for each."""
    matrix: Mapping[str, Sequence[str | float | bool]] = field(default_factory=dict)
    """A member for each combination of these values."""
    max_parallel: int | None = None
    """The maximum number of members that run at the same time."""
    allow_failures: int | str | None = None
    """Members that may fail: a number, or a share as "5%"."""
    share: bool | None = None
    """Whether it may run on one machine together with other tasks of the job."""
    login: bool | None = None
    """Run the scripts in an interactive bash, after ~/.bashrc."""
    recorded: Duration | None = None
    """A measured run time, to wait for instead of running a script."""
    reference: str | None = None
    """The machine type on which time was measured."""

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
        if other not in self.before():
            self.after.append(other)

    def before(self) -> list[Task]:
        """The tasks that it waits for: those in after, and those whose outputs are inputs."""
        named = [a.task if isinstance(a, After) else a for a in self.after]
        return named + [i.from_ for i in self.inputs if isinstance(i, From)]

    def to_dict(self) -> dict[str, Any]:
        """The task as in the job file. Raises TypeError for an estimator, which needs the offers of a broker."""
        if callable(self.time):
            raise TypeError(f"tasks.{self.name}.time is a function: a client that plans or submits it evaluates it")
        return _fields(self, "name")


def _fields(of: Task | Job, *but: str) -> dict[str, Any]:
    """The fields that have a value, as in the job file."""
    pairs = ((f.name, getattr(of, f.name)) for f in fields(of) if f.name not in but)
    return {_camel(name): _plain(v) for name, v in pairs if v is not None and v not in ((), {}, [], "")}


@dataclass
class Job:
    """Tasks that are planned together: the given ones and all that they wait for."""

    name: str
    tasks: Task | Sequence[Task]
    objective: str | None = None
    """cost or makespan."""
    deadline: Duration | None = None
    budget: float | None = None
    """The maximum cost, USD."""
    queue: str | None = None
    priority: int | None = None
    regions: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every task."""
    placement: Sequence[Placement] = ()
    """Placement rules for machines of several tasks."""
    infeasible: str | None = None
    """What to do if there is no place: retry, fail or wait. The default, retry, waits for blocked places."""
    patience: Duration | None = None
    """The maximum wait for a place; default a day, or until the deadline if that is later."""
    keep: Duration | None = None
    """How long its records, logs and outputs are kept after its end: 90d or forever; default as long as its queue says."""
    keep_on_failure: Duration | None = None
    """How long the machines of a failed task are kept for inspection, within the budget; up to a day."""
    description: str | None = None
    namespace: str | None = None
    """The user or team that owns the job."""
    on_failure: str | None = None
    """stop (the default), or continue with the tasks that do not depend on the failed one."""
    secrets: Sequence[str] | Mapping[str, str] = ()
    """Secrets of every task; see Task."""
    reference: str | None = None
    """The machine type on which the times of tasks were measured."""
    announce: str | None = None
    """A topic of Google Cloud Pub/Sub for the end of the job."""
    notify: Notify | None = None
    """Who is notified when the job ends."""
    weights: Mapping[str, float] | None = None
    """In place of an objective: the value of a USD as cost, and of an hour as time."""

    def __post_init__(self) -> None:
        tasks = [self.tasks] if isinstance(self.tasks, Task) else self.tasks
        if isinstance(self.objective, Task) or isinstance(tasks, str) or not all(isinstance(t, Task) for t in tasks):
            raise TypeError(f"job {self.name!r}: tasks is a Task or a list of them, as in Job(name, [a, b])")

    def all_tasks(self) -> list[Task]:
        """The tasks, each after its dependencies. Raises ValueError for a cycle or a duplicate name."""
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
            for before in t.before():
                visit(before)
            path.pop()
            if names.setdefault(t.name, t) is not t:
                raise ValueError(f"job {self.name!r}: two tasks have the name {t.name!r}")
            done[id(t)] = t

        for t in [self.tasks] if isinstance(self.tasks, Task) else self.tasks:
            visit(t)
        return list(done.values())

    def to_dict(self) -> dict[str, Any]:
        """The job as in a job file (docs/job-file.md)."""
        return self._written({})

    def _written(self, times: Mapping[str, Mapping[str, Duration]]) -> dict[str, Any]:
        """The job as in a job file, with the times of the estimators by task."""
        written: dict[str, Any] = {"apiVersion": "tradewind/v1", **_fields(self, "tasks")}
        tasks = (replace(t, time=times[t.name]) if t.name in times else t for t in self.all_tasks())
        written["tasks"] = {t.name: t.to_dict() for t in tasks}
        return written

    def to_json(self) -> str:
        """The job as a file for `tradewind submit`. Its paths start at the folder of the file."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def submit(self, client: Client | None = None, *, secrets: Mapping[str, str] | None = None) -> Run:
        """Submits the job with its local files, and the values of its secrets. Without a client, the broker is found
        like the command line finds it."""
        return _client(client).submit(self, secrets=secrets)

    def plan(self, client: Client | None = None) -> PlanView:
        """Returns where the job would run and its cost, without running it. Raises Infeasible with the reason if there
        is no plan."""
        return _client(client).plan(self)


def _client(client: Client | None) -> Client:
    from .client import Client

    return client if client is not None else Client()
