"""Nextflow with its executor for TES: a pipeline on spot machines, some of which are taken, and its failures."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tradewind import Endpoint

tes = pytest.importorskip("tes")
pytest_plugins = ("engines",)

ROOT = Path(__file__).resolve().parents[4]
INSTALLED = ROOT / ".tools" / "clients" / "nextflow"
PIPELINE = Path(__file__).with_name("nextflow")
PLUGIN = "nf-ga4gh", "1.3.0"
"""The executor. 1.3.0 is the last that the Nextflow of scripts/clients.sh takes."""

TEXTS, PIECES = 3, 4
TASKS = TEXTS + TEXTS * PIECES + TEXTS + 1


# What Nextflow's own launcher opens to it: without these it keeps nothing that -resume could find.
OPENED = ("java.lang", "java.io", "java.nio", "java.nio.file.spi", "java.net", "java.util", "java.util.regex")
OPENED += ("java.util.concurrent.locks", "java.util.concurrent.atomic", "jdk.internal.misc", "jdk.internal.vm")
OPENED += ("sun.nio.ch", "sun.nio.fs", *(f"sun.net.www.protocol.{p}" for p in ("http", "https", "ftp", "file")))


class Nextflow:
    """The real one, with its plugin."""

    def __init__(self, home: Path, plugins: Path) -> None:
        self.command = ["java", *(f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in OPENED)]
        self.command += ["-cp", f"{INSTALLED}/lib/*", "nextflow.cli.Launcher"]
        self.environment = {
            **os.environ,
            "NXF_HOME": str(home),
            "NXF_PLUGINS_DIR": str(plugins),
            "NXF_ANSI_LOG": "false",
            "NXF_DISABLE_CHECK_LATEST": "true",
        }

    def start(self, folder: Path, script: Path, config: str, *flags: str) -> subprocess.Popen[bytes]:
        """Starts a pipeline in a folder; what it prints goes to its file log."""
        folder.mkdir(exist_ok=True)
        (folder / "nextflow.config").write_text(config)
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*self.command, "run", str(script), *flags],
                cwd=folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
            )

    def run(self, folder: Path, script: Path, config: str, *flags: str) -> tuple[int, str]:
        """Runs a pipeline to its end, and returns its exit code and output."""
        before = len((folder / "log").read_text()) if (folder / "log").exists() else 0
        code = self.start(folder, script, config, *flags).wait(900)
        return code, (folder / "log").read_text()[before:]


@pytest.fixture(scope="session")
def nextflow(tmp_path_factory: pytest.TempPathFactory) -> Nextflow:
    """Nextflow with its plugin, which it downloads or finds in the folder that NXF_PLUGINS_DIR names."""
    home = tmp_path_factory.mktemp("nextflow")
    name, version = PLUGIN
    plugins = Path(os.environ.get("NXF_PLUGINS_DIR", INSTALLED / "plugins"))
    found = Nextflow(home, plugins)
    if not (plugins / f"{name}-{version}").exists():
        plugins.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(
            [*found.command, "plugin", "install", f"{name}@{version}"],
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
            env=found.environment,
        )
        if not (plugins / f"{name}-{version}").exists():
            said = (fetched.stdout + fetched.stderr).strip().splitlines() or ["no reason given"]
            pytest.skip(
                f"Nextflow cannot fetch its plugin {name} {version} ({said[-1]}): "
                "set NXF_PLUGINS_DIR to a folder that has it"
            )
    found.environment["NXF_OFFLINE"] = "true"  # no more downloads
    return found


def by_tes(url: str, token: str, image: str) -> str:
    """The nextflow.config of a user."""
    return (
        f"plugins {{ id '{'@'.join(PLUGIN)}' }}\n"
        f"process {{ executor = 'tes'; container = '{image}' }}\n"
        f"tes {{ endpoint = '{url}'; oauthToken = '{token}' }}\n"
    )


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_pipeline_on_spot_leaves_what_a_plain_run_leaves(
    tmp_path: Path, nextflow: Nextflow, genomics: str, bad_day: Any
) -> None:
    for i in range(TEXTS):
        lines = (
            " ".join(f"{w}{chr(97 + n * k % (20 + i))}" for k, w in enumerate(["wind", "trade", "sail"], 1))
            for n in range(40 * PIECES)
        )
        (tmp_path / f"text{i}.txt").write_text("\n".join(lines) + "\n")
    script, texts = PIPELINE / "words.nf", str(tmp_path / "text*.txt")
    code, log = nextflow.run(tmp_path / "plain", script, "process.executor = 'local'", "--texts", texts)
    assert code == 0, log[-3000:]
    config = by_tes(bad_day.url, bad_day.token, genomics)
    code, log = nextflow.run(tmp_path / "tes", script, config, "--texts", texts)
    assert code == 0, log[-3000:]
    assert "\n65 words\n" in log, log  # output of the last process
    bad_day.check(TASKS)
    plain = files(tmp_path / "plain" / "out")
    assert files(tmp_path / "tes" / "out") == plain
    assert len(plain) == TEXTS * 2 + 2 and len(plain["words.tsv"].splitlines()) > 40, plain

    code, log = nextflow.run(tmp_path / "tes", script, config, "--texts", texts, "-resume")
    assert code == 0 and log.count("Cached process") == TASKS, log[-3000:]
    assert len(bad_day.tasks()) == TASKS


EXAMPLE = ROOT / "examples" / "recipes" / "nextflow"
COUNTED = "\na 3\nb 3\nc 3\nof 9\nsea 9\nthe 18\n"


@pytest.fixture
def without_plugin(tmp_path: Path) -> Nextflow:
    """Nextflow, which downloads nothing."""
    found = Nextflow(tmp_path / "home", tmp_path / "plugins")
    found.environment["NXF_OFFLINE"] = "true"
    return found


def test_the_example_counts_words(tmp_path: Path, without_plugin: Nextflow) -> None:
    code, log = without_plugin.run(tmp_path / "plain", EXAMPLE / "main.nf", "")
    assert code == 0 and COUNTED in log, log[-3000:]


def test_the_configuration_of_the_example_names_a_broker(tmp_path: Path, without_plugin: Nextflow) -> None:
    read = subprocess.run(
        [*without_plugin.command, "-c", str(EXAMPLE / "tradewind.config"), "config"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**without_plugin.environment, "TRADEWIND_TES_TOKEN": "secret"},
    )
    assert read.returncode == 0, read.stdout + read.stderr
    settings = {line.strip() for line in read.stdout.splitlines()}
    assert settings >= {
        f"plugins = ['{'@'.join(PLUGIN)}']",
        "executor = 'tes'",
        "endpoint = 'http://127.0.0.1:8000/ga4gh/tes'",
        "oauthToken = 'secret'",
    }, read.stdout


def test_the_example_counts_words_through_a_broker(
    tmp_path: Path, nextflow: Nextflow, genomics: str, forwarded: tuple[str, str]
) -> None:
    url, token = forwarded
    nextflow.environment["TRADEWIND_TES_TOKEN"] = token
    there = tmp_path / "there.config"  # instead of the port and the image of its own configuration
    there.write_text(f"process.container = '{genomics}'\ntes.endpoint = '{url}'\n")
    flags = ["-c", str(EXAMPLE / "tradewind.config"), "-c", str(there)]
    code, log = nextflow.run(tmp_path / "tes", EXAMPLE / "main.nf", "", *flags)
    assert code == 0 and COUNTED in log, log[-3000:]
    assert "executor >  tes" in log, log[-3000:]


@pytest.fixture
def bad(tmp_path: Path, nextflow: Nextflow, genomics: str, state: Path) -> Any:
    """Starts a pipeline whose only process fails, on a broker without other failures."""
    found = Endpoint.find(state=state)
    config = by_tes(found.url + "/ga4gh/tes", str(found.token), genomics)

    def start(body: str, workflow: str) -> subprocess.Popen[bytes]:
        script = tmp_path / "main.nf"
        script.write_text(f"process {body}\nworkflow {{ {workflow} }}\n")
        return nextflow.start(tmp_path / "run", script, config)

    return start


@pytest.fixture
def tasks(state: Path) -> Any:
    """All tasks of the broker whose names begin with something."""
    found = Endpoint.find(state=state)
    client = tes.HTTPClient(found.url + "/ga4gh/tes", token=found.token, timeout=60)
    return lambda prefix: [t for t in client.list_tasks(view="FULL").tasks or [] if t.name.startswith(prefix)]


def test_a_process_that_fails_shows_what_it_printed(bad: Any, tmp_path: Path) -> None:
    said = "fails {\n script:\n '''\n echo on the way\n echo no such reference: chr99 >&2\n exit 7\n '''\n}"
    assert bad(said, "fails()").wait(300) != 0
    log = (tmp_path / "run" / "log").read_text()
    assert "terminated with an error exit status (7)" in log, log
    assert "Command output:\n  on the way\n" in log, log
    assert "Command error:\n  no such reference: chr99\n" in log, log


def test_a_process_that_no_machine_can_run_says_why(bad: Any, tasks: Any, tmp_path: Path) -> None:
    assert bad("vast {\n cpus 5000\n script:\n 'true'\n}", "vast()").wait(300) != 0
    assert "Error executing process > 'vast'" in (tmp_path / "run" / "log").read_text()
    (vast,) = tasks("vast")
    assert vast.state == "SYSTEM_ERROR"
    assert any("no offer has 5000+ vCPUs" in line for line in vast.logs[0].system_logs), vast.logs


def test_ctrl_c_cancels_all_tasks(bad: Any, tasks: Any, tmp_path: Path) -> None:
    running = bad("waits {\n input:\n val n\n script:\n 'sleep 600'\n}", "waits(Channel.of(1, 2, 3))")
    try:
        until = time.monotonic() + 180
        while [t.state for t in tasks("waits")] != ["RUNNING"] * 3:
            assert running.poll() is None and time.monotonic() < until, (tmp_path / "run" / "log").read_text()
            time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        running.wait(60)
    finally:
        running.kill()
    until = time.monotonic() + 60
    while [t.state for t in tasks("waits")] != ["CANCELED"] * 3:
        assert time.monotonic() < until, [(t.name, t.state) for t in tasks("waits")]
        time.sleep(0.5)
