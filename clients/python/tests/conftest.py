"""A real broker for the tests: bin/tradewind up, with its own state folder and a small time scale."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tradewind import Client

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("TRADEWIND_BIN", ROOT / "bin" / "tradewind"))


CONTAINERS = """[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
"""
"""The settings with which podman runs inside a container."""


@pytest.fixture(scope="session")
def containers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which podman runs here."""
    conf = tmp_path_factory.mktemp("containers") / "containers.conf"
    conf.write_text(CONTAINERS)
    return {"CONTAINERS_CONF": str(conf), "TRADEWIND_CONTAINER_ENGINE": "podman"}


@contextmanager
def running(folder: Path, containers: dict[str, str], *flags: str) -> Iterator[Path]:
    """A running broker with its state folder."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not there: make build")
    command = [str(PROGRAM), "up", "--state", str(folder), "--time-scale", "0.01", *flags]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRADEWIND_")}
    environment.update(containers)
    log = folder.parent / "up.log"
    with log.open("wb") as written:
        up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written, env=environment)
    assert up.stdout is not None
    try:
        assert up.stdout.readline(), log.read_text()  # it prints this line when it is ready
        yield folder
    finally:
        up.terminate()
        up.wait(30)


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory, containers: dict[str, str]) -> Iterator[Path]:
    """The state folder of a running broker."""
    with running(tmp_path_factory.mktemp("state"), containers) as folder:
        yield folder


@pytest.fixture(scope="session")
def broker(containers: dict[str, str]) -> Callable[..., AbstractContextManager[Path]]:
    """Starts another broker with the given state folder and additional flags."""
    return lambda folder, *flags: running(folder, containers, *flags)


@pytest.fixture
def client(state: Path) -> Iterator[Client]:
    with Client(state=state) as c:
        yield c
