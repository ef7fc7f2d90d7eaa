"""Checkpoints: how an interrupted run goes on after its last whole epoch, with the same bytes.

A file has the SHA-256 of its content, then what `torch.save` writes; torch does not check sums.
"""

import hashlib
import io
import json
import os

import torch

import calibkit
from calibkit_companion.records import folders

# Attributes of a `loop.Training` that are kept besides weights and random states.
CONTINUED = "epoch history wrong_until early followed kept seconds samples passes".split()


def save(training, spent: float) -> None:
    """Write a checkpoint: everything that decides how a run continues.

    Parameters
    ----------
    training : a `loop.Training` after an epoch; its `checkpoint` is the path
    spent : seconds of training so far
    """
    state = {name: getattr(training, name) for name in CONTINUED} | {
        "made_by": _maker(training),
        "spent": spent,
        "network": training.network.state_dict(),
        "average": training.average.state_dict() if training.average else None,
        "optimizer": training.optimizer.state_dict(),
        "memory": training.training_set.memory,
        "random": (torch.get_rng_state(), training.crops.get_state()),
        "rng": json.dumps(training.rng.bit_generator.state),
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    draft = training.checkpoint.with_suffix(f".{os.getpid()}")
    try:
        draft.write_bytes(hashlib.sha256(content).digest() + content)
        draft.replace(training.checkpoint)
    except OSError as error:  # a disk that is full now may have room at the end
        draft.unlink(missing_ok=True)
        training.log(f"{training.run.name}: checkpoint not written ({error})")


def resume(training) -> None:
    """Continue from the checkpoint, if it is whole and from this code and device.

    Parameters
    ----------
    training : a `loop.Training`, freshly made; its `checkpoint` is the path
    """
    if not training.checkpoint.exists():
        return
    try:
        stored = training.checkpoint.read_bytes()
        if hashlib.sha256(stored[32:]).digest() != stored[:32]:
            raise ValueError("it is damaged")
        state = torch.load(io.BytesIO(stored[32:]), "cpu", weights_only=True)
        if state["made_by"] != _maker(training):
            raise ValueError("it is of another version or device")
    except Exception as error:  # torch has many ways to say that a file is damaged
        training.log(f"{training.run.name}: checkpoint not used ({error})")
        return
    training.network.load_state_dict(state["network"])
    if training.average:
        training.average.load_state_dict(state["average"])
    training.optimizer.load_state_dict(state["optimizer"])
    for name, values in training.training_set.memory.items():
        values.copy_(state["memory"][name])
    for name in (*CONTINUED, "spent"):
        setattr(training, name, state[name])
    training.wrong_until = training.wrong_until.to(training.device)
    torch.set_rng_state(state["random"][0])
    training.crops.set_state(state["random"][1])
    training.rng.bit_generator.state = json.loads(state["rng"])
    training.log(f"{training.run.name}: goes on after epoch {training.epoch}")


def _maker(training) -> list[str]:
    """Versions and device that a checkpoint belongs to."""
    versions = [calibkit.__version__, folders.VERSION, str(torch.__version__)]
    return [*versions, training.device.type, *CONTINUED]
