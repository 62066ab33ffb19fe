"""Which process evaluates an Optuna trial, and whether it has died.

Optuna keeps a trial of a killed process as running for ever, unless its storage has a heartbeat.
A process can see the others of its machine; of another machine it knows nothing.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["has_died", "this_process"]

GONE = ("Z", "X")  # a zombie has ended, too
STARTED = 19  # the place of the start time in /proc/PID/stat, after the name


def this_process() -> dict[str, Any]:
    """What identifies this process."""
    pid = os.getpid()
    stat = _stat(pid)
    return {**_machine(), "pid": pid, "started": None if stat is None else stat[STARTED]}


def has_died(process: Mapping[str, Any] | None) -> bool:
    """Whether a process of this machine has ended; False if nobody can know."""
    here = _machine()
    if not process or process.get("node") != here["node"]:
        return False
    if process.get("boot") != here["boot"]:
        return True  # the machine was started again
    if process.get("pids") != here["pids"]:
        return False  # another container
    if here["boot"] is None:  # not Linux
        try:
            os.kill(int(process["pid"]), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False
    stat = _stat(int(process["pid"]))
    return stat is None or stat[0] in GONE or stat[STARTED] != process.get("started")


@cache
def _machine() -> Mapping[str, str | None]:
    """The machine, its boot, and the namespace of its process numbers."""
    boot: str | None
    pids: str | None
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        pids = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = pids = None
    return {"node": platform.node(), "boot": boot, "pids": pids}


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may contain any character."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
