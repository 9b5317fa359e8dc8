"""cwl-tes, the Common Workflow Language on GA4GH TES: counts words on spot machines, some of which are taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cwl_tes")
pytest_plugins = ("engines",)

WORKFLOW = Path(__file__).with_name("cwl") / "words.cwl"
TEXTS = 8


# This cwltool checks for the exact versions that it requires before it prints its own version.
PLAIN = "import sys, cwltool.main as m; sys.exit(m.main(sys.argv[1:], versionfunc=lambda: 'cwltool'))"
TES = "import sys, cwl_tes.main as m; m.versionstring = lambda: 'cwl-tes'; sys.exit(m.main(sys.argv[1:]))"


def run(program: str, folder: Path, job: Path, *flags: str) -> dict[str, bytes]:
    """Runs the workflow by one of the two programs, and returns what it leaves."""
    folder.mkdir()
    log = folder / "log"
    command = [sys.executable, "-c", program, "--outdir", str(folder / "out"), *flags, str(WORKFLOW), str(job)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with log.open("wb") as written:
        done = subprocess.run(command, cwd=folder, stdout=written, stderr=written, check=False, env=environment)
    assert done.returncode == 0, log.read_text()[-3000:]
    return {p.name: p.read_bytes() for p in (folder / "out").iterdir()}


def test_a_workflow_on_spot_leaves_what_a_plain_run_leaves(tmp_path: Path, genomics: str, bad_day: Any) -> None:
    texts = []
    for i in range(TEXTS):
        text = tmp_path / f"text{i}.txt"
        words = (f"{w}{chr(97 + n % 26)}" for n in range(4000) for w in ["wind", "trade"][: 1 + n % (i + 2)])
        text.write_text(" ".join(words))
        texts.append({"class": "File", "path": str(text)})
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"texts": texts}))

    plain = run(PLAIN, tmp_path / "plain", job, "--parallel", "--no-container")
    address = bad_day.url.replace("http://", f"http://cwl:{bad_day.token}@")  # its own --token has to be a JWT
    by_tes = run(TES, tmp_path / "tes", job, "--tes", address)
    bad_day.check(TEXTS + 1)
    assert by_tes == plain
    assert sorted(plain) == [f"text{i}.counts" for i in range(TEXTS)] + ["words.txt"]
    assert len(plain["words.txt"].splitlines()) > 26
