"""The book's machinery: experiments of five papers, their training, records, results and pages.

What a page needs is at hand by name, and is imported on first use::

    from calibkit_companion import claims, figures, page, plan, results
"""

from importlib import import_module

_HOMES = {  # of the names that pages import from here
    "bench": "bench",
    "claims": "claims",
    "data": "data",
    "figures": "pages.figures",
    "page": "pages.page",
    "plan": "experiments.plan",
    "printed": "results.printed",
    "results": "results",
    "toys": "training.toys",
}
__all__ = list(_HOMES)


def __getattr__(name: str):
    if name in _HOMES:
        with import_module("calibkit.terms").extras():
            return import_module(f"{__name__}.{_HOMES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
