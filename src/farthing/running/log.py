"""What an evaluation prints, kept in a file of bounded size: its beginning and its end."""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from farthing.running.output import Tail

__all__ = ["MAX_LOG", "Log", "find_log", "open_log"]

MAX_LOG = 10_000_000  # bytes of a file
MAX_TAIL = (20, 4_000)  # lines, and characters, of what is kept with the trial


class Log:
    """Everything one evaluation prints, in the order in which it came, as a terminal shows it.

    A file that would grow beyond its limit loses its middle, and a line says how much that was.
    What cannot be written is not kept: an evaluation is not to blame for a full disk.

    Args:
        path: of the file, which is begun anew; None: only the last lines are kept, and in memory.
        limit: bytes that the file may have.
    """

    def __init__(self, path: Path | None, limit: int = MAX_LOG) -> None:
        self._tail = Tail()
        self._limit = limit
        self._size = self._left_out = 0
        self._mark = b""  # the line that says how much was left out
        self._stream: object = None  # whose bytes came last,
        self._in_a_line = False  # and whether they ended within a line
        self._file: io.FileIO | None = None
        if path is not None:
            with suppress(OSError):
                _make_private(path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = io.FileIO(os.open(path, flags, 0o600), "r+")

    def feed(self, stream: object, data: bytes) -> None:
        """Bytes of one of the streams; one that interrupts another begins a line of its own."""
        if not data:
            return
        if self._in_a_line and stream is not self._stream:
            data = b"\n" + data
        self._stream, self._in_a_line = stream, not data.endswith(b"\n")
        self._tail.feed(data)
        piece = max(self._limit // 4, 1)
        try:
            for begin in range(0, len(data), piece):
                self._write(data[begin : begin + piece])
        except OSError:  # no room: what was kept so far stays
            self.close()

    @property
    def tail(self) -> str:
        """The last lines."""
        lines, characters = MAX_TAIL
        return "\n".join(self._tail.text.splitlines()[-lines:])[-characters:]

    def close(self) -> None:
        """Nothing more will come."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        if self._size + len(data) <= self._limit:
            self._size += self._file.write(data)
            return
        first, last = self._limit // 4, self._limit // 2
        begin = first + len(self._mark)
        self._file.seek(begin)
        rest = self._file.read(self._size - begin) + data
        cut = max(len(rest) - last, 0)
        self._left_out += cut
        self._mark = b"\n[%d bytes were left out here]\n" % self._left_out
        self._file.seek(first)
        self._file.write(self._mark + rest[cut:])
        self._file.truncate()
        self._size = self._file.tell()


def find_log(folder: Path, number: int, told: str | None) -> Path | None:
    """The file of a trial in the folder of its study; None if there is none that may be read.

    Args:
        folder: that of the study, as this process has it.
        number: of the trial.
        told: the path that a database names, which could be any: it counts only where it is the
            trial's file in a folder beside that of the study, which may have had another name. The
            study's own folder comes first: that of its old name may be another study's by now.
    """
    name = f"{number}.log"
    paths = [folder / name]
    if told is not None:
        path = Path(told)
        if path == folder.parent / path.parent.name / name and path.parent.name != "..":
            paths.append(path)
    for path in paths:
        with suppress(OSError, ValueError):  # a path may hold what no path can
            open_log(path).close()
            return path
    return None


def open_log(path: Path) -> BinaryIO:
    """To read: a regular file of this user's, and no link to one.

    Raises:
        OSError: it is another, or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(f"{path}: expected a regular file of yours. It is not read.")
    return open(descriptor, "rb")


def _make_private(folder: Path) -> None:
    """A folder, and those that it is in, are their owner's only where they are new."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
