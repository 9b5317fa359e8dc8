# Generated from internal/api/openapi.json by `make python-models`. Do not edit.

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import AnyUrl, AwareDatetime, BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType


class Amount(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    centi_units: Annotated[int | None, Field(alias='centiUnits')] = None
    machines: int | None = None
    mib: int | None = None
    micro_usd: Annotated[int | None, Field(alias='microUSD')] = None
    milli_vcpu: Annotated[int | None, Field(alias='milliVCPU')] = None


class Bid(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: int
    """
    Number of the attempt
    """
    job: str
    """
    ID of the job
    """
    max_usd: Annotated[float, Field(alias='maxUSD')]
    """
    Maximum price of one machine, USD per hour
    """
    nodes: int
    """
    Number of machines
    """
    rate_usd: Annotated[float, Field(alias='rateUSD')]
    """
    Current price of one machine, USD per hour
    """
    task: int
    """
    Index of the task in it
    """


class Block(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: AwareDatetime
    cloud: str
    count: int
    family: str | None = None
    instance_type: Annotated[str | None, Field(alias='instanceType')] = None
    kind: str
    market: str | None = None
    reason: str
    region: str | None = None
    reservation: str | None = None
    service: str | None = None
    until: AwareDatetime
    zone: str | None = None


class BlockList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    blocks: list[Block]
    """
    What the broker does not try; an empty field matches every value
    """
    now: AwareDatetime
    """
    The broker's clock
    """


class BodyStructBody(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )


class Bought(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    machines: int | None = None
    usd_per_hour: Annotated[float | None, Field(alias='usdPerHour')] = None


class Capacity(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    accelerator: str | None = None
    """
    Name of the accelerators, as in the catalogue
    """
    accelerators: float | None = None
    """
    How many of them
    """
    cpus: float
    """
    vCPUs
    """
    memory_gi_b: Annotated[float, Field(alias='memoryGiB')]
    """
    Memory, GiB
    """


class Checkpoint(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    every: int | None = None
    next: int
    path: str
    restore: str | None = None


class ChunkEnd(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    empty: bool | None = None
    exit_code: Annotated[int | None, Field(alias='exitCode')] = None
    failed: bool | None = None
    log: Annotated[
        str | None, Field(json_schema_extra={'contentEncoding': 'base64'})
    ] = None
    log_from: Annotated[int | None, Field(alias='logFrom')] = None
    log_times: Annotated[str | None, Field(alias='logTimes')] = None
    message: str | None = None
    phase: str | None = None
    ran: int


class Claim(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    for_: Annotated[str, Field(alias='for')]
    pool: str | None = None
    until: AwareDatetime


class CloudLack(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    fatal: bool | None = None
    """
    Nothing can be bought until it is fixed
    """
    mend: str | None = None
    """
    The command that fixes it
    """
    what: str
    """
    What is missing, in the cloud's own words if it gave any
    """


class CloudQuota(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    limit: float
    """
    The maximum
    """
    name: str
    """
    What is limited
    """
    region: str | None = None
    """
    Region of the limit; empty if it applies everywhere
    """
    used: float
    """
    How much is used, if known
    """


class CloudReserved(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    by: str
    """
    How the broker knows of it
    """
    count: int
    """
    Maximum number of machines that run on it at once
    """
    has: Amount | None = None
    """
    How much others leave unused
    """
    id: str
    """
    The cloud's ID or name of it
    """
    instance_type: Annotated[str, Field(alias='instanceType')]
    """
    Type of the machines
    """
    total: Amount | None = None
    """
    Total amount, if known
    """
    usd_per_hour: Annotated[float, Field(alias='usdPerHour')]
    """
    Cost of one more machine hour, USD
    """
    used_last_day: Annotated[float | None, Field(alias='usedLastDay')] = None
    """
    Share used in the last day, if nothing more exact is known
    """
    what: str | None = None
    """
    Machines it is for, if they are of several types
    """
    where: str
    """
    REGION, or REGION/ZONE
    """


class Credentials(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    access_key: Annotated[str | None, Field(alias='accessKey')] = None
    endpoint: str | None = None
    expires: AwareDatetime
    path_style: Annotated[bool | None, Field(alias='pathStyle')] = None
    query: str | None = None
    region: str | None = None
    secret_key: Annotated[str | None, Field(alias='secretKey')] = None
    session_token: Annotated[str | None, Field(alias='sessionToken')] = None
    token: str | None = None


class DeadLetter(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: AwareDatetime
    """
    When it was given up
    """
    attempts: int
    """
    Number of deliveries
    """
    event: Any | None = None
    """
    The CloudEvents envelope, if it is JSON
    """
    group: str | None = None
    """
    Job it belongs to
    """
    id: str
    """
    ID of the event
    """
    queue: str
    """
    Function that could not handle it; empty if no function handles its type
    """
    reason: str
    """
    Why delivery was given up
    """
    type: str
    """
    Type of the event
    """


class DeadLetterList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    dead_letters: Annotated[list[DeadLetter], Field(alias='deadLetters')]
    """
    The events, the oldest first
    """


class How(Enum):
    """
    drain: nothing new starts, running work finishes; now: running work is saved and continues elsewhere; undo: end draining
    """

    drain = 'drain'
    now = 'now'
    undo = 'undo'


class Draining(BaseModel):
    model_config = ConfigDict(
        extra='forbid',
        populate_by_name=True,
    )
    how: How | None = 'drain'
    """
    drain: nothing new starts, running work finishes; now: running work is saved and continues elsewhere; undo: end draining
    """


class Entry(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: AwareDatetime
    """
    When
    """
    kind: str
    """
    submitted, planned, waits, launched, doubted, refused, started, visited, kept, preempted, moved, lost, succeeded, failed, blocked, budget, suspended, resumed, updated, placement, cancelled, finished or notified
    """
    task: str | None = None
    """
    Task it happened to
    """
    text: str
    """
    What happened and why, in a sentence
    """
    usd: float | None = None
    """
    What it cost, USD
    """


class ErrorDetail(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    location: str | None = None
    """
    Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id'
    """
    message: str | None = None
    """
    Error message text
    """
    value: Any | None = None
    """
    The value at the given location
    """


class ErrorModel(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    detail: Annotated[
        str | None, Field(examples=['Property foo is required but is missing.'])
    ] = None
    """
    A human-readable explanation specific to this occurrence of the problem.
    """
    errors: list[ErrorDetail] | None = None
    """
    Optional list of individual error details
    """
    instance: Annotated[
        AnyUrl | None, Field(examples=['https://example.com/error-log/abc123'])
    ] = None
    """
    A URI reference that identifies the specific occurrence of the problem.
    """
    status: Annotated[int | None, Field(examples=[400])] = None
    """
    HTTP status code
    """
    title: Annotated[str | None, Field(examples=['Bad Request'])] = None
    """
    A short, human-readable summary of the problem type. This value should not change between occurrences of the error.
    """
    type: Annotated[
        AnyUrl | None, Field(examples=['https://example.com/errors/example'])
    ] = 'about:blank'
    """
    A URI reference to human-readable documentation for the error.
    """


class Failure(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    exit_code: Annotated[int, Field(alias='exitCode')]
    rank: int


class From(Enum):
    """
    Source of the run time: the job file, its number of operations, earlier runs of the task, of similar tasks, on another accelerator, or nothing known
    """

    file = 'file'
    flops = 'flops'
    history = 'history'
    like = 'like'
    scaled = 'scaled'
    default = 'default'


class Figure(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    from_: Annotated[From, Field(alias='from')]
    """
    Source of the run time: the job file, its number of operations, earlier runs of the task, of similar tasks, on another accelerator, or nothing known
    """
    high_hours: Annotated[float | None, Field(alias='highHours')] = None
    """
    90th percentile, hours
    """
    hours: float
    """
    Assumed run time of the whole task there, hours
    """
    learned_hours: Annotated[float | None, Field(alias='learnedHours')] = None
    """
    Run time expected from them, hours
    """
    low_hours: Annotated[float | None, Field(alias='lowHours')] = None
    """
    10th percentile, hours
    """
    measured_hours: Annotated[float | None, Field(alias='measuredHours')] = None
    """
    Run time there, hours
    """
    measured_on: Annotated[str | None, Field(alias='measuredOn')] = None
    """
    Machine type on which the time of the job file was measured
    """
    runs: int | None = None
    """
    Number of known earlier runs
    """


class FittingOffer(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    accelerator: str | None = None
    accelerator_count: Annotated[float | None, Field(alias='acceleratorCount')] = None
    """
    Accelerators of one machine
    """
    arch: str
    """
    amd64 or arm64
    """
    cloud: str
    cpu: str | None = None
    """
    Processor
    """
    family: str | None = None
    """
    The machine type without its size
    """
    id: str
    """
    The offer, with its market
    """
    instance_type: Annotated[str, Field(alias='instanceType')]
    market: str
    """
    on-demand or spot
    """
    memory_gi_b: Annotated[float, Field(alias='memoryGiB')]
    region: str
    speed: float
    """
    Speed of a vCPU, relative to m6i.xlarge; 1 if it is unknown
    """
    tflops: float | None = None
    """
    Half-precision rating of all of its accelerators, 10^12 operations per second; missing if it is unknown
    """
    time_key: Annotated[str, Field(alias='timeKey')]
    """
    Key of the task's time in a job file: the machine type, or the accelerators if the cloud attaches them to several types
    """
    usd_per_hour: Annotated[float, Field(alias='usdPerHour')]
    """
    Price of one machine without its disk and address, USD per hour
    """
    vcpus: float
    zone: str | None = None
    """
    Missing if the cloud sells by region
    """


class FittingOffers(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    offers: list[FittingOffer]
    """
    The cheapest offer of each machine type, sorted by price; empty if none fits
    """


class Forecast(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    high: float
    """
    90th percentile, USD per hour
    """
    hours: float
    """
    Hours from now
    """
    low: float
    """
    10th percentile, USD per hour
    """
    usd: float
    """
    Expected mean, USD per hour
    """


class FrontierPoint(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    bound_usd: Annotated[float, Field(alias='boundUSD')]
    """
    Lower bound: no plan as fast costs less, USD
    """
    hours: float
    """
    Deadline of this plan, hours
    """
    spot: int
    """
    Number of tasks on spot machines
    """
    tasks: int
    """
    Number of tasks placed
    """
    usd: float
    """
    Expected cost, USD
    """


class Gap(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    from_hours: Annotated[float, Field(alias='fromHours')]
    from_usd: Annotated[float, Field(alias='fromUSD')]
    to_hours: Annotated[float, Field(alias='toHours')]
    to_usd: Annotated[float, Field(alias='toUSD')]


class Grant(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    expires: AwareDatetime
    header: dict[str, str] | None = None
    method: str
    url: str


class Granted(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    grants: list[Grant] | None


class Input(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    mount: str | None = None
    path: str
    source: str | None = None
    uri: str


class Instead(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    offer: str
    usd: float


class Lack(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    digest: str
    grant: Grant


class Listed(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    size: int
    uri: str


class Listing(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    after: str | None = None
    attempt: str
    prefix: str


class Loan(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    prefix: str
    write: bool | None = None


class MachineTask(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    cluster: str
    """
    ID of its cluster
    """
    hold: Capacity
    """
    Capacity that it holds
    """
    job: str
    """
    ID of the job
    """
    job_name: Annotated[str | None, Field(alias='jobName')] = None
    """
    Name of the job
    """
    rank: int
    """
    Rank of the machine in the cluster
    """
    since: AwareDatetime
    """
    Since when it holds it
    """
    task: str
    """
    Name of the task
    """


class MachineView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    blocked_until: Annotated[AwareDatetime | None, Field(alias='blockedUntil')] = None
    """
    Until when it gets no new work after a failure
    """
    capacity: Capacity
    """
    Its capacity
    """
    id: str
    """
    Name of the machine
    """
    joined: AwareDatetime
    """
    When it joined
    """
    labels: dict[str, str] | None = None
    """
    Labels that the machine reports
    """
    reason: str | None = None
    """
    How it failed
    """
    seen: AwareDatetime
    """
    When it last reported, to about a minute
    """
    state: str
    """
    ready, busy, draining, drained, leaving, blocked, stale or lost
    """
    tasks: list[MachineTask]
    """
    Tasks that run on it
    """
    type: str
    """
    Its type, which a task may request
    """
    used: Capacity
    """
    How much of it is in use
    """


class MarketView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    bids: list[Bid]
    """
    Attempts that hold machines there now, and their maximum prices
    """
    changes: float | None = None
    """
    How often in these hours the price moved from one band of half an octave to another
    """
    forecast: list[Forecast]
    """
    Price forecast; empty if there is none
    """
    held_hours: Annotated[float, Field(alias='heldHours')]
    """
    Machine hours that attempts held there
    """
    launches: int
    """
    Attempts that got machines there
    """
    offer: str
    """
    The machine and its place, without the market: CLOUD/REGION/ZONE/TYPE
    """
    preemptions: int
    """
    Of these, attempts that the cloud preempted
    """
    refusals: int
    """
    Attempts that got no machines there
    """
    seen_hours: Annotated[float | None, Field(alias='seenHours')] = None
    """
    Hours for which the price was watched; those of a week ago count half
    """
    since: AwareDatetime | None = None
    """
    Since when this has been the price
    """
    usd: float | None = None
    """
    Current price, USD per hour of one machine; absent if unknown
    """


class Member(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    first: int | None = None
    nodes: list[str] | None
    role: str
    slots: int
    task: str


class Missing(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    missing: list[Lack]
    """
    The pieces to upload, each with a grant to write it
    """


class Month(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    aside_below_usd: Annotated[float | None, Field(alias='asideBelowUSD')] = None
    """
    The reserved part of belowUSD, USD
    """
    below_usd: Annotated[float | None, Field(alias='belowUSD')] = None
    """
    Spent and reserved by the child queues in this month, USD
    """
    of: str | None = None
    """
    The month, YYYY-MM, in UTC
    """
    reserved_usd: Annotated[float | None, Field(alias='reservedUSD')] = None
    """
    Reserved in the monthly budget for running attempts, USD
    """
    spent_usd: Annotated[float | None, Field(alias='spentUSD')] = None
    """
    Cost of the attempts that were settled in it, USD
    """


class Mounting(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    loans: list[Loan] | None
    program: str | None = None


class Moved(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    received: int | None = None
    sent: int | None = None
    store: str


class Offer(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    accelerator: str | None = None
    accelerator_count: Annotated[float | None, Field(alias='acceleratorCount')] = None
    boot_seconds: Annotated[float | None, Field(alias='bootSeconds')] = None
    cloud: str
    has: Amount | None = None
    instance_type: Annotated[str, Field(alias='instanceType')]
    nodes: int | None = None
    region: str
    release: str | None = None
    reservation: str | None = None
    reserved: int | None = None
    service: str | None = None
    slow_boot_seconds: Annotated[float | None, Field(alias='slowBootSeconds')] = None
    speed: float | None = None
    spot: bool
    takes: Amount | None = None
    usd_per_hour: Annotated[float, Field(alias='usdPerHour')]
    zone: str | None = None


class Kind(Enum):
    """
    A command, a terminal or a port
    """

    exec = 'exec'
    shell = 'shell'
    forward = 'forward'


class OpenVisitInputBody(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    command: Annotated[list[str] | None, Field(max_length=10000)] = None
    """
    The command line, for the job's history
    """
    kind: Kind
    """
    A command, a terminal or a port
    """
    port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """
    Port on the machine
    """
    rank: Annotated[int | None, Field(ge=0)] = None
    """
    Rank of the machine, for a task that runs on several
    """


class Output(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    name: str
    on_failure: Annotated[bool | None, Field(alias='onFailure')] = None
    path: str | None = None
    uri: str | None = None


class Pace(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    alive: int | None = None
    log: int | None = None
    polls: bool | None = None
    quiet: int | None = None
    tail: int | None = None


class Page(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    next: str | None = None
    objects: list[Listed] | None


class Past(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: AwareDatetime
    tasks: float | None = None
    use: dict[str, float] | None = None
    vcpu: float | None = None


class Piece(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    digest: Annotated[
        str, Field(max_length=71, min_length=71, pattern='^sha256-[0-9a-f]+$')
    ]
    size: Annotated[int, Field(ge=1, le=67108864)]
    """
    Bytes
    """


class PlanHead(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: AwareDatetime
    bound: float
    hours: float
    late: bool | None = None
    message: str | None = None
    millis: float
    objective: float
    on_demand_usd: Annotated[float, Field(alias='onDemandUSD')]
    reason: str | None = None
    status: str
    usd: float
    version: int


class Status(Enum):
    """
    optimal is proven; for feasible, bound shows how far from optimal it can be
    """

    optimal = 'optimal'
    feasible = 'feasible'
    infeasible = 'infeasible'


class PoolAgent(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    cluster: Annotated[str, Field(max_length=256)]
    """
    ID of the cluster
    """
    rank: Annotated[int, Field(ge=0)]
    """
    Rank of the machine in the cluster
    """


class PoolCapacity(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    accelerator: str | None = None
    """
    Name of the accelerators, as in the catalogue
    """
    accelerators: Annotated[float | None, Field(ge=0.0)] = None
    """
    Number of accelerators
    """
    cpus: Annotated[float, Field(ge=0.0)]
    """
    vCPUs
    """
    memory_gi_b: Annotated[float, Field(alias='memoryGiB', ge=0.0)]
    """
    Memory, GiB
    """


class PoolEnd(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    cluster: Annotated[str, Field(max_length=256)]
    """
    ID of the cluster
    """
    rank: Annotated[int, Field(ge=0)]
    """
    Rank of the machine in the cluster
    """
    reason: Annotated[str | None, Field(max_length=4096)] = None
    """
    How the agent ended, and the end of its log
    """


class PoolOrder(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    cluster: Annotated[str, Field(max_length=256)]
    """
    ID of the cluster
    """
    devices: list[int] | None = None
    """
    Indexes of the accelerators it may use
    """
    endpoint: str
    """
    URL of the API for the agent
    """
    hold: PoolCapacity
    """
    The part of the machine that the agent may use
    """
    job: str
    """
    ID of the agent's job
    """
    rank: Annotated[int, Field(ge=0)]
    """
    Rank of the machine in the cluster
    """
    token: str | None = None
    """
    The agent's token, valid for this cluster and rank; empty if the agent already runs
    """


class PoolReport(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    capacity: PoolCapacity
    """
    Capacity for tasks
    """
    ended: Annotated[list[PoolEnd] | None, Field(max_length=1000)] = None
    """
    Agents that ended by themselves or could not be started
    """
    labels: dict[str, str] | None = None
    """
    Labels of the machine
    """
    leaving: bool | None = None
    """
    The process is about to end: its tasks save their work and resume elsewhere
    """
    running: Annotated[list[PoolAgent] | None, Field(max_length=1000)] = None
    """
    Agents whose processes run on the machine
    """
    type: Annotated[str | None, Field(max_length=63)] = None
    """
    Instance type that tasks can ask for
    """


class PoolSettings(BaseModel):
    model_config = ConfigDict(
        extra='forbid',
        populate_by_name=True,
    )
    description: Annotated[str | None, Field(max_length=1024)] = None
    """
    Free text
    """
    partitions: Annotated[int | None, Field(ge=0, le=256)] = None
    """
    Number of records over which its machines are distributed; 0 is 8. It can change only while the pool has no machines
    """
    place: Annotated[str | None, Field(max_length=128, pattern='^([^:]+:.+)?$')] = None
    """
    Where its machines are, cloud:region, for the cost of moving data; empty if unspecified
    """
    usd_per_hour: Annotated[
        float | None, Field(alias='usdPerHour', ge=0.0, le=100000.0)
    ] = None
    """
    Cost that one hour of a whole machine counts as, USD; 0 if it is already paid for
    """


class PoolToken(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    expires: AwareDatetime
    """
    When the token expires, on the broker's clock
    """
    token: str
    """
    The secret
    """


class PoolView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    capacity: Capacity
    """
    Total of its machines; accelerators of all names together
    """
    created: AwareDatetime
    """
    When it was created
    """
    description: str | None = None
    """
    What it is for
    """
    draining: bool | None = None
    """
    It accepts no new work
    """
    machines: list[MachineView]
    """
    Its machines, by ID
    """
    name: str
    """
    Name of the pool
    """
    partitions: int
    """
    Number of records over which its machines are distributed
    """
    place: str | None = None
    """
    Where its machines are, cloud:region
    """
    usd_per_hour: Annotated[float, Field(alias='usdPerHour')]
    """
    Cost that one hour of a whole machine counts as, USD
    """
    used: Capacity
    """
    How much of it is in use
    """


class PriceSeries(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: list[AwareDatetime]
    """
    When it changed, the oldest first
    """
    offer: str
    """
    The market
    """
    usd: list[float]
    """
    The price from then on, USD per hour of one machine
    """


class Problem(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    column: int | None = None
    """
    Column in the line, from 1, in bytes
    """
    detail: str | None = None
    """
    What went wrong this time
    """
    errors: list[ErrorDetail] | None = None
    """
    Which parts of the request are wrong
    """
    field: str | None = None
    """
    Path to the value, with the keys as in the file
    """
    file: str | None = None
    """
    The job file, as the request named it
    """
    hint: str | None = None
    """
    How to fix it
    """
    line: int | None = None
    """
    Line in the file, from 1
    """
    reason: str | None = None
    """
    What is wrong with the value
    """
    status: int
    """
    HTTP status code
    """
    title: str
    """
    The kind of problem; constant for each kind
    """


class Program(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    sha256: str
    url: str


class Proof(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    cloud: str
    document: str


class Pruning(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str


DeservedAdditionalProperty = TypeAliasType(
    "DeservedAdditionalProperty", Annotated[float, Field(ge=0.0, le=1000000000.0)]
)


GuaranteedAdditionalProperty = TypeAliasType(
    "GuaranteedAdditionalProperty", Annotated[float, Field(ge=0.0, le=1000000000.0)]
)


MaxAdditionalProperty = TypeAliasType(
    "MaxAdditionalProperty", Annotated[float, Field(ge=0.0, le=1000000000.0)]
)


class QueueQuota(BaseModel):
    model_config = ConfigDict(
        extra='forbid',
        populate_by_name=True,
    )
    closed: bool | None = None
    """
    If true, the queue admits no tasks; running ones continue
    """
    description: Annotated[str | None, Field(max_length=1024)] = None
    """
    Free text
    """
    deserved: dict[str, DeservedAdditionalProperty] | None = None
    """
    How much it may reclaim from its siblings, by resource
    """
    deserved_vcpu: Annotated[
        float | None, Field(alias='deservedVCPU', ge=0.0, le=1000000000.0)
    ] = None
    """
    vCPUs up to which it may reclaim capacity from its siblings; 0 is its share by weight
    """
    guaranteed: dict[str, GuaranteedAdditionalProperty] | None = None
    """
    What is reserved for it even while it does not use it, by resource
    """
    guaranteed_vcpu: Annotated[
        float | None, Field(alias='guaranteedVCPU', ge=0.0, le=1000000000.0)
    ] = None
    """
    vCPUs reserved for it even while it does not use them
    """
    keep: Annotated[str | None, Field(max_length=64)] = None
    """
    How long its finished jobs are kept, such as 90d, or forever; empty for as long as the queue above or the broker says
    """
    max: dict[str, MaxAdditionalProperty] | None = None
    """
    The maximum that it may hold, by resource: memoryGiB, usdPerHour, the name of an accelerator, or vcpus, which is maxVCPU; and usdPerMonth, what its jobs may cost in a calendar month (UTC); 0 is no limit
    """
    max_running: Annotated[int | None, Field(alias='maxRunning', ge=0, le=1000000)] = (
        None
    )
    """
    Tasks that may hold capacity at once; 0 is no limit
    """
    max_vcpu: Annotated[
        float | None, Field(alias='maxVCPU', ge=0.0, le=1000000000.0)
    ] = None
    """
    vCPUs that its tasks may hold at once; 0 is no limit
    """
    parent: Annotated[
        str | None, Field(max_length=128, pattern='^([A-Za-z0-9][A-Za-z0-9._-]*)?$')
    ] = None
    """
    Queue whose quota it shares with its siblings; empty for none
    """
    preempt: bool | None = None
    """
    Whether jobs of higher priority preempt running ones of lower priority, whose work is saved first
    """
    weight: Annotated[int | None, Field(ge=0, le=1000000)] = None
    """
    Its share relative to its siblings; 0 is 1
    """


class QueueUsage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    name: str
    """
    Name of the queue
    """
    running: list[float]
    """
    Tasks that held capacity, by step
    """
    vcpus: list[float]
    """
    vCPUs that they held, by step
    """


class Range(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    from_: Annotated[int, Field(alias='from')]
    length: int


class Redrive(BaseModel):
    model_config = ConfigDict(
        extra='forbid',
        populate_by_name=True,
    )
    ids: Annotated[list[str] | None, Field(max_length=1000)] = None
    """
    IDs of events; empty for all events of the queue
    """
    queue: Annotated[str | None, Field(max_length=128)] = None
    """
    The function's queue; empty for all queues
    """


class Redriven(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    redriven: int
    """
    Events that are delivered again
    """


class Report(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    chunk: list[ChunkEnd] | None = None
    empty: bool | None = None
    event: str
    exit_code: Annotated[int | None, Field(alias='exitCode')] = None
    fault: str | None = None
    id: str
    keep: int | None = None
    log: Annotated[
        str | None, Field(json_schema_extra={'contentEncoding': 'base64'})
    ] = None
    log_from: Annotated[int | None, Field(alias='logFrom')] = None
    log_times: Annotated[str | None, Field(alias='logTimes')] = None
    message: str | None = None
    moved: list[Moved] | None = None
    notice: int | None = None
    phase: str | None = None
    port: int | None = None
    prefix: str | None = None
    progress: float | None = None
    ran: int | None = None
    seq: int | None = None


class RunTimes(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: int
    """
    When the last one ended, seconds since 1970
    """
    log: float
    """
    Mean of the natural logarithms of their hours
    """
    runs: int
    """
    Number of runs; later ones have more weight
    """
    speed: float | None = None
    """
    Speed of the machine's vCPUs relative to m6i.xlarge; missing means 1
    """
    var: float | None = None
    """
    Variance of the logarithms
    """


class Runner(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    adds: float
    hours: float
    id: str
    usd: float


class Service(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    every: int
    headers: dict[str, str] | None = None
    initial_delay: Annotated[int, Field(alias='initialDelay')]
    name: str
    path: str | None = None
    patience: int
    port: int | None = None
    post: str | None = None
    replica: int
    timeout: int


class ServiceView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    current: int
    """
    Number of ready replicas that have the job's current version
    """
    name: str
    """
    Name of the service
    """
    ready: int
    """
    Number of ready replicas
    """
    replicas: int
    """
    Desired number of replicas
    """


class Space(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    name: str
    past: Past | None = None
    tasks: float | None = None
    use: dict[str, float] | None = None
    vcpu: float | None = None


class Sum(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    kind: str
    value: Annotated[str, Field(json_schema_extra={'contentEncoding': 'base64'})]


class Suspension(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    by: str | None = None
    """
    Who suspended it
    """
    drain: bool | None = None
    """
    For a queue: whether running tasks save their work and wait as well
    """
    reason: str | None = None
    """
    Why
    """
    resumed_by: Annotated[str | None, Field(alias='resumedBy')] = None
    """
    Who resumed it
    """
    since: AwareDatetime
    """
    From when
    """
    until: AwareDatetime | None = None
    """
    When it was resumed
    """


class TaskView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    accelerators: Annotated[str | None, Field(examples=['V100:1'])] = None
    """
    Accelerators of one machine, TYPE:COUNT
    """
    address: str | None = None
    """
    Address of a ready replica, HOST:PORT
    """
    after: list[int] | None = None
    """
    Indexes of the tasks it waits for
    """
    attempts: int
    """
    Attempts so far
    """
    ended: AwareDatetime | None = None
    """
    When it ended
    """
    hours: float | None = None
    """
    Expected run time, hours
    """
    index: int
    """
    Index in the job
    """
    kept_until: Annotated[AwareDatetime | None, Field(alias='keptUntil')] = None
    """
    Until when the machines of its last failed attempt are kept for inspection
    """
    name: str
    """
    Name of the task
    """
    nodes: int
    """
    Number of machines
    """
    offer: str | None = None
    """
    Where it runs, ran, or is planned to run
    """
    output: str | None = None
    """
    URI of the folder with its outputs. If it has several machines, the files of each are below RANK/files
    """
    progress: float | None = None
    """
    Share of the work that is saved, 0 to 1
    """
    ready: bool | None = None
    """
    The replica is ready
    """
    reason: str | None = None
    """
    Why it failed
    """
    service: str | None = None
    """
    The service of which it is a replica
    """
    started: AwareDatetime | None = None
    """
    When the last attempt started
    """
    state: str
    """
    waiting, queued, admitted, launching, running, succeeded, failed or cancelled
    """
    unready: str | None = None
    """
    Why a replica that was ready no longer is
    """
    unsaved: bool | None = None
    """
    It saves no checkpoints: if it leaves its machine before it has finished, it starts again from the beginning
    """
    usd: float
    """
    Cost so far, USD
    """
    usd_per_hour: Annotated[float | None, Field(alias='usdPerHour')] = None
    """
    Price of one machine, USD per hour
    """
    waits: str | None = None
    """
    If it waits for a better price, or for machines that have not answered: which
    """


class TaskWhy(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    chosen: str
    """
    The offer chosen
    """
    hours: float
    """
    Expected time there, hours
    """
    runners: list[Runner] | None = None
    """
    The next best, and what each would have added to the plan
    """
    task: str
    """
    Name of the task
    """
    usd: float
    """
    Expected cost there, USD
    """


class TesCreated(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    id: str


class TesType(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    artifact: str
    group: str
    version: str


class Update(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    before: int
    """
    The previous version
    """
    done: AwareDatetime | None = None
    """
    When all replicas were replaced
    """
    failed: str | None = None
    """
    Why the update was stopped; the services continue with the previous version
    """
    plan: int
    """
    The first plan made for the update
    """
    since: AwareDatetime
    """
    When the update was requested
    """
    spec: int
    """
    Version of the services' spec, 1 before the first update
    """


class UploadID(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    upload: str


class Uploaded(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    etag: str
    number: int


class UsageView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    from_: Annotated[AwareDatetime, Field(alias='from')]
    """
    When the first step begins
    """
    now: AwareDatetime
    """
    The broker's clock
    """
    partial: bool | None = None
    """
    Only the newest jobs or attempts are included, because there are too many
    """
    queues: list[QueueUsage]
    """
    Queues that held something, by name
    """
    simulated: bool | None = None
    """
    All of it was simulated: nothing was bought
    """
    step_hours: Annotated[float, Field(alias='stepHours')]
    """
    Length of a step, hours
    """


class Visit(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    kind: str
    number: int
    port: int | None = None


class VisitEnded(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    exit: int | None = None
    reason: str | None = None


class Visited(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    """
    The attempt, for the paths of the visit
    """
    job: str
    """
    Job ID
    """
    visit: int
    """
    Number of the visit within the attempt
    """
    within: str | None = None
    """
    How long it may take until the machine learns of the visit: 5m0s; empty if it does at once
    """


class Visits(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    visits: list[Visit]


class Waiting(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    job: str
    min_plan: Annotated[int | None, Field(alias='minPlan')] = None
    priority: int | None = None
    since: AwareDatetime
    task: int


class WaitingList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    waiting: list[Waiting]
    """
    The tasks, the next one first
    """


class Want(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    for_: Annotated[int | None, Field(alias='for')] = None
    new: bool | None = None
    number: int | None = None
    op: str
    range: Range | None = None
    size: int | None = None
    sum: Sum | None = None
    upload: str | None = None
    uri: str


class Wants(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    wants: list[Want] | None


class WhyTask(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    ahead: int
    """
    Tasks of other jobs before it by priority and age, without those of suspended jobs
    """
    reasons: list[str]
    """
    What prevents its start, the most important first
    """
    since: AwareDatetime
    """
    When it could have started, or its job was resumed
    """
    task: str
    """
    Name of the task
    """


class Worker(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    capacity: PoolCapacity
    machine: str
    pool: str
    token: PoolToken
    type: str


class State(Enum):
    wanted = 'wanted'
    admitted = 'admitted'
    booting = 'booting'
    up = 'up'
    draining = 'draining'
    ending = 'ending'
    gone = 'gone'


class WorkerView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    boot_usd: Annotated[float, Field(alias='bootUSD')]
    """
    Part of usd before it was up
    """
    id: Annotated[str, Field(examples=['train-4k7q2a.3.1'])]
    """
    The attempt that it was bought for, and #RANK if that has several machines
    """
    idle_usd: Annotated[float, Field(alias='idleUSD')]
    """
    Part of usd for vCPUs that no task held once it was up
    """
    job: Annotated[str, Field(examples=['train-4k7q2a'])]
    offer: Annotated[str, Field(examples=['aws/us-east-1/use1-az1/c7a.large/spot'])]
    simulated: bool | None = None
    """
    Nothing was bought: its cost is an estimate
    """
    since: AwareDatetime
    state: State
    task: Annotated[str, Field(examples=['worker[0]'])]
    """
    The task of that attempt; worker[N] for a machine that tasks share
    """
    tasks: int
    """
    How many attempts of tasks have run on it, or run now
    """
    until: AwareDatetime | None = None
    """
    When it ended
    """
    up: AwareDatetime | None = None
    """
    When it was ready for work
    """
    usd: float
    """
    Its cost so far
    """
    utilisation: Annotated[float, Field(ge=0.0, le=1.0)]
    """
    Part of its vCPU hours that tasks held, boot included
    """
    worker: Annotated[str | None, Field(examples=['w3-1'])] = None
    """
    If tasks share it: its name in the hosts of their attempts
    """


class TesExecutor(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    command: Annotated[list[str], Field(min_length=1)]
    env: dict[str, str] | None = None
    ignore_error: bool | None = None
    image: str
    """
    The container's image; all executors of a task have the same one
    """
    stderr: str | None = None
    stdin: str | None = None
    stdout: str | None = None
    workdir: str | None = None


class TesExecutorLog(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    end_time: str | None = None
    exit_code: int
    start_time: str | None = None
    stderr: str | None = None
    """
    The last 16 KiB
    """
    stdout: str | None = None
    """
    The last 16 KiB
    """


class Type(Enum):
    file = 'FILE'
    directory = 'DIRECTORY'


class TesInput(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    content: str | None = None
    """
    Content of the file, instead of a URL
    """
    description: str | None = None
    name: str | None = None
    path: str
    """
    Absolute, in the container
    """
    streamable: bool | None = None
    """
    Accepted, but the file is copied anyway
    """
    type: Type | None = None
    url: str | None = None
    """
    s3://, gs://, azblob://, file:// or an absolute path
    """


class TesOutput(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    description: str | None = None
    name: str | None = None
    path: str
    """
    Absolute, in the container; may have wildcards, with a path_prefix
    """
    path_prefix: str | None = None
    """
    Removed from paths that match wildcards
    """
    type: Type | None = None
    url: str
    """
    Where it is copied to
    """


class TesOutputFileLog(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    path: str
    size_bytes: str
    """
    A number, as text
    """
    url: str


class TesResources(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    backend_parameters: dict[str, str] | None = None
    backend_parameters_strict: bool | None = None
    cpu_cores: Annotated[int | None, Field(ge=0, le=100000)] = None
    disk_gb: Annotated[float | None, Field(ge=0.0, le=1000000000.0)] = None
    """
    10^9 bytes
    """
    preemptible: bool | None = None
    """
    false requires on-demand machines; otherwise the broker chooses
    """
    ram_gb: Annotated[float | None, Field(ge=0.0, le=1000000.0)] = None
    """
    10^9 bytes
    """
    zones: list[str] | None = None
    """
    Zones or regions, or CLOUD:REGION; any of them
    """


class TesTaskLog(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    end_time: str | None = None
    logs: list[TesExecutorLog]
    metadata: dict[str, str] | None = None
    outputs: list[TesOutputFileLog]
    start_time: str | None = None
    system_logs: list[str] | None = None


class Attempt(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    admitted: AwareDatetime
    bought: Bought | None = None
    doubt: str | None = None
    doubted_at: Annotated[AwareDatetime | None, Field(alias='doubtedAt')] = None
    egress_usd: Annotated[float | None, Field(alias='egressUSD')] = None
    ended: AwareDatetime | None = None
    failure: Failure | None = None
    hold: dict[str, float] | None = None
    hosts: list[str] | None = None
    instead: Instead | None = None
    job: str
    kept_until: Annotated[AwareDatetime | None, Field(alias='keptUntil')] = None
    launched: AwareDatetime | None = None
    max_usd: Annotated[float | None, Field(alias='maxUSD')] = None
    monthly: bool | None = None
    nodes: int
    number: int
    offer: Offer
    offer_id: Annotated[str, Field(alias='offerID')]
    outcome: str | None = None
    place: str | None = None
    plan: int
    rate_usd: Annotated[float | None, Field(alias='rateUSD')] = None
    reason: str | None = None
    reserved_usd: Annotated[float | None, Field(alias='reservedUSD')] = None
    resumed: float | None = None
    resumed_from: Annotated[str | None, Field(alias='resumedFrom')] = None
    started: AwareDatetime | None = None
    surcharge_usd: Annotated[float | None, Field(alias='surchargeUSD')] = None
    task: int
    up: AwareDatetime | None = None
    usd: float | None = None
    vcpu: float
    wait_since: Annotated[AwareDatetime | None, Field(alias='waitSince')] = None
    wait_usd: Annotated[float | None, Field(alias='waitUSD')] = None


class ChunkMember(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    env: dict[str, str] | None = None
    inputs: list[Input] | None = None
    outputs: list[Output] | None = None
    prefix: str
    task: str


class CloudReport(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    account: str | None = None
    """
    Account, project or subscription that is billed
    """
    identity: str | None = None
    """
    The broker's identity at the cloud
    """
    machines: int
    """
    Running machines of the deployment
    """
    missing: list[CloudLack]
    """
    What prevents buying; empty if nothing does
    """
    name: str
    """
    Name of the cloud
    """
    played: bool | None = None
    """
    The cloud is simulated on the broker's computer: nothing is bought
    """
    quotas: list[CloudQuota] | None = None
    """
    Limits of the account
    """
    regions: list[str] | None = None
    """
    Regions in which the broker can buy
    """
    reserved: list[CloudReserved] | None = None
    """
    Capacity that the account already has
    """


class CloudReports(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    clouds: list[CloudReport]
    """
    The clouds that the broker buys on
    """


class FrontierView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    complete: bool
    """
    It is proven that there are no other points
    """
    millis: float
    """
    Computing time, milliseconds
    """
    name: str
    """
    Name of the job
    """
    points: list[FrontierPoint]
    """
    From the fastest and most expensive to the slowest and cheapest; empty if no plan meets the limits
    """
    unexplored: list[Gap]
    """
    Between which points there may be others
    """


class Gang(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    chief: bool | None = None
    first: int | None = None
    framework: str | None = None
    key: Annotated[
        str | None, Field(json_schema_extra={'contentEncoding': 'base64'})
    ] = None
    least: int | None = None
    members: list[Member] | None
    most: int | None = None
    name: str | None = None
    role: str


class Hello(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    address: str
    nonce: str | None = None
    proof: Proof | None = None
    rank: int | None = None
    version: str


class History(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    at: AwareDatetime | None = None
    """
    When the last of them ended
    """
    boots: dict[str, RunTimes] | None = None
    job: str
    """
    Name of the jobs
    """
    tasks: dict[str, dict[str, RunTimes]]


class JobDetail(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempts: list[Attempt] | None
    """
    Every attempt: what was bought and how it ended
    """
    budget_usd: Annotated[float | None, Field(alias='budgetUSD')] = None
    """
    Maximum cost, USD
    """
    deadline: AwareDatetime | None = None
    """
    When it must be finished
    """
    expires: AwareDatetime | None = None
    """
    When its records, logs and outputs are removed, if it has finished and is not kept forever
    """
    finished: AwareDatetime | None = None
    """
    When it finished
    """
    forecast_usd: Annotated[float | None, Field(alias='forecastUSD')] = None
    """
    Expected cost when it ends, USD: what it has spent, and its remaining work by the current plan. Not in lists, and not for services
    """
    id: str
    """
    Job ID
    """
    late: bool | None = None
    """
    The deadline cannot be met or was missed
    """
    name: str
    """
    Name its author gave it
    """
    next: int | None = None
    """
    If there are more tasks: index of the next one, the value of after for the next call
    """
    no_broker: Annotated[bool | None, Field(alias='noBroker')] = None
    """
    It is unfinished and no broker runs for it: it does not continue, and its state is that of the time when the broker ended. Only in the output of the command line
    """
    objective: str
    """
    cost, makespan or weights
    """
    on_demand_usd: Annotated[float, Field(alias='onDemandUSD')]
    """
    Cost of the same work on the cheapest on-demand machines, including data transfer, USD
    """
    plan: int
    """
    Version of the current plan, 0 before the first
    """
    planned_usd: Annotated[float, Field(alias='plannedUSD')]
    """
    Expected cost by the first plan, USD
    """
    plans: list[PlanHead] | None
    """
    The plans; the last one is current
    """
    queue: str
    """
    Queue it runs in
    """
    reason: str | None = None
    """
    Why it failed, or what it waits for
    """
    services: list[ServiceView] | None = None
    """
    The services in the order of the file; only with the first page of tasks
    """
    simulated: bool | None = None
    """
    Its machines are simulated: nothing is bought, and amounts of money are estimates
    """
    source: str | None = None
    """
    Where it came from
    """
    spent_usd: Annotated[float, Field(alias='spentUSD')]
    """
    Cost so far, including running machines, USD
    """
    state: str
    """
    planning, waiting, running, suspending, suspended, ending, succeeded, failed or cancelled
    """
    submitted: AwareDatetime
    """
    When it was submitted
    """
    succeeded: int
    """
    Number of succeeded tasks
    """
    suspended: Suspension | None = None
    """
    If it is suspended: by whom, since when and why
    """
    task_list: Annotated[list[TaskView] | None, Field(alias='taskList')]
    """
    The tasks in the order of the file
    """
    tasks: int
    """
    Number of tasks
    """
    time_scale: Annotated[float | None, Field(alias='timeScale')] = None
    """
    If it is simulated in compressed time: wall seconds per second of the job
    """
    update: Update | None = None
    """
    The last update of its services
    """


class JobView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    budget_usd: Annotated[float | None, Field(alias='budgetUSD')] = None
    """
    Maximum cost, USD
    """
    deadline: AwareDatetime | None = None
    """
    When it must be finished
    """
    expires: AwareDatetime | None = None
    """
    When its records, logs and outputs are removed, if it has finished and is not kept forever
    """
    finished: AwareDatetime | None = None
    """
    When it finished
    """
    forecast_usd: Annotated[float | None, Field(alias='forecastUSD')] = None
    """
    Expected cost when it ends, USD: what it has spent, and its remaining work by the current plan. Not in lists, and not for services
    """
    id: str
    """
    Job ID
    """
    late: bool | None = None
    """
    The deadline cannot be met or was missed
    """
    name: str
    """
    Name its author gave it
    """
    no_broker: Annotated[bool | None, Field(alias='noBroker')] = None
    """
    It is unfinished and no broker runs for it: it does not continue, and its state is that of the time when the broker ended. Only in the output of the command line
    """
    objective: str
    """
    cost, makespan or weights
    """
    on_demand_usd: Annotated[float, Field(alias='onDemandUSD')]
    """
    Cost of the same work on the cheapest on-demand machines, including data transfer, USD
    """
    plan: int
    """
    Version of the current plan, 0 before the first
    """
    planned_usd: Annotated[float, Field(alias='plannedUSD')]
    """
    Expected cost by the first plan, USD
    """
    queue: str
    """
    Queue it runs in
    """
    reason: str | None = None
    """
    Why it failed, or what it waits for
    """
    simulated: bool | None = None
    """
    Its machines are simulated: nothing is bought, and amounts of money are estimates
    """
    source: str | None = None
    """
    Where it came from
    """
    spent_usd: Annotated[float, Field(alias='spentUSD')]
    """
    Cost so far, including running machines, USD
    """
    state: str
    """
    planning, waiting, running, suspending, suspended, ending, succeeded, failed or cancelled
    """
    submitted: AwareDatetime
    """
    When it was submitted
    """
    succeeded: int
    """
    Number of succeeded tasks
    """
    suspended: Suspension | None = None
    """
    If it is suspended: by whom, since when and why
    """
    tasks: int
    """
    Number of tasks
    """
    time_scale: Annotated[float | None, Field(alias='timeScale')] = None
    """
    If it is simulated in compressed time: wall seconds per second of the job
    """
    update: Update | None = None
    """
    The last update of its services
    """


class MachineList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    machines: list[WorkerView]
    now: AwareDatetime
    partial: bool | None = None
    """
    There are more machines of older jobs
    """


class MarketList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    markets: list[MarketView]
    """
    Spot markets, by name
    """
    next: str | None = None
    """
    If the list is incomplete: the value of after for the next call
    """
    now: AwareDatetime
    """
    The broker's clock
    """


class MissingInputBody(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    pieces: Annotated[list[Piece] | None, Field(max_length=1000, min_length=1)]
    """
    The pieces of the pack
    """


class Mounted(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    credentials: list[Credentials] | None
    program: Program | None = None


class PlanTask(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    after: list[int] | None = None
    """
    Indexes of the tasks it waits for
    """
    estimator: str | None = None
    """
    Source of the run time, as in time.from
    """
    hours: float | None = None
    """
    Expected time, hours
    """
    name: str
    """
    Name of the task
    """
    nodes: int
    """
    Number of machines
    """
    offer: str | None = None
    """
    Where it would run
    """
    runners: list[Runner] | None = None
    """
    The next best places, and how much each would add to the plan
    """
    service: str | None = None
    """
    The service of which it is a replica; since it does not end, one hour is counted
    """
    time: Figure | None = None
    """
    Assumed run time there, and its source
    """
    usd: float | None = None
    """
    Expected cost, USD
    """
    usd_per_hour: Annotated[float | None, Field(alias='usdPerHour')] = None
    """
    Price of one machine, USD per hour
    """


class PlanView(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    bound: float
    """
    No plan is better than this, in the objective's unit
    """
    deadline_hours: Annotated[float | None, Field(alias='deadlineHours')] = None
    """
    The time in which it must finish, hours; 0 without a deadline
    """
    hours: float
    """
    Expected time from start to end, hours
    """
    late: bool | None = None
    """
    The deadline cannot be met; this is the fastest plan
    """
    message: str | None = None
    """
    Why there is no plan
    """
    millis: float
    """
    Planning time, milliseconds
    """
    name: str
    """
    Name of the job
    """
    notes: list[str] | None = None
    """
    Rules that the plan does not enforce, offers that it leaves out, and tasks that their timeout would end
    """
    objective: str
    """
    cost, makespan or weights
    """
    on_demand_usd: Annotated[float, Field(alias='onDemandUSD')]
    """
    Cost of the same work on the cheapest on-demand machines, including data transfer, USD
    """
    simulated: bool | None = None
    """
    The broker's machines are simulated: nothing would be bought
    """
    status: Status
    """
    optimal is proven; for feasible, bound shows how far from optimal it can be
    """
    tasks: list[PlanTask]
    """
    The tasks in the order of the file
    """
    usd: float
    """
    Expected cost, USD
    """
    warnings: list[str] | None = None
    """
    Settings of the file that are read but have no effect
    """


class PoolList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    now: AwareDatetime
    """
    The broker's clock
    """
    pools: list[PoolView]
    """
    Pools by name, with their machines
    """


class PoolOrders(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    after: int
    """
    Time until the next sync, in nanoseconds
    """
    agents: list[PoolOrder]
    """
    The agents that should run, and no others
    """
    draining: bool | None = None
    """
    The broker will send no new agents
    """
    gather: int | None = None
    """
    How long the machine waits after the end of an agent before it syncs, in nanoseconds
    """
    leave: bool | None = None
    """
    The machine is a worker that is not needed any more: it ends
    """
    token: PoolToken | None = None
    """
    A new token, if the current one is getting old
    """


class PriceList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    now: AwareDatetime
    """
    The broker's clock
    """
    series: list[PriceSeries]
    """
    One for each market, in the order of the request
    """


class Queue(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    bought: Bought | None = None
    claims: list[Claim] | None = None
    closed: bool | None = None
    configured: bool | None = None
    description: str | None = None
    deserved: dict[str, float] | None = None
    deserved_vcpu: Annotated[float | None, Field(alias='deservedVCPU')] = None
    guaranteed: dict[str, float] | None = None
    guaranteed_vcpu: Annotated[float | None, Field(alias='guaranteedVCPU')] = None
    heard: list[str] | None = None
    inner: bool | None = None
    keep: str | None = None
    max: dict[str, float] | None = None
    max_running: Annotated[int | None, Field(alias='maxRunning')] = None
    max_vcpu: Annotated[float | None, Field(alias='maxVCPU')] = None
    month: Month | None = None
    name: str
    parent: str | None = None
    past: Past | None = None
    preempt: bool | None = None
    running: int
    spaces: list[Space] | None = None
    suspended: Suspension | None = None
    use: dict[str, float] | None = None
    vcpu: float
    weight: int | None = None
    workers: int | None = None


class QueueList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    queues: list[Queue]
    """
    Queues that were configured or used
    """
    simulated: bool | None = None
    """
    The broker's machines are simulated: nothing is bought, and amounts of money are estimates
    """
    waiting: dict[str, int] | None = None
    """
    If requested: the number of waiting tasks of each queue, counted up to 1000; queues without any are left out
    """


class Story(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    choices: list[TaskWhy] | None = None
    """
    For each task the current choice and the runners-up
    """
    entries: list[Entry] | None
    """
    What happened, in chronological order
    """
    job: JobView
    """
    The job
    """
    next: int | None = None
    """
    If there are more tasks: index of the next one, the value of after for the next call
    """


class Submitted(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    budget_usd: Annotated[float | None, Field(alias='budgetUSD')] = None
    """
    Maximum cost, USD
    """
    deadline: AwareDatetime | None = None
    """
    When it must be finished
    """
    expires: AwareDatetime | None = None
    """
    When its records, logs and outputs are removed, if it has finished and is not kept forever
    """
    finished: AwareDatetime | None = None
    """
    When it finished
    """
    forecast_usd: Annotated[float | None, Field(alias='forecastUSD')] = None
    """
    Expected cost when it ends, USD: what it has spent, and its remaining work by the current plan. Not in lists, and not for services
    """
    id: str
    """
    Job ID
    """
    late: bool | None = None
    """
    The deadline cannot be met or was missed
    """
    name: str
    """
    Name its author gave it
    """
    no_broker: Annotated[bool | None, Field(alias='noBroker')] = None
    """
    It is unfinished and no broker runs for it: it does not continue, and its state is that of the time when the broker ended. Only in the output of the command line
    """
    objective: str
    """
    cost, makespan or weights
    """
    on_demand_usd: Annotated[float, Field(alias='onDemandUSD')]
    """
    Cost of the same work on the cheapest on-demand machines, including data transfer, USD
    """
    plan: int
    """
    Version of the current plan, 0 before the first
    """
    planned_usd: Annotated[float, Field(alias='plannedUSD')]
    """
    Expected cost by the first plan, USD
    """
    queue: str
    """
    Queue it runs in
    """
    reason: str | None = None
    """
    Why it failed, or what it waits for
    """
    simulated: bool | None = None
    """
    Its machines are simulated: nothing is bought, and amounts of money are estimates
    """
    source: str | None = None
    """
    Where it came from
    """
    spent_usd: Annotated[float, Field(alias='spentUSD')]
    """
    Cost so far, including running machines, USD
    """
    state: str
    """
    planning, waiting, running, suspending, suspended, ending, succeeded, failed or cancelled
    """
    submitted: AwareDatetime
    """
    When it was submitted
    """
    succeeded: int
    """
    Number of succeeded tasks
    """
    suspended: Suspension | None = None
    """
    If it is suspended: by whom, since when and why
    """
    tasks: int
    """
    Number of tasks
    """
    time_scale: Annotated[float | None, Field(alias='timeScale')] = None
    """
    If it is simulated in compressed time: wall seconds per second of the job
    """
    update: Update | None = None
    """
    The last update of its services
    """
    warnings: list[str] | None = None
    """
    Settings of the file that are read but have no effect
    """


class TesInfo(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    id: str
    name: str
    organization: dict[str, str]
    storage: list[str]
    tes_resources_backend_parameters: Annotated[
        list[str], Field(alias='tesResources_backend_parameters')
    ]
    type: TesType
    version: str


class Upload(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempt: str
    parts: list[Uploaded] | None = None
    step: str
    upload: str | None = None
    uri: str


class Why(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    job: str
    """
    ID of the job
    """
    queue: str
    """
    Queue it waits in
    """
    reason: str
    """
    Why it waits, in a sentence; or that no task of it waits for the queue
    """
    state: str
    """
    State of the job
    """
    tasks: list[WhyTask]
    """
    Its tasks that wait in the queue, the next one first; at most 20
    """
    waiting: int
    """
    Number of its tasks that wait in the queue
    """


class TesTask(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    creation_time: str | None = None
    """
    RFC 3339
    """
    description: str | None = None
    executors: Annotated[list[TesExecutor], Field(min_length=1)]
    id: str | None = None
    """
    Set by the server
    """
    inputs: list[TesInput] | None = None
    logs: list[TesTaskLog] | None = None
    """
    One for each attempt
    """
    name: str | None = None
    """
    For people and for filters
    """
    outputs: list[TesOutput] | None = None
    resources: TesResources | None = None
    state: str | None = None
    """
    Set by the server
    """
    tags: dict[str, str] | None = None
    volumes: list[str] | None = None
    """
    Directories that executors share
    """


class Assignment(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    accelerators: float | None = None
    attempt: str
    checkpoint: Checkpoint | None = None
    chunk: list[ChunkMember] | None = None
    env: dict[str, str] | None = None
    exchange: Annotated[
        str | None, Field(json_schema_extra={'contentEncoding': 'base64'})
    ] = None
    first_has_outputs: Annotated[bool | None, Field(alias='firstHasOutputs')] = None
    gang: Gang | None = None
    image: str | None = None
    inputs: list[Input] | None = None
    job: str
    job_name: Annotated[str, Field(alias='jobName')]
    keep_on_failure: Annotated[int | None, Field(alias='keepOnFailure')] = None
    listed: dict[str, str] | None = None
    login: bool | None = None
    memory_bytes: Annotated[int | None, Field(alias='memoryBytes')] = None
    nodes: list[str] | None
    nothing: list[str] | None = None
    only: dict[str, list[str] | None] | None = None
    outputs: list[Output] | None = None
    pace: Pace | None = None
    packs: str | None = None
    parents: dict[str, str] | None = None
    prefix: str
    progress: float | None = None
    refused: str | None = None
    run: str | None = None
    secrets: dict[str, str] | None = None
    service: Service | None = None
    setup: str | None = None
    stand_in: Annotated[int | None, Field(alias='standIn')] = None
    store: str
    task: str
    timeout: int | None = None
    vcpus: float | None = None
    workdir: str | None = None
    worker: Worker | None = None


class JobList(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    jobs: list[JobView]
    """
    The jobs, the newest first
    """
    next: str | None = None
    """
    If the list is incomplete: the value of after for the next call
    """
    now: AwareDatetime
    """
    The broker's clock
    """


class JobUpdate(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    attempts: list[Attempt] | None = None
    """
    The attempts, or those that changed, by task and number
    """
    full: bool
    """
    Everything, rather than what changed
    """
    job: JobView
    """
    The job
    """
    now: AwareDatetime
    """
    The broker's clock
    """
    plans: list[PlanHead] | None = None
    """
    All plans, if there is a new one
    """
    tasks: list[TaskView] | None = None
    """
    The tasks, or those that changed, by index
    """


class TesTasks(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    next_page_token: str | None = None
    tasks: list[TesTask]


class Work(BaseModel):
    model_config = ConfigDict(
        extra='allow',
        populate_by_name=True,
    )
    assignment: Assignment | None = None
    command: str
    notice: int | None = None
    now: bool | None = None
    pause: int | None = None
    seq: int
    token: str | None = None
    until: AwareDatetime | None = None
    visits: int | None = None
