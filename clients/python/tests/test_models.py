"""The models match the API's description."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]


def test_models_are_current(tmp_path: Path) -> None:
    generator = shutil.which("datamodel-codegen", path=str(Path(sys.executable).parent))
    if generator is None:
        pytest.skip("datamodel-code-generator is not installed")
    made = tmp_path / "models.py"
    subprocess.run([generator, "--output", str(made)], cwd=HERE, check=True)
    committed = (HERE / "src" / "tradewind" / "models.py").read_text()
    assert made.read_text() == committed, "run `make python-models`"
