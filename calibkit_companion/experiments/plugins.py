"""Read and execute users' own methods, networks and recalibrations from files.

``my_loss.py:my_loss(gamma=3)`` is the function ``my_loss`` of a file, with an option. The name of a
run must change when the file changes, so it contains a hash of the source: `named` returns
``my_loss@1a2b3c4d5e6f``. `named` reads the file without executing it. Only `load` executes the
file, and only training and the bench call `load`. Reading records never executes a user's code.

Imports the standard library only, as the plan does.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from inspect import Parameter, signature
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from calibkit import terms
from calibkit_companion.data.own import DIGITS
from calibkit_companion.experiments.names import Name

LARGEST = 1 << 20  # most bytes of a source, because every record keeps a copy

_OWN = re.compile(rf".*\.py:\w+|\w+@[0-9a-f]{{{DIGITS}}}")
_SOURCES: dict[str, "Source"] = {}  # by name, "my_loss@1a2b3c4d5e6f"


class PluginError(ValueError):
    """An error in a user's file; the message is one line and quotes the faulty line."""


@dataclass(frozen=True)
class Source:
    """A function or class in a user's file, which was read but not executed.

    Attributes
    ----------
    path : path of the file
    function : name of the function or class in it
    text : source code of the file
    """

    path: Path
    function: str
    text: str

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the source, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the function with the first digits of the hash."""
        return f"{self.function}@{self.sha256[:DIGITS]}"

    @cached_property
    def definition(self) -> ast.FunctionDef | ast.ClassDef | None:
        """The last definition of the function in the source; None if the file imports it."""
        kinds = ast.FunctionDef | ast.ClassDef
        nodes = [n for n in ast.parse(self.text).body if isinstance(n, kinds)]
        return next((n for n in reversed(nodes) if n.name == self.function), None)

    @property
    def is_class(self) -> bool:
        """Whether the source defines a class, as for a recalibration."""
        return isinstance(self.definition, ast.ClassDef)

    def line(self, number: int) -> str:
        """Quote a line for an error: ``my_loss.py, line 3, "return x"``.

        Parameters
        ----------
        number : number of the line, from 1
        """
        lines = self.text.splitlines()
        quoted = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        shown = quoted if len(quoted) <= 80 else quoted[:79] + "…"
        return f'{self.path.name}, line {number}, "{_printable(shown)}"'

    def error(self, why: str) -> PluginError:
        """Make an error about the value that the function returns.

        Parameters
        ----------
        why : the fault, in words
        """
        return PluginError(f"{self.result()}: {why}")

    def result(self) -> str:
        """Quote the last ``return`` of the function, or else its first line."""
        if self.definition is None:
            return self.path.name
        returned = [n.lineno for n in self.definition.body if isinstance(n, ast.Return)]
        return self.line(returned[-1] if returned else self.definition.lineno)


def own(base: str) -> bool:
    """Whether a method, objective or network comes from a user's file.

    Parameters
    ----------
    base : name without options, as in `names.Name`

    Examples
    --------
    >>> own("my_loss@1a2b3c4d5e6f"), own("my_loss.py:my_loss"), own("focal")
    (True, True, False)
    """
    return bool(_OWN.fullmatch(base))


def named(base: str) -> str:
    """Return the name of a user's function in runs, which contains a hash of the file.

    Parameters
    ----------
    base : ``FILE.py:NAME``; any other name is returned unchanged

    Raises
    ------
    PluginError
        The file cannot be read, or does not define the function.
    """
    if ".py:" not in base:
        return base
    file, _, function = base.rpartition(":")
    origin = Source(Path(file).expanduser().resolve(), function, _read(Path(file)))
    _check_defined(origin)
    _SOURCES[origin.name] = origin
    return origin.name


def network_name(text: str) -> str:
    """Return the name of a network in runs; that of a user's network contains a hash of the file.

    Parameters
    ----------
    text : a name of `networks.NETWORKS`, or ``FILE.py:NAME``, with options in brackets

    Raises
    ------
    ValueError
        The text is not a valid name.
    PluginError
        The file cannot be read, or does not define the function.
    """
    name = Name.read(text, "network")
    return str(replace(name, base=named(name.base)))


def source(name: str) -> Source:
    """Look up the source of a user's function.

    Parameters
    ----------
    name : a name that `named` returned in this process

    Raises
    ------
    PluginError
        `named` has not returned that name in this process.
    """
    if name not in _SOURCES:
        raise PluginError(f"{name}: its source is not known here; give FILE.py:NAME instead")
    return _SOURCES[name]


def copies(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Copy the sources of a user's functions for a record.

    Parameters
    ----------
    names : names that `named` returned

    Returns
    -------
    dict of dict
        By name: ``file`` (name of the file), ``sha256`` and ``text`` (source code).
    """
    return {
        one.name: {"file": one.path.name, "sha256": one.sha256, "text": one.text}
        for one in map(source, names)
    }


