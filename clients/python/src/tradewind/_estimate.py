"""Estimators: functions that compute the run times of tasks, evaluated here over the offers that fit."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any

from ._call import Call, file, offers
from .errors import TradewindError
from .job import Duration, Gang, Job, Task
from .models import FittingOffer, FittingOffers

_LEAST = timedelta(milliseconds=1)


def tables(job: Job) -> Generator[Call[Any], Any, dict[str, dict[str, Duration]]]:
    """Yields the calls that list the offers, and returns the times of the tasks with an estimator, by name. A task that
    no offer fits has an empty table: its plan says why."""
    known: dict[str, list[FittingOffer]] = {}
    made: dict[str, dict[str, Duration]] = {}
    for t in job.all_tasks():
        if not callable(t.time):
            continue
        if t.spark is not None or isinstance(t.gang, Gang):
            kind = "a Spark task" if t.spark is not None else "a gang with roles"
            raise TradewindError(f"tasks.{t.name}.time: {kind} cannot have a function (write times)")
        asked = Job(job.name, Task("task", run="true", resources=t.resources), regions=job.regions)
        key = json.dumps(asked.to_dict())
        if key not in known:
            answer: FittingOffers = yield offers(file(asked))
            known[key] = answer.offers
        made[t.name] = _table(t, known[key])
    return made


def _table(task: Task, fitting: Sequence[FittingOffer]) -> dict[str, Duration]:
    """The times of a task on the offers that fit."""
    assert callable(task.time)
    table: dict[str, Duration] = {}
    for offer in fitting:
        time = task.time(offer)
        if time is None:
            continue
        if isinstance(time, (int, float)) and not isinstance(time, bool):
            time = timedelta(hours=time)
        if not isinstance(time, (str, timedelta)) or isinstance(time, timedelta) and time <= timedelta():
            raise TradewindError(
                f"tasks.{task.name}.time: the function returned {time!r} for {offer.time_key} (return hours above 0, "
                'a timedelta or a text such as "2h"; None if the machine does not fit)'
            )
        table[offer.time_key] = max(time, _LEAST) if isinstance(time, timedelta) else time
    if fitting and not table:
        raise TradewindError(
            f"tasks.{task.name}.time: the function returned no time for any of the {len(fitting)} machine types that "
            "fit (return one, or change the resources)"
        )
    return table | {"default": "none"} if table else {}
