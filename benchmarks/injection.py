"""Let a system call of a command fail, or the command be killed there: strace does it.

The command runs in a process forked from this one, which has imported everything before: `strace`
is attached to it, and counts its calls from then on. A call counts as a step if it is on a file
below one folder, which holds everything that the command reads and writes.
"""

import ctypes
import gc
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# What fails, and by which errors: one that a disk has, and one that a user meets.
ERRORS = {
    "openat": ("EIO", "EACCES", "EMFILE"),
    "read": ("EIO",),
    "pread64": ("EIO",),
    "getdents64": ("EIO",),
    "write": ("ENOSPC", "EIO"),
    "fsync": ("EIO", "ENOSPC"),
    "close": ("EIO",),  # what a network disk says late
    "flock": ("ENOLCK",),
    "utimensat": ("EPERM",),
    "rename": ("EIO", "EACCES", "ENOSPC"),
    "mkdir": ("ENOSPC", "EACCES"),
    "unlink": ("EIO", "EACCES"),
    "unlinkat": ("EIO", "EACCES"),
    "rmdir": ("EIO", "EACCES"),
    "newfstatat": ("EIO", "EACCES"),
}
READ_ONLY = {"read", "pread64", "getdents64", "newfstatat", "close"}  # killed there: as at the next
KILL = "killed"
_TIMEOUT = 60  # seconds after which a command hangs


@dataclass(frozen=True)
class Step:
    """The nth call of a kind since the start; `line` is what strace says of it."""

    call: str
    n: int
    line: str = ""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (-9: killed), what it printed, what strace wrote."""

    code: int
    out: str
    err: str
    log: str = ""


def why_not() -> str:
    """Why nothing can be injected here; empty if it can."""
    if not sys.platform.startswith("linux") or not shutil.which("strace"):
        return "needs strace, on Linux"
    trial = Path("/proc/self/status").read_text()
    if "TracerPid:\t0" not in trial:
        return "this process is traced already"
    done = _forked(lambda: 0, Path(os.devnull), _strace(Path(os.devnull), ""))
    return "" if done.code == 0 else f"strace cannot trace here: {done.log}"


def steps(work: Callable[[], int], folder: Path, log: Path) -> tuple[list[Step], Ended]:
    """The steps of a command in their order, from a run that nothing disturbs."""
    ended = _forked(work, log.with_suffix(".out"), _strace(log, ""))
    seen, found = Counter(), []
    for line in log.read_text(errors="replace").splitlines():
        if made := re.match(r"(\w+)\(", line):
            seen[made[1]] += 1
            if f"{folder}/" in line or f"{folder}>" in line or f'{folder}"' in line:
                found.append(Step(made[1], seen[made[1]], line))
    return found, ended


def faults(found: list[Step], alike: int = 0) -> list[tuple[Step, str]]:
    """Every fault of every step: the name of an error, or `KILL` where the call may change a file.

    `alike`: of steps that look the same, such as looking for one absent run after another, at most
    so many, spread over all of them (0: all).
    """
    by_look: dict[tuple, list[Step]] = {}
    for step in found:
        by_look.setdefault(_look(step), []).append(step)
    tried = set()
    for steps in by_look.values():
        some = min(alike or len(steps), len(steps))
        tried |= {steps[i * len(steps) // some] for i in range(some)}
    return [
        (step, how)
        for step in found
        if step in tried
        for how in (*ERRORS[step.call], *((KILL,) if step.call not in READ_ONLY else ()))
    ]


def _look(step: Step) -> tuple[str, str]:
    """A call without its numbers and, if it found nothing, without the name of the run."""
    text = re.sub(r"0x[0-9a-f]+|\d+", "", step.line)
    return step.call, re.sub(r'/runs/[^/"]+', "/runs", text) if "ENOENT" in text else text


def injected(work: Callable[[], int], step: Step, how: str, folder: Path, log: Path):
    """The command with a fault at a step, or None if it met a call on other files or none."""
    kill = how == KILL
    rule = f"{step.call}:{'signal=KILL' if kill else f'error={how}'}:when={step.n}"
    ended = _forked(work, log.with_suffix(".out"), _strace(log, rule))
    lines = log.read_text(errors="replace").splitlines()
    if kill:
        met = ended.code == -signal.SIGKILL and next((x for x in lines[::-1] if "(" in x), "")
    else:
        met = next((line for line in lines if line.endswith("(INJECTED)")), "")
    return ended if met and _files(met, folder) == _files(step.line, folder) else None


def _files(line: str, folder: Path) -> list[str]:
    """The files in a folder that a call is on, by their names without numbers, which change."""
    call = line.partition(" = ")[0]
    found = re.findall(rf'[<"]{re.escape(str(folder))}([^">]*)', call)
    return [re.sub(r"[0-9a-f]{8,}|\d+", "", name) for name in found]


def plain(work: Callable[[], int], log: Path) -> Ended:
    """The command by itself, in a process of its own."""
    return _forked(work, log.with_suffix(".out"), [])


def _strace(log: Path, rule: str) -> list[str]:
    inject = ["-e", f"inject={rule}"] if rule else []
    return ["strace", "-y", "-o", str(log), "-e", f"trace={','.join(ERRORS)}", *inject, "-p"]


def _forked(work: Callable[[], int], printed: Path, strace: list[str]) -> Ended:
    """Fork, attach strace, let the child work, wait for it."""
    begin, go = os.pipe()
    waiting, waits = os.pipe()
    sys.stdout.flush(), sys.stderr.flush()
    child = os.fork()
    if not child:
        gc.freeze()  # collecting this process's garbage would close files, and count as steps
        code = 99
        try:
            ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1))  # PR_SET_PTRACER, any
            for number, suffix in ((1, ".1"), (2, ".2")):
                way = printed if printed.name == "null" else printed.with_suffix(suffix)
                os.dup2(os.open(way, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
            os.close(go), os.close(waits)  # now strace may attach: what follows is the command's
            select.select([begin], [], [])
            code = work()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
    os.close(begin), os.close(waits)
    os.read(waiting, 1), os.close(waiting)
    tracer, said = None, ""
    if strace:
        tracer = subprocess.Popen([*strace, str(child)], stderr=subprocess.PIPE, text=True)
        said = tracer.stderr.readline()
    if not strace or "attached" in said:
        os.close(go)  # it goes
    else:
        os.kill(child, signal.SIGKILL), os.close(go)
    until = time.monotonic() + _TIMEOUT
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    if tracer:
        tracer.communicate()
    texts = ["", ""]
    if printed.name != "null":
        texts = [printed.with_suffix(s).read_text(errors="replace") for s in (".1", ".2")]
    return Ended(os.waitstatus_to_exitcode(ended[1]), *texts, said)
