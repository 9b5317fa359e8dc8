"""As a user would: pip install of the wheel into a fresh environment, and the first program of docs/python.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def test_the_wheel_and_ten_lines(state: Path, tmp_path: Path) -> None:
    wheels = sorted((ROOT / "dist" / "python").glob("tradewind-*.whl"), key=lambda w: w.stat().st_mtime)
    if not wheels:
        pytest.skip("dist/python has no wheel: make python")
    fresh = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
    pip = [str(fresh / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "--retries", "0"]
    installed = subprocess.run([*pip, str(wheels[-1])], capture_output=True, text=True, check=False)
    if "connection error" in installed.stderr or "Temporary failure" in installed.stderr:
        pytest.skip("the package index cannot be reached")
    assert installed.returncode == 0, installed.stderr
    version = subprocess.run([str(fresh / "bin" / "tradewind"), "version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("tradewind "), version.stdout
    assert (fresh / "bin" / "tradewind-agent").stat().st_mode & 0o111
    program = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)[0]
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) <= 10
    (tmp_path / "first.py").write_text(program)
    ran = subprocess.run(
        [str(fresh / "bin" / "python"), str(tmp_path / "first.py")],
        env={**os.environ, "TRADEWIND_STATE": str(state), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "succeeded\n14\n\n"
