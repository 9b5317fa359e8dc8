"""Uploads of local files and folders that a job names, with a running broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from conftest import PROGRAM
from test_pack import everything, put

from tradewind import AsyncClient, Client, Input, Job, Output, Task, TradewindError, Unreachable, _bring
from tradewind._call import Call
from tradewind._cut import digest
from tradewind._pack import Tree


@pytest.fixture
def asked(client: Client) -> list[httpx.Request]:
    """The requests that a client makes."""
    requests: list[httpx.Request] = []
    client._http.event_hooks = {"request": [requests.append]}
    return requests


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, and the home directory, which is another."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "here"


def calls(asked: list[httpx.Request]) -> list[str]:
    """The calls since the last time that this was read."""
    made = [f"{r.method} {r.url.path}" for r in asked]
    asked.clear()
    return made


def uploads(asked: list[httpx.Request]) -> int:
    return sum(call.startswith("PUT /v1/objects/") for call in calls(asked))


def counting() -> Job:
    run = 'sh count.sh "$TRADEWIND_INPUTS/words.txt"; cat "$TRADEWIND_INPUTS/more words/a"; cat given'
    inputs = [Input("data/words.txt"), Input("~/more words"), Input(str(Path("given").absolute()), path="given")]
    return Job("counts", Task("count", run=run, workdir="code", inputs=inputs, time="1m"))


def fill(here: Path) -> None:
    put(here, "code/count.sh", "wc -w <$1\n")
    put(here, "code/.gitignore", "*.log\n")
    put(here, "data/words.txt", "one two three\n")
    put(here.parent, "home/more words/a", "from home\n")
    put(here, "given", "from an absolute path\n")


def test_a_job_runs_with_the_code_and_files_of_this_computer(
    client: Client, asked: list[httpx.Request], here: Path
) -> None:
    fill(here)
    assert counting().plan(client).tasks[0].name == "count"
    assert calls(asked) == ["POST /v1/plans"]
    run = counting().submit(client)
    assert run.wait().state == "succeeded"
    assert run.logs("count").split("\n")[-4:] == ["3", "from home", "from an absolute path", ""]
    sent = [r for r in asked if r.method == "PUT"]
    assert len(sent) == 8  # of each a piece and the list
    assert not any("Authorization" in r.headers for r in sent)


def test_what_is_there_is_not_uploaded_again(client: Client, asked: list[httpx.Request], here: Path) -> None:
    put(here, "code/main.sh", "echo first\n")
    job = Job("again", [Task(n, run="sh main.sh", workdir="code", time="1m") for n in ("a", "b")])
    job.submit(client)
    assert uploads(asked) == 2
    job.submit(client)
    assert calls(asked) == ["POST /v1/packs/missing", "POST /v1/dags"]
    put(here, "code/ignored.log", "x")
    put(here, "code/.tradewindignore", "*.log\n.trade*\n")
    job.submit(client)
    assert uploads(asked) == 0
    put(here, "code/main.sh", "echo other\n")
    run = job.submit(client)
    assert uploads(asked) == 2
    run.wait()
    assert "other" in run.logs("b")


def test_the_command_line_packs_the_same(client: Client, state: Path, here: Path) -> None:
    packs = state / "objects" / "packs"

    def kept() -> set[str]:
        return {p.name for p in packs.iterdir()} if packs.exists() else set()

    everything(here / "code <1>")
    put(here, "one.txt", "x" * 1000)
    job = Job("same", Task("t", run="true", workdir="code <1>", inputs=[Input("one.txt")], time="1m"))
    before = kept()
    client.submit(job)
    after = kept()
    assert len(after - before) > 5
    put(here, "job.json", job.to_json())
    command = [str(PROGRAM), "submit", "--state", str(state), "job.json"]
    said = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert kept() == after, said.stderr


def test_nothing_is_sent_where_something_is_missing(client: Client, asked: list[httpx.Request], here: Path) -> None:
    fill(here)
    good = Task("good", run="true", workdir="code", time="1m")
    put(here, "bad/up").unlink()
    (here / "bad" / "up").symlink_to("/etc")
    for task, says in [
        (
            Task("t", run="true", workdir="nowhere"),
            rf'tasks.t.workdir: "nowhere": there is no {here}/nowhere \(paths begin',
        ),
        (Task("t", run="true", inputs=[Input("given"), Input("none")]), r'tasks.t.inputs\[1\]: "none": there is no '),
        (Task("t", run="true", workdir="given"), r"tasks.t.workdir: /.*/given is a file, not a folder"),
        (Task("t", run="true", workdir="given/x"), r'tasks.t.workdir: "given/x": .*Not a directory'),
        (Task("t", run="true", workdir="no\0thing"), r'tasks.t.workdir: "no\\u0000thing": '),
        (Task("t", run="true", workdir="bad"), r"tasks.t.workdir: .*/bad/up cannot be packed: it is a link out of"),
        (
            Task("t", run="true", workdir="code", inputs=[Input("s3://b/k", path="./count.sh", mount="write")]),
            r"tasks.t.workdir: inputs\[0\] would be mounted over count.sh of it",
        ),
    ]:
        for call in (client.submit, client.plan, lambda job: client.update("x", job)):
            with pytest.raises(TradewindError, match=says):
                call(Job("bad", [good, task]))
    assert calls(asked) == []


def test_what_is_not_of_this_computer_stays(here: Path) -> None:
    fill(here)
    first = Task("first", run="true", outputs=[Output("o", uri="made"), Output("p", uri=f"file://{here}/al%20so")])
    named = ["s3://b/k", "file:///none", "pack://sha256-00/x", "made/part", "al so/x", "data/words.txt"]
    given = [Input(uri) for uri in named]
    then = Task("then", run="true", inputs=given, workdir="pack://sha256-00/x", after=[first])
    made = _bring.step(_bring.found(Job("stays", then)), None)
    assert not isinstance(made, Call)
    name, body = made
    tasks = json.loads(body)["tasks"]
    assert name == "stays.json"
    assert tasks["first"]["outputs"][0]["uri"] == str(here / "made")
    assert [i["uri"] for i in tasks["then"]["inputs"]] == [
        *named[:3],
        *(str(here / uri) for uri in named[3:]),
    ]
    assert [i.get("size") for i in tasks["then"]["inputs"]] == [None] * 5 + ["14B"]
    assert tasks["then"]["workdir"] == "pack://sha256-00/x"
    assert [i.uri for i in given] == named  # the job is its maker's


def test_asyncio_brings_it_along_too(state: Path, here: Path) -> None:
    fill(here)

    async def go() -> str:
        async with AsyncClient(state=state) as c:
            job = counting()
            await c.plan(job)
            run = await c.submit(job)
            assert (await run.wait()).state == "succeeded"
            bad = Job("bad", Task("t", run="true", workdir="nowhere"))
            for call in (c.submit, c.plan, c.run(run.id).update):
                with pytest.raises(TradewindError, match="there is no "):
                    await call(bad)
            return await run.logs("count")

    assert "3\nfrom home\n" in asyncio.run(go())


def test_a_folder_that_changes_while_it_is_sent_is_packed_anew(
    client: Client, asked: list[httpx.Request], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here, "code/main.sh", "echo before\n")
    content, changes = Tree.content, 1

    def changing(tree: Tree, name: str) -> bytes:
        nonlocal changes
        if changes:
            changes -= 1
            put(here, "code/main.sh", f"echo after {changes}\n")
        return content(tree, name)

    monkeypatch.setattr(Tree, "content", changing)
    job = Job("changes", Task("t", run="sh main.sh", workdir="code", time="1m"))
    run = job.submit(client)
    run.wait()
    assert "after 0" in run.logs("t")
    changes = 99
    put(here, "code/main.sh", "echo again\n")
    calls(asked)
    with pytest.raises(TradewindError, match=r"tasks.t.workdir: .*/code/main.sh changes while it is packed"):
        job.submit(client)
    assert set(calls(asked)) == {"POST /v1/packs/missing"}


Answer = Callable[[httpx.Request], httpx.Response]


def broker(put: Answer, expires: Iterator[str]) -> Client:
    """A client of a broker whose packs are in a remote bucket. The broker keeps nothing."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            return put(request)
        if request.url.path == "/v1/packs/missing":
            pieces = json.loads(request.content)["pieces"]
            assert 0 < len(pieces) <= 2
            ends = next(expires)
            grant = {"method": "PUT", "header": {"X-Sum": "of it"}, "expires": ends}
            lacks = [
                {
                    "digest": p["digest"],
                    "grant": {**grant, "url": f"https://bucket.example/{p['digest']}?sig=secret-{ends}"},
                }
                for p in pieces
            ]
            return httpx.Response(200, json={"missing": lacks})
        raise AssertionError(request.url)

    return Client("http://127.0.0.1:1", "token", transport=httpx.MockTransport(answer))


