"""Old name of `calibkit_companion`."""

from calibkit._moved import forward

_NEW = "calibkit_companion"
_PAPERS = "blocks bsce darkside fmfp here mixup overconf".split()
forward(
    __name__,
    {
        "": _NEW,
        "bench": f"{_NEW}.bench",
        "claims": f"{_NEW}.claims {_NEW}.claims.verdict "
        f"{_NEW}.claims.claim {_NEW}.claims.settings {_NEW}.claims.judging "
        f"{_NEW}.claims.preconditions {_NEW}.claims.words {_NEW}.claims.display",
        "cost": f"{_NEW}.experiments.cost",
        "derivations": f"{_NEW}.claims.derivations",
        "derived": f"{_NEW}.results.derived {_NEW}.results.number",
        "figures": f"{_NEW}.pages.figures",
        "page": f"{_NEW}.pages.page",
        "papers": f"{_NEW}.experiments.papers",
        **{f"papers.{name}": f"{_NEW}.experiments.papers.{name}" for name in _PAPERS},
        "plan": f"{_NEW}.experiments.plan",
        "printed": f"{_NEW}.results.printed",
        "results": f"{_NEW}.results {_NEW}.pages.page",
        "toys": f"{_NEW}.training.toys",
    },
)
