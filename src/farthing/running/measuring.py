"""What a running process and all its descendants have used."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import NamedTuple

__all__ = ["Measured", "groups_of", "measure", "megabytes"]


class Measured(NamedTuple):
    """CPU seconds of all, the peak memory of each that is alive."""

    cpu_s: float
    peak_mb: dict[int, float]


def measure(root: int) -> Measured:
    """Of the descendants of a process, those it has waited for included; Linux only, else nothing.

    The root adopts orphans (see `guard`), so the CPU time of no descendant is lost: it is either
    alive, or in the account of the ancestor that waited for it.
    """
    if sys.platform != "linux":
        return Measured(0.0, {})
    family = _family(root)
    return Measured(
        # utime, stime, and both of the children that were waited for.
        sum(sum(map(int, fields[11:15])) for fields in family.values() if fields)
        / os.sysconf("SC_CLK_TCK"),
        {pid: peak for pid in family if pid != root and (peak := _peak_mb(pid))},
    )


def groups_of(root: int) -> set[int]:
    """The process groups of the descendants of a process; Linux only, else none."""
    if sys.platform != "linux":
        return set()
    return {int(fields[2]) for pid, fields in _family(root).items() if fields and pid != root}


def _family(root: int) -> dict[int, list[bytes]]:
    """A process and its descendants, and of each what the kernel says of it after its name, which
    may hold anything: state, parent, group, ...
    """
    found: dict[int, list[bytes]] = {}
    children = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _read(f"/proc/{name}/stat")):
            found[int(name)] = fields = stat.rpartition(b")")[2].split()
            children[int(fields[1])].append(int(name))
    family = [root]
    for pid in family:
        family.extend(children[pid])
    return {pid: found.get(pid, []) for pid in family}


def megabytes(maxrss: int) -> float:
    """`ru_maxrss`, which Linux counts in kilobytes and macOS in bytes."""
    return maxrss / (1024.0 if sys.platform == "linux" else 1024.0**2)


def _peak_mb(pid: int) -> float:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) / 1024.0
    return 0.0  # a zombie has no memory


def _read(path: str) -> bytes:
    """A small file of the kernel's; a file object would take several times as long."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # gone since it was listed
        return b""
    try:
        return os.read(descriptor, 1 << 14)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