def send(client: Client, here: Path) -> str:
    """Uploads a folder, and returns the reference that the job then has."""
    put(here, "code/main.sh", "true\n")
    name, body = client._bring(Job("j", Task("t", run="sh main.sh", workdir="code")))
    assert name == "j.json"
    return str(json.loads(body)["tasks"]["t"]["workdir"])


LATER = "2999-01-01T00:00:00Z"


def test_pieces_go_to_their_store_with_their_own_right_and_the_list_last(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bring, "_ASK", 2)
    got: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        got.append(request)
        return httpx.Response(503 if len(got) == 1 else 200)

    put(here, "code/large", bytes(20 << 20))
    put(here, "code/other", b"x" * (20 << 20))
    past = "2020-01-01T00:00:00Z"  # what is signed once more
    uri = send(broker(take, iter([LATER, past, *[LATER] * 9])), here)
    assert got[0].url == got[1].url  # again after a failure that passes
    assert {r.url.host for r in got} == {"bucket.example"} and {r.url.params["sig"] for r in got} == {"secret-" + LATER}
    assert all(r.headers["X-Sum"] == "of it" and "Authorization" not in r.headers for r in got)
    assert [r.content.startswith(b'{"version":1') for r in got] == [False] * (len(got) - 1) + [True]
    assert uri == f"pack:/{got[-1].url.path}/code"
    assert all(r.url.path == "/" + digest(r.content) for r in got)


def test_an_upload_that_is_refused_says_so_without_its_right(here: Path) -> None:
    def no(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there", request=request)

    for put_, kind, says in [
        (lambda r: httpx.Response(507), TradewindError, "free some space"),
        (
            lambda r: httpx.Response(403, text="denied"),
            TradewindError,
            r"PUT https://bucket.example/sha256-\w+: 403 .*: denied",
        ),
        (no, Unreachable, "the store of packs does not answer at https://bucket.example/: nobody there"),
    ]:
        with pytest.raises(kind, match=says) as said:
            send(broker(put_, iter([LATER] * 9)), here)
        assert "secret" not in str(said.value)
