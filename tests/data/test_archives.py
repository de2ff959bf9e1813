"""Folders and archives look the same, and none is trusted."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from image_trees import write_tar, write_tree, write_zip
from unicorn_maml.data import archives
from unicorn_maml.data.archives import Sources, shown
from unicorn_maml.errors import FileError, UsageError

FILES = {"a/1.jpg": b"one", "a/2.jpg": b"two" * 1000, "list.csv": b"text"}


def problems(*paths: Path) -> str:
    with Sources(paths) as sources:
        return "\n".join(map(str, sources.problems))


@pytest.mark.parametrize("form", ["folder", "a.zip", "a.tar", "a.tar.gz", "a.tgz"])
def test_members_are_listed_and_read_alike_in_any_form(tmp_path, form):
    if form == "folder":
        path = write_tree(tmp_path / form, FILES)
    else:
        path = (write_zip if form == "a.zip" else write_tar)(tmp_path / form, FILES)
    with Sources([path]) as sources:
        content = {each.path: sources.read(each) for each in sources.members}
        backwards = [sources.read(each) for each in reversed(sources.members)]
    assert content == FILES
    assert backwards == list(reversed(content.values()))
    assert not sources.problems


def test_archives_in_a_folder_are_opened_too(tmp_path):
    folder = write_tree(tmp_path / "all", {"x.jpg": b"x", ".hidden/y.jpg": b"y"})
    write_zip(folder / "b.zip", {"b.jpg": b"b", "__MACOSX/b.jpg": b"litter"})
    (folder / "._b.zip").write_bytes(b"litter of macOS, which is no archive")
    write_tar(folder / "c.tar", {"./c.jpg": b"c"})
    with Sources([folder]) as sources:
        assert {each.path: sources.read(each) for each in sources.members} == {
            "x.jpg": b"x",
            "b.jpg": b"b",
            "c.jpg": b"c",
        }
        assert not sources.problems


@pytest.mark.parametrize("name", ["../out.jpg", "/etc/out.jpg", "a/../../out.jpg", "C:\\out.jpg"])
def test_paths_that_lead_out_of_an_archive_are_refused(tmp_path, name):
    for archive in (
        write_zip(tmp_path / "a.zip", {name: b"x", "good.jpg": b"y"}),
        write_tar(tmp_path / "a.tar", {name: b"x", "good.jpg": b"y"}),
    ):
        with Sources([archive]) as sources:
            assert [each.path for each in sources.members] == ["good.jpg"]
            assert "leads out of the archive" in str(sources.problems[0])


def test_links_and_devices_in_archives_are_refused(tmp_path):
    entries = []
    kinds = {"soft": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "dev": tarfile.CHRTYPE}
    for name, kind in kinds.items():
        entry = tarfile.TarInfo(f"{name}.jpg")
        entry.type, entry.linkname = kind, "/etc/passwd"
        entries.append(entry)
    found = problems(write_tar(tmp_path / "a.tar", FILES, *entries))
    assert "soft.jpg: is a link" in found
    assert "hard.jpg: is a link" in found
    assert "dev.jpg: is a device" in found
    link = zipfile.ZipInfo("link.jpg")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "link.jpg: is a link" in problems(tmp_path / "a.zip")


def test_links_out_of_a_folder_are_refused_and_links_inside_are_followed(tmp_path):
    outside = write_tree(tmp_path / "outside", {"secret.jpg": b"secret"})
    folder = write_tree(tmp_path / "folder", {"a.jpg": b"a"})
    (folder / "b.jpg").symlink_to("a.jpg")
    (folder / "c.jpg").symlink_to(outside / "secret.jpg")
    (folder / "d").symlink_to(outside)
    (folder / "e").symlink_to(folder)  # followed, it would never end
    (folder / "f.jpg").symlink_to("nowhere.jpg")
    with Sources([folder]) as sources:
        assert [each.path for each in sources.members] == ["a.jpg", "b.jpg"]
        names = [Path(each.name).name for each in sources.problems]
    assert names == ["c.jpg", "d", "e", "f.jpg"]


def test_zip_bombs_are_refused_before_they_are_unpacked(tmp_path):
    found = problems(write_zip(tmp_path / "a.zip", {"x.png": bytes(4 * 2**20)}))
    assert "x.png: unpacks to far more than an image can" in found
    huge = tarfile.TarInfo("x.png")
    huge.size = 10**12
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.fileobj.write(huge.tobuf())
        archive.fileobj.write(bytes(2**20))
    assert "x.png: unpacks to far more" in problems(path)


def test_a_tar_header_with_a_negative_size_ends_the_reading(tmp_path):
    header = bytearray(tarfile.TarInfo("x.png").tobuf())
    header[124:136] = b"\xff" * 10 + (-1024 % 2**16).to_bytes(2, "big")  # in base 256
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    path = tmp_path / "a.tar"
    content = tarfile.TarInfo("first.png")
    content.size = 512
    path.write_bytes(content.tobuf() + bytes(512) + bytes(header) + bytes(10240))
    assert "x.png: unpacks to far more" in problems(path)


def test_a_tar_header_that_claims_a_huge_name_is_not_believed(tmp_path):
    long_name = tarfile.TarInfo("././@LongLink")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, 10**10
    path = tmp_path / "a.tar"
    path.write_bytes(long_name.tobuf(format=tarfile.GNU_FORMAT) + bytes(10240))
    assert "claims an absurd length" in problems(path)


def test_a_file_larger_than_the_limit_is_not_read(tmp_path, monkeypatch):
    folder = write_tree(tmp_path / "folder", {"a.jpg": bytes(2000)})
    monkeypatch.setattr(archives, "LARGEST_FILE", 1000)
    with Sources([folder]) as sources, pytest.raises(FileError, match="is larger than"):
        sources.read(sources.members[0])


@pytest.mark.parametrize("name", ["a.zip", "a.npz", "a.tar", "a.tar.gz", "a.tar.xz"])
def test_a_damaged_archive_is_a_problem_and_no_crash(tmp_path, name):
    (tmp_path / name).write_bytes(b"no archive at all" * 100)
    assert "is not a sound archive" in problems(tmp_path / name)


def test_a_damaged_member_is_named_and_the_others_are_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.jpg", b"AAAA" * 10)
        archive.writestr("b.jpg", b"BBBB" * 10)
    content = (tmp_path / "a.zip").read_bytes().replace(b"AAAA", b"XAAA", 1)
    (tmp_path / "a.zip").write_bytes(content)
    with Sources([tmp_path / "a.zip"]) as sources:
        first, second = sources.members
        with pytest.raises(FileError, match=r"cannot be read .*CRC"):
            sources.read(first)
        assert sources.read(second) == b"BBBB" * 10


def test_names_that_are_not_utf8_are_refused_and_can_be_printed(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")
    tar = write_tar(tmp_path / "a.tar", {name: b"x", "\x1b[31mred.jpg": b"y"})
    with Sources([tar]) as sources:
        assert [str(each) for each in sources.problems] == [
            r"a.tar: caf\xe9.jpg: has a name that is not UTF-8; rename it"
        ]
        assert sources.name(sources.members[0]) == r"a.tar: \x1b[31mred.jpg"
    assert shown("plain/né.jpg") == "plain/né.jpg"
    assert shown("\ud800") == r"\ud800"


def test_an_unreadable_folder_is_named_and_the_rest_is_listed(tmp_path, monkeypatch):
    folder = write_tree(tmp_path / "all", {"closed/a.jpg": b"a", "open/b.jpg": b"b"})
    scan = os.scandir

    def refuse(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with Sources([folder]) as sources:
        assert [each.path for each in sources.members] == ["open/b.jpg"]
        assert "closed/: cannot be listed (Permission denied)" in str(sources.problems[0])


def test_a_missing_source_and_one_that_is_no_archive_are_wrong_usage(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UsageError, match="There is no folder or archive"):
        Sources([tmp_path / "missing.zip"])
    with pytest.raises(UsageError, match="neither a folder nor an archive"):
        Sources([tmp_path / "a.txt"])
