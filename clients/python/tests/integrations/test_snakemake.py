"""Snakemake with its TES executor: 50 jobs of bwa, samtools and bcftools, on spot machines, some of which are taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("snakemake")
boto3 = pytest.importorskip("boto3")
pytest_plugins = ("engines",)

WORKFLOW = Path(__file__).with_name("snakemake") / "Snakefile"
JOBS = 50
RESULTS = ["calls.tsv"] + [
    f"{folder}/{sample:02}.{end}"
    for folder, end in (("aligned", "bam"), ("calls", "vcf"), ("stats", "txt"))
    for sample in range(1, 13)
]
KEYS = {"access_key": "testing", "secret_key": "testing"}


def plain(folder: Path, image: str, containers: dict[str, str]) -> None:
    """Runs the workflow in one container, as on a user's computer."""
    folder.mkdir()
    shutil.copy(WORKFLOW, folder)
    run = ["podman", "run", "--rm", "--network", "host", "-v", f"{folder}:/work", "-w", "/work", image]
    done = subprocess.run(
        [*run, "python", "-m", "snakemake", "--cores", "2", "--nocolor", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **containers},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def bucket(s3: str, name: str) -> Any:
    """A client of the emulated S3, with a new bucket."""
    store = boto3.client(
        "s3",
        endpoint_url=s3,
        region_name="us-east-1",
        aws_access_key_id=KEYS["access_key"],
        aws_secret_access_key=KEYS["secret_key"],
    )
    store.create_bucket(Bucket=name)
    return store


def by_tes(folder: Path, workflow: Path, url: str, token: str, image: str, s3: str, name: str) -> None:
    """Runs a workflow in a new folder as docs/from-snakemake.md says, with its files in a bucket."""
    folder.mkdir()
    shutil.copy(workflow, folder)
    command = [sys.executable, "-m", "snakemake", "--jobs", "6", "--nocolor", "--executor", "tes"]
    command += ["--tes-url", url, "--container-image", image]
    command += ["--default-storage-provider", "s3", "--default-storage-prefix", f"s3://{name}"]
    command += ["--storage-s3-endpoint-url", s3, "--storage-s3-region", "us-east-1"]
    command += ["--seconds-between-status-checks", "2"]
    environment = {
        **os.environ,
        "SNAKEMAKE_TES_TOKEN": token,
        "SNAKEMAKE_STORAGE_S3_ACCESS_KEY": KEYS["access_key"],
        "SNAKEMAKE_STORAGE_S3_SECRET_KEY": KEYS["secret_key"],
    }
    log = folder.with_suffix(".log")
    with log.open("wb") as written:
        done = subprocess.run(command, cwd=folder, stdout=written, stderr=written, check=False, env=environment)
    assert done.returncode == 0, log.read_text()[-3000:]


EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "recipes" / "snakemake" / "Snakefile"
COUNTED = "a 3\nb 3\nc 3\nof 9\nsea 9\nthe 18\n"


def test_the_example_counts_words(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(EXAMPLE), "--directory", str(tmp_path)]
    done = subprocess.run([*command, "--cores", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "counts.tsv").read_text() == COUNTED


def test_the_example_counts_words_through_a_broker(
    tmp_path: Path, genomics: str, s3: str, forwarded: tuple[str, str]
) -> None:
    store = bucket(s3, "words")
    by_tes(tmp_path / "tes", EXAMPLE, *forwarded, genomics, s3, "words")
    assert store.get_object(Bucket="words", Key="counts.tsv")["Body"].read().decode() == COUNTED


def test_fifty_jobs_on_spot_leave_what_a_plain_run_leaves(
    tmp_path: Path, genomics: str, s3: str, containers: dict[str, str], bad_day: Any
) -> None:
    plain(tmp_path / "plain", genomics, containers)
    store = bucket(s3, "workflow")
    by_tes(tmp_path / "tes", WORKFLOW, bad_day.url, bad_day.token, genomics, s3, "workflow")
    bad_day.check(JOBS)
    for name in RESULTS:
        left = store.get_object(Bucket="workflow", Key=name)["Body"].read()
        assert left == (tmp_path / "plain" / name).read_bytes(), f"{name} is another than a plain run leaves"
    assert len((tmp_path / "plain" / "calls.tsv").read_text().splitlines()) > 12 * 5, "the tools found next to nothing"
