"""An operator for Apache Airflow 3: pip install 'tradewind[airflow]'.

from tradewind.airflow import TradewindOperator

train = TradewindOperator(task_id="train", job=Job("train", Task("t", run="python train.py", time="2h")))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator

from ._call import Source
from ._orchestrated import key, to_end
from .client import Client, Run


class TradewindOperator(BaseOperator):
    """Runs a job to its end. Its XCom is the job's ID. job is a Job, or a job file as a path or bytes. Each Airflow try
    is one job, also if the worker died and the try continues on another; ending a try cancels its job. Without url the
    broker is found like the command line finds it. $TRADEWIND_TOKEN is read on the worker."""

    template_fields = ("url", "state")

    def __init__(
        self,
        *,
        job: Source,
        url: str | None = None,
        state: str | None = None,
        secrets: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job, self.url, self.state, self.secrets = job, url, state, secrets
        self._run: Run | None = None

    def execute(self, context: Any) -> str:
        ti = context["ti"]
        attempt = key("airflow", ti.dag_id, ti.task_id, ti.run_id, ti.map_index, ti.try_number)
        with Client(self.url, state=self.state) as client:
            done = to_end(client, self.job, attempt, self.log.info, self.secrets, self._began)
        return done.id

    def _began(self, run: Run) -> None:
        self._run = run

    def on_kill(self) -> None:
        if self._run is not None:
            with Client(self.url, state=self.state) as client:
                client.cancel(self._run.id, "the Airflow task was ended")
