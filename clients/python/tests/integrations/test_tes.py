"""py-tes, the official client of GA4GH TES, through a task's whole life."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tradewind import Client, Endpoint

tes = pytest.importorskip("tes")

IMAGE = "localhost/tradewind-test:clients"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, containers: dict[str, str]) -> str:
    """An image that contains only busybox, so that the test needs no registry."""
    podman, busybox = shutil.which("podman"), shutil.which("busybox")
    if podman is None or busybox is None:
        pytest.skip("needs podman and a static busybox: scripts/packages.sh")
    folder = tmp_path_factory.mktemp("image")
    shutil.copy(busybox, folder / "busybox")
    (folder / "Dockerfile").write_text(
        'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "--install", "-s", "/bin"]\nENV PATH=/bin\n'
    )
    built = subprocess.run(
        [podman, "build", "-q", "-t", IMAGE, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **containers},
    )
    if built.returncode != 0:
        pytest.skip(f"no image can be built here: {built.stderr[-300:]}")
    return IMAGE


@pytest.fixture
def client(state: Path) -> Any:
    found = Endpoint.find(state=state)
    return tes.HTTPClient(found.url + "/ga4gh/tes", token=found.token, timeout=60)


def test_a_task_lives_and_ends(client: Any, image: str, tmp_path: Path) -> None:
    assert "Tradewind" in client.get_service_info().name
    (tmp_path / "words").write_text("b\na\n")
    task = tes.Task(
        name="sorted",
        executors=[
            tes.Executor(image=image, command=["sort", "/in/words"], stdout="/out/sorted"),
            tes.Executor(image=image, command=["sh", "-c", "cat /in/more; echo told >&2"]),
        ],
        inputs=[
            tes.Input(url=f"file://{tmp_path}/words", path="/in/words"),
            tes.Input(content="and more", path="/in/more"),
        ],
        outputs=[tes.Output(path="/out/sorted", url=f"file://{tmp_path}/sorted")],
        tags={"by": "py-tes"},
    )
    made = client.create_task(task)
    done = client.wait(made, timeout=120)
    assert done.state == "COMPLETE", client.get_task(made, "FULL").as_json()
    assert (tmp_path / "sorted").read_text() == "a\nb\n"
    whole = client.get_task(made, view="FULL")
    assert [log.exit_code for log in whole.logs[0].logs] == [0, 0]
    assert whole.logs[0].logs[1].stdout == "and more" and whole.logs[0].logs[1].stderr == "told\n"
    assert whole.tags == {"by": "py-tes"} and whole.name == "sorted"
    assert made in [t.id for t in client.list_tasks().tasks]


def test_a_task_that_fails_tells_its_exit_code(client: Any, image: str) -> None:
    made = client.create_task(tes.Task(executors=[tes.Executor(image=image, command=["sh", "-c", "exit 7"])]))
    assert client.wait(made, timeout=120).state == "EXECUTOR_ERROR"
    assert client.get_task(made, view="FULL").logs[-1].logs[-1].exit_code == 7


def test_a_task_is_cancelled(client: Any, image: str, state: Path) -> None:
    made = client.create_task(tes.Task(executors=[tes.Executor(image=image, command=["sleep", "600"])]))
    client.cancel_task(made)
    with Client(state=state) as broker:  # py-tes treats CANCELING as finished
        broker.run(made).wait(check=False)
    assert client.get_task(made).state == "CANCELED"
