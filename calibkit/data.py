"""Old name of `calibkit_companion.data`."""

from calibkit._moved import forward

_NAMES = "cache catalogue own readers shifts splits stream torchvision".split()
forward(
    __name__,
    {"": "calibkit_companion.data"} | {name: f"calibkit_companion.data.{name}" for name in _NAMES},
)
