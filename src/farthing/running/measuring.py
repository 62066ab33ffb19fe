"""Measure what a running process and its descendants have used."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import NamedTuple

__all__ = ["Measured", "cpu_of", "family", "groups_of", "measure", "megabytes"]


class Measured(NamedTuple):
    """CPU seconds of all processes, and peak memory in MB of each living one by process id."""

    cpu_s: float
    peak_mb: dict[int, float]


def measure(root: int) -> Measured:
    """Measure the descendants of a process, including those it has reaped; zeros if not on Linux.

    The root adopts orphans (see `supervisor`), so every descendant counts: it is either alive, or
    the kernel has added its CPU time to the ancestor that reaped it.
    """
    if sys.platform != "linux":
        return Measured(0.0, {})
    processes = family(root)
    return Measured(
        sum(map(_cpu_s, processes.values())),
        {pid: peak for pid in processes if pid != root and (peak := _peak_mb(pid))},
    )


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, which may have ended, and of the children that it has reaped.

    It is 0 if nobody knows: except on Linux, or after its parent has reaped it.
    """
    return _cpu_s(_fields(pid))


def groups_of(root: int) -> set[int]:
    """The process groups of the descendants of a process; empty if not on Linux."""
    if sys.platform != "linux":
        return set()
    return {int(fields[2]) for pid, fields in family(root).items() if fields and pid != root}


def family(root: int) -> dict[int, list[bytes]]:
    """The fields of /proc/PID/stat after the name, for a process and its descendants.

    They start with state, parent, process group and session. The name may contain any character.
    """
    found: dict[int, list[bytes]] = {}
    children = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _fields(int(name))):
            found[int(name)] = fields
            children[int(fields[1])].append(int(name))
    pids = [root]
    for pid in pids:
        pids.extend(children[pid])
    return {pid: found.get(pid, []) for pid in pids}


def megabytes(maxrss: int) -> float:
    """`ru_maxrss` in MB; Linux gives kilobytes and macOS bytes."""
    return maxrss / (1024.0 if sys.platform == "linux" else 1024.0**2)


def _fields(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _cpu_s(fields: list[bytes]) -> float:
    """utime and stime, and cutime and cstime of the reaped children."""
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) / 1024.0
    return 0.0  # a zombie has no memory


def _read(path: str) -> bytes:
    """Read a small file of the kernel. A Python file object would take several times as long."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # the process has ended since it was listed
        return b""
    try:
        return os.read(descriptor, 1 << 14)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
