"""Files are written whole or not at all, where links lead, with the mode and owner that they had; pipes are not replaced."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import idbandits as idb
from idbandits import files, models
from idbandits.errors import FormatError, IdbanditsError
from idbandits.files import read_whole, write_whole
from idbandits.simulation import results

pytestmark = pytest.mark.skipif(os.name != "posix", reason="about links, pipes and devices of Unix")
NOBODY = 65534
FULL = "No space left on device"


def saved(tmp_path: Path) -> dict[str, Any]:
    """Everything that has a method `save`."""
    d = models.semi_bandit(3, 2)
    world = idb.World(d, {"mean": [0.1, 0.2, 0.3]})
    result = idb.simulate(world, {"idTS": idb.Thompson(d)}, rounds=10, runs=1, progress=False)
    return {"d.json": d, "d.svg": d.draw(), "d.mmd": d.draw(), "agent.npz": idb.Thompson(d), "r.parquet": result,
            "c.parquet": idb.count(d, {"A1": [0], "A2": [1], "X1": [1], "X2": [0]})}  # fmt: skip


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder that anyone may use, while this process is not allowed more than others are."""
    with TemporaryDirectory() as name:  # pytest's own are private
        folder, root = Path(name), os.getuid() == 0
        folder.chmod(0o777)
        try:
            if root:
                os.setegid(NOBODY)
                os.seteuid(NOBODY)
            yield folder
        finally:
            if root:
                os.seteuid(0)
                os.setegid(0)


# -- replaced files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755, 0o4755, 0o2640])
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_replaced_file_keeps_its_mode(mode: int, mask: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    before = os.umask(mask)
    try:
        write_whole(path, b"new")
    finally:
        os.umask(before)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root may give files away")
def test_a_replaced_file_keeps_its_owner_and_group(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 12345, 54321)
    path.chmod(0o4640)
    write_whole(path, b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o4640)
    assert path.read_bytes() == b"new"


def test_what_is_written_is_never_more_public_than_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    modes = []

    def note(fd: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "chmod", lambda path, mode: note(os.open(path, os.O_RDONLY)))
    write_whole(path, b"new")
    assert modes == [0o600, 0o600]


def test_what_a_killed_process_left_is_deleted_by_the_next_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = "\n".join([
        "import os, signal, sys", "from pathlib import Path", "from idbandits.files import write_whole",
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)", "write_whole(Path(sys.argv[1]), b'new')",
    ])  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])}
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, str(path)], env=environment).returncode == -signal.SIGKILL
        assert path.read_bytes() == b"old"
        assert len(os.listdir(tmp_path)) == 2  # that of the first is deleted by the second
    write_whole(tmp_path / "other", b"content")
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_what_others_write_and_what_is_no_leftover_is_not_deleted(tmp_path: Path) -> None:
    names = [f".idbandits-{'0' * 32}.tmp", f".idbandits-{'1' * 31}.tmp", "a.tmp", f"idbandits-{'2' * 32}.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / f".idbandits-{'3' * 32}.tmp").symlink_to(tmp_path / "a.tmp")
    (tmp_path / f".idbandits-{'4' * 32}.tmp").mkdir()
    before = sorted([*os.listdir(tmp_path), "file"])
    with (tmp_path / names[0]).open("ab") as being_written:
        fcntl.flock(being_written, fcntl.LOCK_EX)
        write_whole(tmp_path / "file", b"new")
        assert sorted(os.listdir(tmp_path)) == before
    write_whole(tmp_path / "file", b"new")
    assert sorted(os.listdir(tmp_path)) == [name for name in before if name != names[0]]


def test_a_scratch_file_that_is_taken_for_a_leftover_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, deleted = files._lock, list[str]()

    def delete_first(descriptor: int, *, wait: bool) -> bool:
        if wait and not deleted:  # another process is faster
            deleted.extend(os.listdir(tmp_path))
            (tmp_path / deleted[0]).unlink()
        return lock(descriptor, wait=wait)

    monkeypatch.setattr(files, "_lock", delete_first)
    write_whole(tmp_path / "file", b"new")
    assert len(deleted) == 1
    assert (os.listdir(tmp_path), (tmp_path / "file").read_bytes()) == (["file"], b"new")


def test_files_of_several_structures_need_no_other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    d = models.semi_bandit(3, 2)
    agent = idb.Thompson({"one": d, "two": d}, seed=1)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    agent.save(tmp_path / "agent")
    assert os.listdir(tmp_path) == ["agent"]
    loaded = idb.Thompson.load(tmp_path / "agent")
    assert [loaded.act() for _ in range(5)] == [agent.act() for _ in range(5)]
    assert os.listdir(tmp_path) == ["agent"]


def test_everything_is_saved_this_way(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name, thing in saved(tmp_path).items():
        path, target = tmp_path / name, tmp_path / "there" / name
        target.write_bytes(b"old")
        target.chmod(0o600)
        path.symlink_to(target)
        thing.save(path)
        assert path.is_symlink(), name
        assert target.read_bytes() != b"old", name
        assert stat.S_IMODE(target.stat().st_mode) == 0o600, name
        path.unlink()
        path.symlink_to("/dev/full")
        with pytest.raises(OSError, match=FULL) as raised:
            thing.save(path)
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(path)), name
        assert path.is_symlink(), name
        for wrong in (None, 5, b"bytes", "a\0b", "\ud800", ["a"]):
            with pytest.raises(IdbanditsError, match="path"):
                thing.save(wrong)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_file_that_may_not_be_written_is_not_replaced(nobodys: Path) -> None:
    path = nobodys / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError) as raised:
        write_whole(path, b"new")
    assert raised.value.filename == str(path)
    assert (path.read_bytes(), os.listdir(nobodys)) == (b"old", ["file"])
    path.chmod(0o200)
    write_whole(path, b"new")  # though it cannot be read
    assert stat.S_IMODE(path.stat().st_mode) == 0o200


