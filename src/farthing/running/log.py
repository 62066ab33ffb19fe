"""The output of an evaluation in a file of bounded size."""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from farthing.running.output import Tail

__all__ = ["MAX_LOG", "Log", "find_log", "open_log"]

MAX_LOG = 10_000_000  # bytes of a log file
MAX_TAIL = (20, 4_000)  # lines and characters that the study stores with the trial


class Log:
    """All output of one evaluation, in the order in which it arrived.

    If the file would exceed its limit, the middle is removed, and a line says how many bytes that
    was. If the file cannot be written, the output is discarded and the evaluation continues.

    Args:
        path: the file, which is overwritten; None to keep only the last lines, in memory.
        limit: maximal size of the file in bytes.
    """

    def __init__(self, path: Path | None, limit: int = MAX_LOG) -> None:
        self._tail = Tail()
        self._limit = limit
        self._size = self._left_out = 0
        self._mark = b""  # the line that says how many bytes were left out
        self._stream: object = None  # the source of the last bytes
        self._in_a_line = False  # whether the last bytes ended within a line
        self._file: io.FileIO | None = None
        if path is not None:
            with suppress(OSError):
                _make_private(path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = io.FileIO(os.open(path, flags, 0o600), "r+")

    def feed(self, stream: object, data: bytes) -> None:
        """Add bytes from a stream. A new line starts if another stream's line is incomplete."""
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
        except OSError:  # for example a full disk
            self.close()

    @property
    def tail(self) -> str:
        """The last lines."""
        lines, characters = MAX_TAIL
        return "\n".join(self._tail.text.splitlines()[-lines:])[-characters:]

    def close(self) -> None:
        """Close the file."""
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


def find_log(folder: Path, number: int, stored: str | None) -> Path | None:
    """The log file of a trial; None if there is none that this user may read.

    Args:
        folder: the log folder of the study.
        number: number of the trial.
        stored: the path in the database. It may have been manipulated, so it counts only if it is
            the trial's file in a folder next to `folder`: the study may have been renamed. `folder`
            has priority, because another study may use the old name by now.
    """
    name = f"{number}.log"
    paths = [folder / name]
    if stored is not None:
        path = Path(stored)
        if path == folder.parent / path.parent.name / name and path.parent.name != "..":
            paths.append(path)
    for path in paths:
        with suppress(OSError, ValueError):  # the stored text may not be a valid path
            open_log(path).close()
            return path
    return None


def open_log(path: Path) -> BinaryIO:
    """Open a regular file that belongs to this user, for reading.

    Raises:
        OSError: it is a link, not a regular file, another user's, or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(f"{path} is not read: expected a regular file that you own.")
    return open(descriptor, "rb")


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents so that only their owner may enter them."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
