"""Packs have the same digests as those of the Go program, and errors name the files that cannot be packed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tradewind import _pack
from tradewind._cut import digest
from tradewind._pack import Changed, Tree, Unfit, pack


def put(folder: Path, name: str, content: str | bytes = "", mode: int = 0o644) -> Path:
    file = folder / name
    for above in [a for a in file.parents if not a.exists()][::-1]:
        above.mkdir()
        above.chmod(0o755)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    file.chmod(mode)
    return file


def everything(folder: Path) -> Path:
    """A folder with every kind of file that a pack can contain."""
    noise = random.Random(1)
    put(folder, "large.bin", noise.randbytes(5 << 20), 0o600)
    put(folder, "bin/run", "#!/bin/sh\n", 0o755)
    put(folder, "none/at/all", "", 0)
    put(folder, "odd/<a> & 'b' \"c\" \\ \u2028\n\t\x01\x7f ä€𝄞", "odd")
    put(folder, "odd-", "sorts before odd/")
    (folder / "empty").mkdir()
    (folder / "empty").chmod(0o750)
    (folder / "link").symlink_to("bin/run")
    (folder / "bin" / "up").symlink_to("../large.bin")
    (folder / "bin" / "full").symlink_to(folder.resolve() / "empty")
    (folder / "dangling").symlink_to("nowhere")
    put(
        folder,
        ".gitignore",
        "*.log\n!kept.log\n/build/\n**/cache/**\na***\n[!x-z]?.tmp\nx*/y/**//\nsub/*/deep\n\\#name\nspace\\ \n",
    )
    put(folder, ".git/info/exclude", "excluded\n")
    names = ["x.log", "kept.log", "build/x", "sub/build/x", "cache/x", "sub/cache/x", "a", "ab", "xa.tmp", "ab.tmp"]
    for name in [*names, "sub/one/deep/x", "sub/one/two/deep", "#name", "space ", "xx/y/z", "excluded", "sub/secret"]:
        put(folder, name, name)
    put(folder, "sub/.gitignore", "\ufeffsecret\r\n!x.log\n")
    put(folder, "sub/x.log", "again")
    return folder


# The digests that `pack.Pack(ctx, dir, pack.Options{})` of internal/pack returns for these folders. tests/test_bring.py
# compares with the program itself; these constants allow a comparison without the program.
EVERYTHING = "sha256-8e91cc053ff06db531fc828a966e38baa93e9eb5e6cc77b8cfb8a7b1407ad284"
OWN_RULES = "sha256-0f8564a94bb10ba594724c33ebdd75da7a2e9987e0c92c6c66d151433bdd864e"
ONE_FILE = "sha256-6d25b3361df2220204708749847d9a191da030cf1723be05fb19c9f4f23f60ea"


def test_a_pack_has_the_name_that_go_gives_it(tmp_path: Path) -> None:
    folder = everything(tmp_path / "my code; 1+1=2")
    tree = pack(str(folder))
    assert tree.uri == f"pack://{EVERYTHING}/my%20code%3B%201+1=2"
    assert pack(str(folder / "large.bin")).uri == f"pack://{ONE_FILE}/large.bin"
    assert len(tree.pieces()) > 3
    for name, size in tree.pieces().items():
        body = tree.content(name)
        assert digest(body) == name and len(body) == size
    put(folder, ".skyignore", "*")
    put(folder, ".tradewindignore", ".*\n*.bin\nodd-\n")
    assert pack(str(folder)).digest == OWN_RULES


def test_what_git_leaves_out_is_packed_when_it_is_named(tmp_path: Path) -> None:
    put(tmp_path, ".git/HEAD")
    put(tmp_path, ".gitignore", "build/\n*.o\n")
    for name in ("build/x.o", "src/x.o", "src/x.c"):
        put(tmp_path, name)

    def names(folder: str) -> list[str]:
        return [e["path"] for e in pack(str(tmp_path / folder)).entries]

    assert names("build") == ["x.o"]
    assert names("src") == ["x.c"]
    assert names(".git") == ["HEAD"]


@pytest.mark.parametrize(
    ("target", "inside"),
    [("../x", False), ("/etc/passwd", False), ("a/../b", False), ("..", False), (".", True), ("a/b", True)],
)
def test_links_out_of_the_folder_are_refused(tmp_path: Path, target: str, inside: bool) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "up").symlink_to(target)
    if inside:
        assert Tree.scan(str(tmp_path / "code")).entries == [{"path": "up", "link": target}]
        return
    with pytest.raises(Unfit, match=r"code/up cannot be packed: it is a link out of .*\.tradewindignore"):
        Tree.scan(str(tmp_path / "code"))


def test_names_and_files_that_cannot_be_packed_say_what_to_do(tmp_path: Path) -> None:
    name = os.path.join(os.fsencode(tmp_path), b"\xff\xfe")
    with open(name, "wb"):
        pass
    with pytest.raises(Unfit, match=r'"\\xff\\xfe" cannot be packed: its name is not UTF-8; rename it'):
        pack(str(tmp_path))
    put(tmp_path, ".tradewindignore", "[!a-z.]?\n")
    assert [e["path"] for e in pack(str(tmp_path)).entries] == [".tradewindignore"]
    os.mkfifo(tmp_path / "pipe")
    assert len(pack(str(tmp_path)).entries) == 1
    with pytest.raises(Unfit, match="neither a file nor a folder"):
        pack(str(tmp_path / "pipe"))
    (tmp_path / "pipe").unlink()
    if os.getuid():
        put(tmp_path, "secret", "x", 0)
        with pytest.raises(Unfit, match="secret cannot be packed: you may not read it"):
            pack(str(tmp_path))


def test_a_limit_says_what_is_large(tmp_path: Path) -> None:
    put(tmp_path, "data/raw/big.bin", "x" * 3000)
    put(tmp_path, "data/raw/other.bin", "x" * 10)
    put(tmp_path, "main.py", "x")
    for i in range(20):
        put(tmp_path, f"cache/deep/{i}")
    with pytest.raises(
        Unfit, match=r"has 2.9 KiB in .*2.0 KiB can be packed.*\n +2.9 KiB +1 files  data/raw/big.bin\n"
    ):
        Tree.scan(str(tmp_path), max_bytes=2048)
    with pytest.raises(Unfit, match=r"more than 10 files can be packed.*\n +0 B +20 files  cache/deep/\n") as said:
        Tree.scan(str(tmp_path), max_files=10)
    assert "a line each in .tradewindignore" in str(said.value)
    put(tmp_path, ".tradewindignore", "cache/\n*.bin\n")
    assert Tree.scan(str(tmp_path), 2048, 10).size == 14


def test_a_file_that_changes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pack, "_STILL", 0.0)
    log, times = put(tmp_path, "out.log", "x"), 0
    scan = Tree.scan

    def changing(path: str) -> Tree:
        nonlocal times
        tree, times = scan(path), times + 1
        if times == 1 or forever:  # of the same size
            at = log.stat().st_mtime_ns + 1_000_000
            put(tmp_path, "out.log", "y")
            os.utime(log, ns=(at, at))
        elif times == 2:  # at the same time
            at = log.stat().st_mtime_ns
            put(tmp_path, "out.log", "yyy")
            os.utime(log, ns=(at, at))
        return tree

    monkeypatch.setattr(Tree, "scan", changing)
    forever = False
    tree = pack(str(tmp_path))  # it comes to rest
    assert times == 3 and tree.size == 3
    forever = True
    with pytest.raises(Changed, match=f"{log} changes while it is packed"):
        pack(str(tmp_path))
    name = next(iter(tree.pieces()))
    put(tmp_path, "out.log", "another")
    with pytest.raises(Changed):
        tree.content(name)
    log.unlink()
    with pytest.raises(Changed):
        tree.content(name)
