"""The claims of the papers as data: ``papers/PAPER.json``, read."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise, product

from calibkit import terms
from calibkit_companion.claims.verdict import QUANTIFIERS, SIDES, Comparison, Computed, Joined, Side
from calibkit_companion.experiments import plan
from calibkit_companion.results import Number


@dataclass(frozen=True, eq=False)
class Claim:
    """What a paper says, the check of it, and what is known of it before any run.

    Attributes
    ----------
    presumes : ``overconfident``, ``memorised``: what plain training has to be; ``decays``: by how
        much its AUROC has to fall after the second drop of the learning rate; ``errors left``:
        methods that make errors on their training set; ``summed``: that the loss is summed over the
        batch; ``learns`` false: how well a method fits its training set is part of the claim
    exists : it says that something happens somewhere, so one setting cannot refute it
    untested : why nothing here can test it
    across : for how many settings the paper claims it, by its words or where these leave it open by
        its tables: a quantifier
    each : each part of the check is a case of its own where those are counted
    ours : the paper does not say it in so many words; it is our reading of its tables
    support, exception : what the paper's numbers say, and why they do not where they do not
    tables : further exhibits that print what the check needs
    in_short : the statement in fewer words, for a line of a table
    paper : a key of `plan.PAPERS`
    """

    id: str
    exhibits: tuple[str, ...]
    statement: str
    check: "Joined"
    presumes: Mapping[str, object] = field(default_factory=dict)
    exists: bool = False
    untested: str = ""
    across: str = "all"
    each: bool = False
    ours: bool = False
    support: str = ""
    exception: str = ""
    tables: tuple[str, ...] = ()
    in_short: str = ""
    paper: str = ""

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons of the check, without what is computed."""
        return [leaf for leaf in self.check.leaves() if isinstance(leaf, Comparison)]

    def check_on(self, dataset: str) -> "Joined":
        """The check by the coefficients that its paper has on a data set, where it names them."""
        own = plan.PAPERS[self.paper].coefficients.get(dataset, {})

        def with_own(leaf: Comparison | Computed) -> Comparison | Computed:
            if not own or isinstance(leaf, Computed):
                return leaf
            first, second = (
                side._replace(method=own.get(side.method, side.method))
                if isinstance(side, Side)
                else side
                for side in (leaf.first, leaf.second)
            )
            return replace(leaf, first=first, second=second)

        return self.check.put(with_own)

    @property
    def datasets(self) -> list[str]:
        """The data sets that the claim names.

        Empty if a part of the claim names none; the claim is then about the data of each setting.
        """
        named = [side.dataset for leaf in self.comparisons for side in leaf.sides]
        return list(dict.fromkeys(named)) if all(named) else []


def claims(paper: str | None = None) -> list[Claim]:
    """The claims as data, of one paper or of all.

    >>> claims("bsce")[0].id
    'bsce-c01'
    """
    if paper is not None:
        terms.choose("paper", paper, plan.PAPERS)
    return [c for name in plan.PAPERS if paper in (None, name) for c in _claims(name)]


@cache
def _claims(paper: str) -> tuple[Claim, ...]:
    """The claims of a paper, read once."""
    text = (files("calibkit_companion") / "experiments/papers" / f"{paper}.json").read_text("utf-8")
    return tuple(read(entry, paper) for entry in json.loads(text))


_PRESUMED = ("overconfident", "memorised", "decays", "errors left", "summed", "learns")
_SIDE = {*Number._fields, *Side._fields}
_COMPARISON = {*Number._fields, "dataset", "network", "of", "than", "order", "is", "against"}
_COMPARISON |= {"rows", "margin", "by", "rejects", "calibrating"}


def read(entry: dict, paper: str) -> Claim:
    """A claim from its entry in a paper's file.

    Parameters
    ----------
    entry : the fields of `Claim`; ``check`` is a comparison, or a quantifier with a list of checks
    paper : a key of `plan.PAPERS`

    Raises
    ------
    ValueError
        For a key, a quantifier or a side that is not known: it would change the claim silently.
    """
    try:
        _refuse_unknown(entry, {field.name for field in fields(Claim)} - {"paper"})
        _refuse_unknown(entry.get("presumes", {}), _PRESUMED)
        terms.choose("quantifier", entry.get("across", "all"), QUANTIFIERS)
        check = _read_check(entry["check"])
    except ValueError as error:
        raise ValueError(f"{entry.get('id', paper)}: {error}") from None
    check = check if isinstance(check, Joined) else Joined("all", (check,))
    several = {k: tuple(entry.get(k, ())) for k in ("exhibits", "tables")}
    return Claim(**entry | several | {"check": check, "paper": paper})


def _refuse_unknown(entry: Mapping, known: Iterable[str]) -> None:
    """Raise a ValueError if an entry has a key that is not known."""
    if unknown := next((key for key in entry if key not in known), ""):
        raise ValueError(f"unknown key {unknown!r}; known are {', '.join(sorted(known))}")


def _read_check(entry: dict) -> "Comparison | Computed | Joined":
    """A check from its entry; lists of metrics and methods are multiplied out."""
    for quantifier in QUANTIFIERS:
        if quantifier in entry:
            _refuse_unknown(entry, {quantifier})
            return Joined(quantifier, tuple(map(_read_check, entry[quantifier])))
    if "computed" in entry:
        _refuse_unknown(entry, {"computed", "is", "margin", "says"})
        terms.choose("side", entry["is"], SIDES)
        return Computed(entry["computed"], entry["is"], entry.get("margin", 0.0), entry["says"])
    _refuse_unknown(entry, _COMPARISON)
    # In an order the highest is first.
    steps = pairwise(entry["order"]) if "order" in entry else [(entry["of"], entry["than"])]
    pairs = [pair for of, than in steps for pair in product(_list(of), _list(than))]
    side = "above" if "order" in entry else entry["is"]
    terms.choose("side", side, SIDES)
    more = {k: entry[k] for k in ("rejects", "calibrating") if k in entry}
    more["margin"] = entry.get("by", entry.get("margin", 0.0))  # by: not by the rule, but stated
    leaves = []
    for metric, (of, than) in product(_list(entry["metric"]), pairs):
        number = Number(**_own(entry, Number) | {"metric": metric})
        against = number._replace(**entry.get("against", {}))
        place = {k: entry[k] for k in ("dataset", "network") if k in entry}
        second = than if isinstance(than, int | float) else _read_side(than, against, place)
        leaves.append(Comparison(_read_side(of, number, place), second, side, **more))
    return leaves[0] if len(leaves) == 1 else Joined(entry.get("rows", "all"), tuple(leaves))


def _read_side(entry: str | dict, number: Number, place: Mapping) -> Side:
    """One side of a comparison: a method, or a mapping with what it has of its own."""
    own = {"method": entry} if isinstance(entry, str) else {"method": "", **entry}
    _refuse_unknown(own, _SIDE)
    number = number._replace(**_own(own, Number))
    side = place | _own(own, Side) | {"lowest": tuple(own.get("lowest", ()))}
    return Side(number=number, **side)


def _own(entry: Mapping, kind: type) -> dict:
    """The keys of an entry that are fields of a type."""
    return {k: entry[k] for k in kind._fields if k in entry}


def _list(value) -> list:
    """A list as it is, anything else as a list of one."""
    return value if isinstance(value, list) else [value]