# --- running it -----------------------------------------------------------------------------------


def load(name: str) -> Callable:
    """Execute a user's file and return the function.

    Each call executes the file again, so that no run sees variables that another run has changed.

    Parameters
    ----------
    name : a name that `named` returned

    Raises
    ------
    PluginError
        The file fails, or its object of that name is not a function or class.
    """
    origin = source(name)
    with quoted(origin):
        module = ModuleType(f"own_{origin.path.stem}_{origin.sha256[:DIGITS]}")
        module.__file__ = str(origin.path)
        sys.modules[module.__name__] = module  # dataclasses look the module up there
        exec(compile(origin.text, str(origin.path), "exec"), module.__dict__)
        if origin.function not in vars(module):
            raise PluginError(f"{origin.path.name}: does not define {origin.function!r} when run")
        value = vars(module)[origin.function]
    if not callable(value):
        kind = type(value).__name__
        raise PluginError(f"{origin.path.name}: {origin.function} is a {kind}, expected a function")
    return value


def objective(name: str, chosen: dict[str, float]) -> tuple[bool, Callable]:
    """Load a user's loss or factory and set its options.

    A loss takes logits (B, k) and targets (B,). A factory takes the training set and returns an
    objective. Further arguments of either are options.

    Parameters
    ----------
    name : a name that `named` returned
    chosen : options by name

    Returns
    -------
    tuple of bool and Callable
        True for a loss, False for a factory; and the function with its options.

    Raises
    ------
    PluginError
        The function takes other arguments, or has no such option.
    """
    origin, function = source(name), load(name)
    with quoted(origin):
        parameters = list(signature(function).parameters.values())
    at_least = [p.name for p in parameters if p.default is p.empty and p.kind in _PLAIN]
    needed = [p for p in at_least if p not in chosen]
    if len(needed) not in (1, 2):
        raise origin.error(
            f"{origin.function} takes {', '.join(needed) or 'nothing'}; "
            "expected (logits, targets, ...) of a loss or (train, ...) of a factory"
        )
    valid = [p.name for p in parameters if p.kind in _NAMED and p.name not in needed]
    for option in chosen:
        terms.choose(f"option of {origin.function}", option, valid)
    return len(needed) == 2, guarded(origin, function, **chosen)


def numbers(options: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Turn options into keyword arguments; whole numbers become integers.

    Parameters
    ----------
    options : pairs of an option and its number

    Examples
    --------
    >>> numbers((("width", 64.0), ("slope", 0.5)))
    {'width': 64, 'slope': 0.5}
    """
    return {option: int(v) if v == int(v) else v for option, v in options}


_PLAIN = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def guarded(origin: Source, function: Callable, **chosen) -> Callable:
    """Set options of a user's function, and turn its errors into a `PluginError` of one line.

    Parameters
    ----------
    origin : the source of the function
    function : the function
    chosen : options by name
    """

    @wraps(function, updated=())
    def call(*arguments):
        with quoted(origin):
            return function(*arguments, **chosen)

    return call


@contextmanager
def quoted(origin: Source) -> Iterator[None]:
    """A context that turns errors into a `PluginError`, which quotes the faulty line of the source.

    Parameters
    ----------
    origin : the source
    """
    try:
        yield
    except (PluginError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"{_where(origin, error)}: {_what(error)}") from error


def _where(origin: Source, error: BaseException) -> str:
    """Quote the line of the source in which an error occurred."""
    steps = [(step.filename, step.lineno) for step in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        steps.append((error.filename, error.lineno))
    lines = [line for file, line in steps if file == str(origin.path) and line]
    return origin.line(lines[-1]) if lines else origin.path.name


def _what(error: BaseException) -> str:
    """Write an error as one line."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    message = _printable(" ".join(message.split()))[:300]
    if isinstance(error, ModuleNotFoundError):
        message += "; a method is one file, or a package that is installed"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _printable(text: str) -> str:
    """Replace each character of a text that cannot be printed by "?"."""
    return "".join(c if c.isprintable() else "?" for c in text)


# --- reading it -----------------------------------------------------------------------------------


def _read(path: Path) -> str:
    """Read a source file; raise an error if it is missing, too large or not UTF-8."""
    path = path.expanduser()
    if not path.is_file():
        raise PluginError(f"{path}: {'is not a file' if path.exists() else 'does not exist'}")
    if path.stat().st_size > LARGEST:
        raise PluginError(f"{path}: larger than 1 MB; a record keeps a copy of the source")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise PluginError(f"{path}: is not UTF-8 text") from None


def _check_defined(origin: Source) -> None:
    """Raise an error unless the file defines the function; the file is compiled, not executed."""
    with quoted(origin):
        names = compile(origin.text, str(origin.path), "exec").co_names
    if origin.function not in names:
        try:
            terms.choose(f"function of {origin.path.name}", origin.function, names)
        except ValueError as error:
            raise PluginError(str(error)) from None
