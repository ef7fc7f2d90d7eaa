"""Let a system call of a command fail, or kill the command at the call, by `strace`.

The command runs in a fork of this process, which has imported everything before. `strace` is
attached to the fork and counts its system calls from then on. A call on a file below one folder is
a step. This folder holds everything that the command reads and writes.
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

# System calls that fail, and their errors: an error of the disk, and one that users meet.
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
    """The nth call of a kind since the start; `line` is the line of strace about it."""

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
    """Say why no faults can be injected on this machine; empty if they can."""
    if not sys.platform.startswith("linux") or not shutil.which("strace"):
        return "needs strace, on Linux"
    trial = Path("/proc/self/status").read_text()
    if "TracerPid:\t0" not in trial:
        return "this process is traced already"
    done = _forked(lambda: 0, Path(os.devnull), _strace(Path(os.devnull), ""))
    return "" if done.code == 0 else f"strace cannot trace here: {done.log}"


def steps(work: Callable[[], int], folder: Path, log: Path) -> tuple[list[Step], Ended]:
    """Run a command undisturbed, and list its steps in order."""
    ended = _forked(work, log.with_suffix(".out"), _strace(log, ""))
    seen, found = Counter(), []
    for line in log.read_text(errors="replace").splitlines():
        if made := re.match(r"(\w+)\(", line):
            seen[made[1]] += 1
            if f"{folder}/" in line or f"{folder}>" in line or f'{folder}"' in line:
                found.append(Step(made[1], seen[made[1]], line))
    return found, ended


def faults(found: list[Step], alike: int = 0) -> list[tuple[Step, str]]:
    """List every fault: a step with the name of an error, or with `KILL`.

    `KILL` is listed for calls that may change a file. `alike` limits the number of steps that look
    the same, such as looking for one missing run after another; the steps taken are spread evenly.
    0 takes all steps.
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
    """Write a call without numbers; a call that found nothing also without the name of the run."""
    text = re.sub(r"0x[0-9a-f]+|\d+", "", step.line)
    return step.call, re.sub(r'/runs/[^/"]+', "/runs", text) if "ENOENT" in text else text


def injected(work: Callable[[], int], step: Step, how: str, folder: Path, log: Path):
    """Run a command with a fault at a step; None if the fault met no call, or another file."""
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
    """List the files of a folder that a call names, without the numbers in their names."""
    call = line.partition(" = ")[0]
    found = re.findall(rf'[<"]{re.escape(str(folder))}([^">]*)', call)
    return [re.sub(r"[0-9a-f]{8,}|\d+", "", name) for name in found]


def plain(work: Callable[[], int], log: Path) -> Ended:
    """Run a command without faults in a separate process."""
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
