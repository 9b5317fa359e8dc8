"""The resource in an asset that Dagster itself materialises."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradewind import Job, Task

dagster = pytest.importorskip("dagster")
tradewind_dagster = pytest.importorskip("tradewind.dagster")
TradewindResource = tradewind_dagster.TradewindResource


@pytest.mark.parametrize("run, well", [("seq 3", True), ("exit 3", False)])
def test_an_asset_is_materialised(state: Path, run: str, well: bool) -> None:
    @dagster.asset
    def model(context: dagster.AssetExecutionContext, tradewind: TradewindResource) -> dagster.MaterializeResult:
        return tradewind.run(context, Job("from-dagster", Task("t", run=run, time="1m")))

    resources = {"tradewind": TradewindResource(state=str(state))}
    result = dagster.materialize([model], resources=resources, raise_on_error=False)
    assert result.success == well
    if well:
        metadata = result.asset_materializations_for_node("model")[0].metadata
        assert metadata["tasks"].value == 1 and metadata["spent_usd"].value > 0


def test_an_op_runs_a_job(state: Path) -> None:
    @dagster.op
    def step(context: dagster.OpExecutionContext, tradewind: TradewindResource) -> int:
        return int(tradewind.run(context, Job("op", Task("t", run="true", time="1m"))).metadata["tasks"])

    @dagster.job(resource_defs={"tradewind": TradewindResource(state=str(state))})
    def pipeline() -> None:
        step()

    assert pipeline.execute_in_process().output_for_node("step") == 1


def test_mapped_steps_and_several_jobs_of_one_step_are_jobs_of_their_own(state: Path) -> None:
    @dagster.op(out=dagster.DynamicOut(int))
    def parts() -> Iterator[Any]:
        yield from (dagster.DynamicOutput(n, mapping_key=str(n)) for n in (1, 2))

    @dagster.op
    def work(context: dagster.OpExecutionContext, tradewind: TradewindResource, n: int) -> list[str]:
        jobs = [Job("part", Task("t", run=f"echo {word}", time="1m")) for word in ("one", "two")]
        return [str(tradewind.run(context, job).metadata["job"]) for job in jobs]

    @dagster.op
    def count(ids: list[list[str]]) -> int:
        return len({job for of in ids for job in of})

    @dagster.job(resource_defs={"tradewind": TradewindResource(state=str(state))})
    def pipeline() -> None:
        count(parts().map(work).collect())

    assert pipeline.execute_in_process().output_for_node("count") == 4
