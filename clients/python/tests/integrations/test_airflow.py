"""The operator in a DAG that Airflow itself runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("airflow.sdk")

DAG = """
from airflow.sdk import DAG, task
from tradewind import Job, Task
from tradewind.airflow import TradewindOperator

with DAG("tried") as dag:
    done = TradewindOperator(task_id="counts", job=Job("from-airflow", Task("t", run="{run}", time="1m")))

    @task
    def check(job):
        from tradewind import Client

        print("state", Client().job(job).state)

    check(done.output)

if __name__ == "__main__":
    print("ended", dag.test().state)
"""


@pytest.mark.parametrize("run, ended", [("seq 3", "success"), ("exit 3", "failed")])
def test_a_dag_runs(state: Path, tmp_path: Path, run: str, ended: str) -> None:
    (tmp_path / "dags").mkdir()
    program = tmp_path / "dags" / "tried.py"
    program.write_text(DAG.format(run=run))
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "TRADEWIND_STATE": str(state),
    }
    migrated = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], env=env, capture_output=True, text=True, check=False
    )
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    ran = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, check=False)
    out = ran.stdout + ran.stderr
    assert f"ended {ended}" in out, out[-5000:]
    assert ("state succeeded" in out) == (ended == "success")
    assert ("t: failed" in out) == (ended == "failed"), out[-5000:]
