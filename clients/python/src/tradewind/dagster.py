"""A resource for Dagster: pip install 'tradewind[dagster]'.

from tradewind.dagster import TradewindResource

@asset
def model(context: AssetExecutionContext, tradewind: TradewindResource) -> MaterializeResult:
    return tradewind.run(context, Job("train", Task("t", run="python train.py", time="2h")))

Definitions(assets=[model], resources={"tradewind": TradewindResource()})
"""

from __future__ import annotations

from typing import Any

from dagster import ConfigurableResource, MaterializeResult

from ._call import Source, file
from ._orchestrated import key, to_end
from .client import Client


class TradewindResource(ConfigurableResource):  # type: ignore[type-arg,misc,unused-ignore]
    """A broker. Without url it is found like the command line finds it; $TRADEWIND_TOKEN has the token."""

    url: str | None = None
    state: str | None = None

    def client(self) -> Client:
        """Returns a client of the broker. Close it after use."""
        return Client(self.url, state=self.state)

    def run(self, context: Any, job: Source) -> MaterializeResult[Any]:
        """Runs a job to its end in an asset or op, and logs its progress to the run. One try of a step starts a job
        only once, also if it calls this again. A step may run several jobs, and each mapped step its own. Raises
        JobFailed if the job does not succeed. Terminating the run cancels the job."""
        run = context.run
        step = context.op_execution_context if hasattr(context, "op_execution_context") else context
        mapped = step.get_mapping_key() or ""
        attempt = key("dagster", run.run_id, step.op_handle, mapped, step.retry_number, file(job)[1])
        with self.client() as client:
            done = to_end(client, job, attempt, context.log.info)
        return MaterializeResult(
            metadata={
                "job": done.id,
                "tasks": done.tasks,
                "spent_usd": done.spent_usd,
                "on_demand_usd": done.on_demand_usd,
            }
        )
