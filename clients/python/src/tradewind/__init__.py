"""Submit batch jobs to a Tradewind broker, follow them, and see why they run where they do.

from tradewind import Job, Resources, Task

count = Task("count", run='seq 10 >"$TRADEWIND_OUTPUT/n"', resources=Resources(cpus="1+"), time="1m")
total = Task("total", run='paste -sd+ "$TRADEWIND_INPUTS/count/n" | bc', time="1m")
run = Job("sum", count >> total).submit()
print(run.wait().state, run.logs("total"))
"""

from ._endpoint import BrokerNotFound, Endpoint
from .asynchronous import AsyncClient, AsyncRun
from .client import Client, Run
from .errors import BrokerError, Infeasible, JobFailed, TradewindError, Unreachable
from .function import Returned, task
from .job import (
    After,
    Array,
    Checkpoint,
    Estimator,
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

__all__ = [
    "After",
    "Array",
    "AsyncClient",
    "AsyncRun",
    "BrokerError",
    "BrokerNotFound",
    "Checkpoint",
    "Client",
    "Endpoint",
    "Estimator",
    "From",
    "Gang",
    "Infeasible",
    "Input",
    "Job",
    "JobFailed",
    "Notify",
    "On",
    "Output",
    "Placement",
    "Reaction",
    "Readiness",
    "Repository",
    "Resources",
    "Returned",
    "Role",
    "Run",
    "Service",
    "Spark",
    "SparkService",
    "Task",
    "TradewindError",
    "Unreachable",
    "task",
]
__version__ = "0.1.0"
