"""Shared by the tests of workflow engines: an image with real tools, an emulated S3, and a scenario of failures."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tradewind import Endpoint

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = Path(os.environ.get("TRADEWIND_BIN", ROOT / "bin" / "tradewind"))

INTERRUPTED = """rules:
  # Some spot machines are preempted during their tasks, soon after their purchase: 5m are 3 seconds here.
  - match: {market: spot}
    nth: 2
    preempt: {after: 5m, notice: 1m}
  - match: {market: spot}
    nth: 7-8
    preempt: {after: 5m, notice: 1m}
"""


@pytest.fixture(scope="session")
def genomics(containers: dict[str, str]) -> str:
    """The image of bwa, samtools, bcftools and Snakemake."""
    made = subprocess.run(
        [str(ROOT / "scripts" / "genomics-image.sh")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **containers},
    )
    if made.returncode == 3:
        pytest.skip(made.stderr.strip().splitlines()[-1])
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulated S3."""
    moto = ROOT / ".tools" / "venv" / "bin" / "moto_server"
    if not moto.exists():
        pytest.skip("there is no moto, which answers as S3: make emulators")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (tmp_path_factory.mktemp("moto") / "log").open("wb") as log:
        server = subprocess.Popen([str(moto), "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(url + "/moto-api/data.json").close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < until, "moto does not answer"
                time.sleep(0.2)
        yield url
    finally:
        server.terminate()
        server.wait(30)


@dataclass
class BadDay:
    """A broker whose machines are preempted."""

    url: str
    token: str

    def tasks(self) -> list[Any]:
        """All tasks, with the logs of their attempts."""
        import tes

        client, found, page = tes.HTTPClient(self.url, token=self.token, timeout=60), [], None
        while page != "":
            listed = client.list_tasks(view="BASIC", page_token=page)
            found += listed.tasks or []
            page = listed.next_page_token or ""
        return found

    def check(self, tasks: int) -> None:
        """Checks that this number of tasks is complete, that all ran on spot, and that some ran more than once."""
        found = self.tasks()
        assert [t.state for t in found] == ["COMPLETE"] * tasks, [(t.name, t.state) for t in found]
        attempts = [log for t in found for log in t.logs]
        assert all("spot" in log.metadata["offer"] for log in attempts), [log.metadata for log in attempts]
        again = [t.name for t in found if len(t.logs) > 1]
        assert again, "no machine was preempted"
        print(f"{tasks} tasks in {len(attempts)} attempts; interrupted: {', '.join(again)}")


@pytest.fixture
def forwarded(state: Path) -> Iterator[tuple[str, str]]:
    """The URL and the token of `tradewind tes`, which forwards to a broker."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRADEWIND_")}
    command = [str(PROGRAM), "tes", "--state", str(state)]
    proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert proxy.stdout is not None
    try:
        lines = [proxy.stdout.readline().split() for _ in range(3)]
        assert [line[:1] for line in lines[1:]] == [["url"], ["token"]], lines
        yield lines[1][1], lines[2][1]
    finally:
        proxy.terminate()
        proxy.wait(30)


@pytest.fixture
def bad_day(tmp_path: Path, broker: Callable[..., AbstractContextManager[Path]]) -> Iterator[BadDay]:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(INTERRUPTED)
    (tmp_path / "broker").mkdir()
    with broker(tmp_path / "broker" / "state", "--scenario", str(scenario), "--max-machines", "4") as state:
        found = Endpoint.find(state=state)
        yield BadDay(found.url + "/ga4gh/tes", str(found.token))
