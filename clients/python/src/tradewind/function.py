"""Functions as tasks.

A function's source is sent with the job, and its arguments as JSON. It must import its modules itself, and the machine
needs Python. Its result is stored as JSON. A task passed to another task is replaced by its result:

    @task(time="5m", resources=Resources(cpus="4+"))
    def square(n: int) -> int:
        return n * n

    @task(time="1m")
    def add(a: int, b: int) -> int:
        return a + b

    run = Job("sum", add(square(3), square(4))).submit()
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from .job import After, Task

P = ParamSpec("P")
R = TypeVar("R")

RESULT = "result.json"
"""The file in $TRADEWIND_OUTPUT with a function's result."""

_KEY = "$tradewind.task"  # in arguments: the name of the task with the result

_RUNNER = """\
import __future__, json, linecache, os, sys

_text, _file = "\\n" * (%(line)d - 1) + %(source)r, %(file)r
linecache.cache[_file] = (len(_text), None, _text.splitlines(True), _file)  # for tracebacks
exec(compile(_text, _file, "exec", __future__.annotations.compiler_flag))

def _shown(kind, value, trace):
    while trace and trace.tb_frame.f_code.co_filename == "<stdin>":
        trace = trace.tb_next
    sys.__excepthook__(kind, value.with_traceback(trace), trace)

sys.excepthook = _shown

def _passed(value):
    if isinstance(value, dict):
        if list(value) == ["$tradewind.task"]:
            with open(os.path.join(os.environ["TRADEWIND_INPUTS"], value["$tradewind.task"], "result.json")) as f:
                return json.load(f)
        return {k: _passed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_passed(v) for v in value]
    return value

_args, _kwargs = _passed(json.loads(%(arguments)r))
_result = %(name)s(*_args, **_kwargs)
_written = json.dumps(_result)
if int(os.environ.get("TRADEWIND_NODE_RANK", "0")) == 0:
    with open(os.path.join(os.environ["TRADEWIND_OUTPUT"], "result.json"), "w") as f:
        f.write(_written)
"""


class Returned(Task):
    """A call of a task function. As an argument of another call it stands for the function's result."""


@dataclass
class TaskFunction(Generic[P, R]):
    """A function whose calls are tasks. `f.local(…)` calls it locally."""

    local: Callable[P, R]
    settings: dict[str, Any]
    python: str
    _count: Iterator[int]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Returns a task that calls the function, named like the function, with a number from the second call on.
        The declared type is Any, because a task passed to another call stands for its result."""
        try:
            inspect.signature(self.local).bind(*args, **kwargs)  # TypeError here, not on a machine
        except TypeError as wrong:
            raise TypeError(f"{self.local.__name__}(): {wrong}") from None
        n = next(self._count)
        name = self.settings.get("name") or self.local.__name__.replace("_", "-").strip("-")
        return self._task(name if n == 1 else f"{name}-{n}", args, kwargs)

    def named(self, name: str) -> TaskFunction[P, R]:
        """The same function with another name for its tasks."""
        return replace(self, settings={**self.settings, "name": name}, _count=itertools.count(1))

    def _task(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Returned:
        after: list[Task | After] = []

        def written(value: Any) -> Any:
            if isinstance(value, Returned):
                if value not in after:
                    after.append(value)
                return {_KEY: value.name}
            if isinstance(value, dict):
                return {k: written(v) for k, v in value.items()}
            if isinstance(value, (list, tuple)):
                return [written(v) for v in value]
            return value

        try:
            arguments = json.dumps([written(args), written(kwargs)])
        except TypeError as err:
            raise TypeError(f"arguments of the task {name!r} go as JSON: {err}") from err
        code = source(self.local)
        text = _RUNNER % {"arguments": arguments, "name": self.local.__name__, **code}
        end = "TRADEWIND_END_OF_PYTHON"
        settings = {k: v for k, v in self.settings.items() if k != "name"}
        return Returned(name, run=f"exec {self.python} - <<'{end}'\n{text}{end}\n", after=after, **settings)


@overload
def task(function: Callable[P, R], /) -> TaskFunction[P, R]: ...
@overload
def task(*, python: str = ..., **settings: Any) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...
def task(function: Callable[P, R] | None = None, /, *, python: str = "python3", **settings: Any) -> Any:
    """Turns a function into a task. Settings are the fields of Task; python is the machine's interpreter."""

    def made(f: Callable[P, R]) -> TaskFunction[P, R]:
        source(f)  # fails here if there is none
        wrapper = TaskFunction(f, settings, python, itertools.count(1))
        update_wrapper(wrapper, f)
        return wrapper

    return made(function) if function is not None else made


def source(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns a function's source without decorators, with the file and the line where it begins. Raises TypeError if
    there is none, or if it uses outer variables."""
    name = getattr(function, "__name__", repr(function))
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<function>"
        text = textwrap.dedent("".join(lines))
    except (OSError, TypeError) as err:
        raise TypeError(f"{name} has no source that could be sent to a machine: {err}") from err
    tree = ast.parse(text)
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"{name} is no plain function: a task is made of `def`")
    if function.__code__.co_freevars:
        free = ", ".join(function.__code__.co_freevars)
        raise TypeError(f"{name} uses {free} from around it: pass it as an argument")
    # The machine does not evaluate annotations, because their names may not exist there. It compiles the lines as if
    # they were in the file, so that a traceback has the user's lines.
    body = "\n".join(text.splitlines()[node.lineno - 1 :]) + "\n"
    return {"source": body, "file": file, "line": max(first, 1) + node.lineno - 1}