@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="needs files of two users")
def test_a_file_whose_owner_cannot_be_kept_is_not_replaced(nobodys: Path) -> None:
    path = nobodys / "file"
    os.seteuid(0)
    path.write_bytes(b"old")
    path.chmod(0o666)  # anyone may write it, but it would change hands
    os.seteuid(NOBODY)
    with pytest.raises(PermissionError) as raised:
        write_whole(path, b"new")
    assert raised.value.filename == str(path)
    assert (path.read_bytes(), os.listdir(nobodys)) == (b"old", ["file"])


def test_a_file_in_a_folder_that_takes_no_others_is_left_as_it_is(nobodys: Path) -> None:
    path = nobodys / "there" / "file"
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.parent.chmod(0o555)
    with pytest.raises(PermissionError) as raised:
        write_whole(path, b"new")
    path.parent.chmod(0o755)
    assert raised.value.filename == str(path)
    assert (path.read_bytes(), os.listdir(path.parent)) == (b"old", ["file"])


# -- links ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
def test_links_are_followed(exists: bool, absolute: bool, tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    target = tmp_path / "far" / "away" / "file"
    if exists:
        target.write_bytes(b"old")
    (tmp_path / "far" / "second").symlink_to(target if absolute else "away/file")
    (tmp_path / "folder").symlink_to("far")
    (tmp_path / "first").symlink_to(tmp_path / "folder" / "second" if absolute else "folder/second")
    write_whole(tmp_path / "first", b"new")
    assert target.read_bytes() == b"new"
    assert os.listdir(target.parent) == ["file"]
    assert all(link.is_symlink() for link in (tmp_path / "first", tmp_path / "far" / "second", tmp_path / "folder"))
    assert sorted(os.listdir(tmp_path)) == ["far", "first", "folder"]


def test_a_link_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    os.symlink("../file", "link")
    write_whole(Path("link"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_loop_of_links_is_an_error_that_names_the_path(length: int, tmp_path: Path) -> None:
    for i in range(length):
        (tmp_path / f"link {i}").symlink_to(f"link {(i + 1) % length}")
    path, before = tmp_path / "link 0", sorted(os.listdir(tmp_path))
    with pytest.raises(OSError, match="symbolic links") as raised:
        write_whole(path, b"new")
    assert (raised.value.errno, raised.value.filename) == (errno.ELOOP, str(path))
    assert sorted(os.listdir(tmp_path)) == before


def test_a_link_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere/file")
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(tmp_path / "link", b"new")
    assert raised.value.filename == str(tmp_path / "link")
    assert os.listdir(tmp_path) == ["link"]


# -- what is not a regular file --------------------------------------------------------------------------------------


def test_a_full_device_is_an_error_and_stays(tmp_path: Path) -> None:
    for path in (Path("/dev/full"), tmp_path / "link"):
        if path != Path("/dev/full"):
            path.symlink_to("/dev/full")
        with pytest.raises(OSError, match=FULL) as raised:
            write_whole(path, b"new")
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(path))
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    write_whole(Path("/dev/null"), b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("linked", [True, False])
def test_a_pipe_is_written_to(linked: bool, tmp_path: Path) -> None:
    pipe, content, read = tmp_path / "pipe", os.urandom(300_000), []
    os.mkfifo(pipe)
    path = tmp_path / "link" if linked else pipe
    if linked:
        path.symlink_to("pipe")
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(path, content)
    reader.join(timeout=60)
    assert read == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == sorted({"pipe", path.name})


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_what_the_shell_has_opened_is_added_to(name: str, kind: str, tmp_path: Path) -> None:
    if not os.path.exists(name):
        pytest.skip(f"there is no {name}")
    code = f"import idbandits.files, pathlib; idbandits.files.write_whole(pathlib.Path({name!r}), b'new')"
    out, log = subprocess.PIPE, tmp_path / "log"
    log.write_bytes(b"old, " * (kind == "file"))
    environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])}
    with log.open("ab") as appended:
        stdout = out if kind == "pipe" else appended
        ended = subprocess.run([sys.executable, "-c", code], stdout=stdout, stderr=out, env=environment, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert (ended.stdout if kind == "pipe" else log.read_bytes()) == (b"new" if kind == "pipe" else b"old, new")
    assert os.listdir(tmp_path) == ["log"]


@pytest.mark.parametrize("linked", [True, False])
def test_a_folder_is_an_error(linked: bool, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    path = tmp_path / ("link" if linked else "folder")
    with pytest.raises(IsADirectoryError) as raised:
        write_whole(path, b"new")
    assert raised.value.filename == str(path)
    assert os.listdir(tmp_path / "folder") == []


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/dev/zero", "large", "pipe"])
def test_reading_ends(path: str, tmp_path: Path) -> None:
    large, pipe = tmp_path / "large", tmp_path / "pipe"
    large.write_bytes(b"x" * 1001)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"x" * 1001))
    if path == "pipe":
        writer.start()
    with pytest.raises(FormatError, match="larger than the 1,000 bytes"):
        read_whole(tmp_path / path, 1000)
    if path == "pipe":
        writer.join(timeout=60)
    assert read_whole(large, 1001) == b"x" * 1001


def test_endless_files_are_rejected_by_all_that_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_BYTES", 2000)
    for load, limit in ((idb.Diagram.load, "100,000,000"), (idb.Result.load, "2,000")):
        with pytest.raises(FormatError, match=f"/dev/zero: larger than the {limit} bytes"):
            load("/dev/zero")
        for wrong in (None, 5, b"bytes", "a\0b", "\ud800", ["a"]):
            with pytest.raises(IdbanditsError, match="path"):
                load(wrong)  # type: ignore[arg-type]
