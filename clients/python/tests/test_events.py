"""The stream of a job's events, as it comes in pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx

from tradewind import AsyncClient, Client

REASON = "task t failed: wait\x85 \u2028 done"
"""A reason that ends with a program's output. To Unicode, but not to the stream, some of its characters end a line."""

VIEW = {
    "id": "j-1", "name": "j", "state": "failed", "objective": "cost", "queue": "default", "tasks": 0,
    "succeeded": 0, "spentUSD": 0, "plannedUSD": 0, "onDemandUSD": 0, "submitted": "2026-05-20T09:00:00Z", "plan": 0,
    "reason": REASON,
}  # fmt: skip


def _answer(request: httpx.Request) -> httpx.Response:
    update = json.dumps({"now": "2026-05-20T09:00:00Z", "full": True, "job": VIEW}, ensure_ascii=False)
    text = f"event: job\r\nid: f.1.0\r\ndata: {update}\r\n\r\n: alive\n\nevent: end\ndata: {{}}\n\n".encode()
    return httpx.Response(200, content=iter([text[:1], text[1:70], text[70:]]))


async def _pieces(request: httpx.Request) -> httpx.Response:
    whole = _answer(request).read()

    async def pieces() -> AsyncIterator[bytes]:
        for n in range(0, len(whole), 7):
            yield whole[n : n + 7]

    return httpx.Response(200, content=pieces())


def test_only_line_breaks_end_a_line_of_a_stream() -> None:
    with Client("http://localhost:1", "t", transport=httpx.MockTransport(_answer)) as c:
        assert [u.job.reason for u in c.follow("j-1")] == [REASON]

    async def go() -> list[str | None]:
        async with AsyncClient("http://localhost:1", "t", transport=httpx.MockTransport(_pieces)) as c:
            return [u.job.reason async for u in c.follow("j-1")]

    assert asyncio.run(go()) == [REASON]
