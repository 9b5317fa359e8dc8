"""How the broker is found."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tradewind import AsyncClient, BrokerNotFound, Client, Endpoint, Unreachable


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TRADEWIND_ENDPOINT", "TRADEWIND_TOKEN", "TRADEWIND_SIGN_REGION", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRADEWIND_STATE", str(tmp_path))


def test_the_state_folder_has_address_and_token(tmp_path: Path) -> None:
    with pytest.raises(BrokerNotFound, match="tradewind up"):
        Endpoint.find()
    (tmp_path / "running.json").write_text(json.dumps({"url": "http://127.0.0.1:1234"}))
    (tmp_path / "token").write_text("secret\n")
    found = Endpoint.find()
    assert (found.url, found.token) == ("http://127.0.0.1:1234", "secret")
    assert "secret" not in repr(found)


def test_the_environment_names_one_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADEWIND_ENDPOINT", "https://broker.example/")
    monkeypatch.setenv("TRADEWIND_TOKEN", "t")
    assert Endpoint.find() == Endpoint("https://broker.example", "t")
    gateway = Endpoint.find("https://abc123.execute-api.eu-west-1.amazonaws.com")
    assert (gateway.region, gateway.token) == ("eu-west-1", "")


@pytest.mark.parametrize("url", ["http://10.0.0.1:80", "broker", "https://u@h", "https://h?x=1", "kubernetes://c/n"])
def test_bad_names_are_refused(url: str) -> None:
    with pytest.raises(BrokerNotFound):
        Endpoint.find(url)


def test_what_passes_is_tried_again_and_a_silent_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradewind._call.FIRST_PAUSE", 0.0)
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        if len(seen) < 3:
            return httpx.Response(503)
        return httpx.Response(200, json={"now": "2026-01-01T00:00:00Z", "jobs": []})

    with Client("http://localhost:1", "t", transport=httpx.MockTransport(answer)) as c:
        assert c.jobs() == []
    assert seen == ["Bearer t"] * 3
    with Client("http://127.0.0.1:1", "t") as c, pytest.raises(Unreachable, match="127.0.0.1:1"):
        c.jobs()


def test_a_log_of_functions_goes_on_where_an_answer_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradewind._call.FIRST_PAUSE", 0.0)
    text = "größer\n".encode()
    answers = {"": (text[:3], "1:3"), "1:3": (b"", "1:3+"), "1:3+": (text[3:], "")}  # the first ends within a character
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("after", ""))
        body, after = answers[asked[-1]]
        return httpx.Response(200, content=body, headers={"Tradewind-Next": after} if after else {})

    with Client("http://localhost:1", "t", transport=httpx.MockTransport(answer)) as c:
        assert c.logs("j", "t") == text.decode()
        assert asked == list(answers)
        asked.clear()
        assert "".join(c.follow_logs("j", "t")) == text.decode()
        assert asked == list(answers)

    async def both() -> list[str]:
        async with AsyncClient("http://localhost:1", "t", transport=httpx.MockTransport(answer)) as c:
            return [await c.logs("j", "t"), "".join([p async for p in c.follow_logs("j", "t")])]

    assert asyncio.run(both()) == [text.decode()] * 2
