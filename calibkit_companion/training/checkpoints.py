"""Checkpoints, from which an interrupted run continues after its last complete epoch.

The record of a resumed run has the same bytes as the record of an uninterrupted run. A checkpoint
file starts with the SHA-256 of its content, because torch checks no checksum. Then follows the
output of `torch.save`.
"""

import hashlib
import io
import json
import os
from collections.abc import Generator

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

import calibkit
from calibkit_companion.records import folders
from calibkit_companion.training import turns

# Attributes of a `loop.Training` that a checkpoint keeps besides weights and random states.
CONTINUED = "epoch history wrong_until early followed kept seconds samples passes".split()


def saving(training, spent: float) -> Generator[turns.Ready, None, None]:
    """Write a checkpoint with everything that decides how a run continues, in turns with others.

    Parameters
    ----------
    training : a `loop.Training` after an epoch; the attribute `checkpoint` is the path of the file
    spent : seconds of training so far
    """
    device = training.device
    state = {name: getattr(training, name) for name in CONTINUED} | {
        "made_by": _maker(training),
        "spent": spent,
        "network": training.network.state_dict(),
        "average": training.average.state_dict() if training.average else None,
        "optimizer": training.optimizer.state_dict(),
        "memory": training.training_set.memory,
        "random": (torch.get_rng_state(), training.crops.get_state()),
        "random_of_gpu": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "rng": json.dumps(training.rng.bit_generator.state),
    }
    copy = tree_map_only(Tensor, lambda each: each.detach().to("cpu", copy=True), state)
    yield from turns.result(training.company.worker.submit(_write, copy, training))


def _write(state: dict, training) -> None:
    """Write a state into the checkpoint file of a training."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    draft = training.checkpoint.with_suffix(f".{os.getpid()}")
    try:
        draft.write_bytes(hashlib.sha256(content).digest() + content)
        draft.replace(training.checkpoint)
    except OSError as error:  # training goes on: a full disk may have room later
        draft.unlink(missing_ok=True)
        training.log(f"{training.run.name}: checkpoint not written ({error})")


def resume(training) -> None:
    """Load the checkpoint of a run into a new training.

    A checkpoint that is damaged, or that another version or device wrote, is not used. The log
    says so, and the training starts at the first epoch.

    Parameters
    ----------
    training : a new `loop.Training`; the attribute `checkpoint` is the path of the file
    """
    if not training.checkpoint.exists():
        return
    try:
        stored = training.checkpoint.read_bytes()
        if hashlib.sha256(stored[32:]).digest() != stored[:32]:
            raise ValueError("the file is damaged")
        state = torch.load(io.BytesIO(stored[32:]), "cpu", weights_only=True)
        if state["made_by"] != _maker(training):
            raise ValueError("another version or device wrote the file")
    except Exception as error:  # torch raises many kinds of error for a damaged file
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
    if (random := state.get("random_of_gpu")) is not None:  # older versions did not keep it
        torch.cuda.set_rng_state(random, training.device)
    training.rng.bit_generator.state = json.loads(state["rng"])
    training.log(f"{training.run.name}: goes on after epoch {training.epoch}")


def _maker(training) -> list[str]:
    """Return the versions and the device for which a checkpoint is valid."""
    versions = [calibkit.__version__, folders.VERSION, str(torch.__version__)]
    return [*versions, training.device.type, *CONTINUED]
