"""Shows a job: in a notebook as a table, elsewhere as lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from html import escape
from importlib import import_module
from typing import Any

from ._call import OVER, merged
from .models import JobUpdate, JobView, TaskView

MANY = 200
"""Maximum tasks in a table. Tasks that are neither finished nor waiting come first."""

_COLOUR = {"succeeded": "#1a7f37", "failed": "#cf222e", "cancelled": "#6e7781", "running": "#0969da"}


def html(job: JobView, tasks: Iterable[TaskView]) -> str:
    """A job as a table."""
    tasks = list(tasks)
    shown = sorted(tasks, key=lambda t: (t.state in ("succeeded", "waiting"), t.index))[:MANY]
    shown.sort(key=lambda t: t.index)
    rows = "".join(_row(t) for t in shown)
    left = f"<p>and {len(tasks) - len(shown)} more tasks</p>" if len(tasks) > len(shown) else ""
    reason = f"<p>{escape(job.reason)}</p>" if job.reason else ""
    head = "".join(
        f'<th scope="col" style="text-align:left">{h}</th>' for h in ("task", "state", "where", "attempts", "USD")
    )
    return (
        f"<div><p><b>{escape(job.name)}</b> <code>{escape(job.id)}</code> {_state(job.state)}, "
        f"{job.succeeded} of {job.tasks} tasks, {job.spent_usd:.4f} USD (planned {job.planned_usd:.4f}, "
        f"on demand {job.on_demand_usd:.4f})</p>{reason}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{left}</div>"
    )


def _row(t: TaskView) -> str:
    why = t.reason or t.waits
    note = f"<br><small>{escape(why)}</small>" if why else ""
    return (
        f"<tr><td>{escape(t.name)}</td><td>{_state(t.state)}{note}</td><td>{escape(t.offer or '')}</td>"
        f"<td>{t.attempts}</td><td>{t.usd:.4f}</td></tr>"
    )


def _state(state: str) -> str:
    return f'<span style="color:{_COLOUR.get(state, "inherit")}">{escape(state)}</span>'


class Lines:
    """Prints the progress of a job's tasks, one line for each change."""

    def __init__(self, say: Callable[[str], object] = print) -> None:
        self._say = say
        self._states: dict[int, str] = {}

    def show(self, update: JobUpdate) -> None:
        for t in sorted(update.tasks or [], key=lambda t: t.index):
            if self._states.get(t.index) != t.state and t.state != "waiting":
                where = f" on {t.offer}" if t.offer and t.state == "running" else ""
                self._say(f"{t.name}: {t.state}{where}" + (f": {t.reason}" if t.reason else ""))
            self._states[t.index] = t.state
        if update.job.state in OVER:
            self._say(f"{update.job.name}: {update.job.state}, {update.job.spent_usd:.4f} USD")


class Table:
    """Shows a job in a notebook and updates it with each change."""

    def __init__(self) -> None:
        self._tasks: dict[int, TaskView] = {}
        self._display: Any = None  # the display to update

    def show(self, update: JobUpdate) -> None:
        merged(self._tasks, update)
        display: Any = import_module("IPython.display")
        picture = display.HTML(html(update.job, self._tasks.values()))
        if self._display is None:
            self._display = display.display(picture, display_id=True)
        else:
            self._display.update(picture)


def live() -> Lines | Table:
    """The view for this environment."""
    return Table() if in_notebook() else Lines()


def in_notebook() -> bool:
    """Reports whether this runs in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})
