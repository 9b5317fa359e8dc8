"""The shared part of the integrations, with a running broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tradewind import Client, Job, Run, Task, Unreachable, _call, _orchestrated


def test_a_broker_that_is_away_is_waited_for(
    broker: Callable[..., AbstractContextManager[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_call, "RECONNECT_FOR", 0.5)
    monkeypatch.setattr(_orchestrated, "LOOK", 0.1)
    state, go = tmp_path / "state", tmp_path / "go"
    job = Job("away", Task("t", run=f"until [ -e {go} ]; do sleep 0.1; done", time="10m"))
    said: list[str] = []
    ended: list[str] = []
    runs: list[Run] = []
    away = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if "waiting for the broker" in text:
            away.set()

    def wait(client: Client) -> None:
        ended.append(_orchestrated.to_end(client, job, "one try", say, started=runs.append).state)

    with broker(state):
        client = Client(state=state)
        waiting = threading.Thread(target=wait, args=(client,))
        waiting.start()
        for update in client.follow(_first(runs)):
            if any(t.state == "running" for t in update.tasks or []):
                break
    assert away.wait(60), said
    go.touch()
    with broker(state):
        waiting.join(120)
        assert ended == ["succeeded"], said
        assert "the broker is back" in said
        assert [j.name for j in client.jobs()] == ["away"]
    client.close()


def test_patience_ends_without_a_cancelled_job(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_orchestrated, "PATIENCE", 0.0)
    monkeypatch.setattr(_orchestrated, "LOOK", 0.01)
    asked: list[str] = []

    def gone(run: Run) -> None:
        run.client = Client("http://127.0.0.1:9", token="nobody")
        asked.append(run.id)

    with pytest.raises(Unreachable, match="may still run there"):
        _orchestrated.to_end(client, Job("on", Task("t", run="true", time="1m")), "k", print, started=gone)
    assert client.run(asked[0]).wait().state == "succeeded"


def _first(runs: list[Run]) -> str:
    while not runs:
        threading.Event().wait(0.05)
    return runs[0].id
