"""What a running process and all its descendants have used."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import NamedTuple

__all__ = ["Measured", "measure", "megabytes"]


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
    ticks: dict[int, int] = {}
    children = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _read(f"/proc/{name}/stat")):
            # After the name, which may hold anything: state, parent, ..., utime, stime, and both
            # of the children that were waited for.
            fields = stat.rpartition(b")")[2].split()
            children[int(fields[1])].append(int(name))
            ticks[int(name)] = sum(map(int, fields[11:15]))
    family = [root]
    for pid in family:
        family.extend(children[pid])
    return Measured(
        sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK"),
        {pid: peak for pid in family[1:] if (peak := _peak_mb(pid))},
    )


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
