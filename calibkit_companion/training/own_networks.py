"""Build a network from a user's file."""

import torch
from torch import Tensor, nn

from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.names import Name
from calibkit_companion.training.layers import Network


class Wrapped(nn.Module):
    """A user's network, which maps inputs to logits (B, k), with the interface of a `Network`.

    If the last linear layer gives the logits, that layer is the head, and the inputs (B, d) of the
    layer are the features. Otherwise `has_features` is False: `features` returns the logits, and
    gradient norms of the last layer cannot be measured.

    Parameters
    ----------
    inner : the user's network
    source : the file that defines the network; errors quote it
    shape : shape of one input
    classes : number of logits
    """

    def __init__(self, inner: nn.Module, source: plugins.Source, shape: tuple, classes: int):
        super().__init__()
        self.inner, self._source = inner, source
        linear = [(n, m) for n, m in inner.named_modules() if isinstance(m, nn.Linear)]
        self._last = linear[-1][0] if linear and linear[-1][1].out_features == classes else None
        if self._last is not None and not self._ends_in_head(shape):
            self._last = None

    @property
    def has_features(self) -> bool:
        """Whether the logits are the output of the last linear layer."""
        return self._last is not None

    @property
    def head(self) -> nn.Module:
        """The last linear layer; an identity if `has_features` is False."""
        return nn.Identity() if self._last is None else self.inner.get_submodule(self._last)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the logits (B, k) of inputs (B, ...)."""
        with plugins.quoted(self._source):
            return self.inner(inputs)

    def features(self, inputs: Tensor) -> Tensor:
        """Compute the inputs (B, d) of the last layer; the logits if `has_features` is False."""
        if self._last is None:
            return self(inputs)
        calls = []
        with self.head.register_forward_pre_hook(lambda _, arguments: calls.append(arguments[0])):
            self(inputs)
        return calls[-1]

    @torch.no_grad()
    def _ends_in_head(self, shape: tuple) -> bool:
        """Whether the output of the last linear layer equals the logits."""
        self.inner.eval()
        try:
            inputs = torch.zeros(2, *shape)
            hidden = self.features(inputs)
            return hidden.ndim == 2 and torch.equal(self.head(hidden), self(inputs))
        except (plugins.PluginError, IndexError):  # `trials` reports this error to the user
            return False
        finally:
            self.inner.train()


def build_own(name: Name, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a network by the function ``build(shape, classes, **options)`` of a user.

    Parameters
    ----------
    name : ``FILE.py:NAME`` or the name that `plugins.named` returned for it, with options
    shape : shape of one input
    classes : number of logits

    Returns
    -------
    nn.Module
        What the function returned if that is a `Network`; otherwise a `Wrapped` network.

    Raises
    ------
    plugins.PluginError
        The function fails, or returns no nn.Module.
    """
    base = plugins.named(name.base)
    source, build = plugins.source(base), plugins.load(base)
    inner = plugins.guarded(source, build, **plugins.numbers(name.options))(shape, classes)
    if isinstance(inner, Network):
        return inner
    if not isinstance(inner, nn.Module):
        raise source.error(f"gives a {type(inner).__name__}, expected an nn.Module")
    return Wrapped(inner, source, shape, classes)
