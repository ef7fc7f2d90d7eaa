"""What each page of the book needs: all runs of a paper, or some methods in some places."""

from calibkit import terms
from calibkit_companion.experiments.papers import PAPERS
from calibkit_companion.experiments.papers.blocks import FOUR, Need

# Objectives that are trained with every kind of flat minima, which no paper has tried. Where a page
# trains on the spot, only the first four are.
MATRIX = ("erm", "mixup", "cs_kd", "label_smoothing", "l1_norm", "focal", "bsce_gra")
# The main methods of each paper, which are also tried on other data.
CARRIED = (
    *("erm", "label_smoothing", "entropy_regularization", "l1_norm", "focal", "inverse_focal"),
    *("dual_focal", "bsce_gra", "mixup", "cs_kd", "crl", "sam", "swa", "fmfp"),
)
_SWITCHES = (  # where a paper and its authors' code differ
    Need(("sam", "fmfp"), "few", ("statistics twice",)),
    Need(("mixup(folded=1)",), "few"),
)
_CROSSED = tuple(
    Need(tuple(f"{m}{axes}" for m in its for axes in ("+sam", "+swa", "+sam+swa")), "few", (place,))
    for its, place in ((MATRIX[:4], "shared"), (MATRIX[4:], "shared, not on the spot"))
)
_FMFP, _BSCE = (("shared", "fmfp"), ("shared", "bsce"))
# What each notebook needs: names of papers, for all their runs, and rows.
NOTEBOOKS: dict[str, tuple[str | Need, ...]] = {
    "intro": ("fmfp",),
    "tour": (Need(("erm",), at=_FMFP),),
    "confidence_histograms": ("fmfp",),
    "reliability_diagrams": (Need((*FOUR, "l1_norm", "fmfp"), at=_FMFP),),
    "reliable_overfitting": ("fmfp", Need(("bsce_gra",), at=_BSCE)),
    "gradient_norms": (Need(("erm", "focal", "dual_focal", "bsce_gra"), at=_BSCE),),
    **{name: (name, *paper.chapter) for name, paper in PAPERS.items()},
    "claims": (*PAPERS, *(row for paper in PAPERS.values() for row in paper.chapter)),
    "deviations": (*PAPERS, *_SWITCHES),
    "matrix": (*PAPERS, *_CROSSED),
    "other_data": (Need(CARRIED, at=_FMFP), Need(CARRIED, at=("others",))),
    "full_length": (),
    "people": (),
    "in_the_wild": (),
    "numbers": (*PAPERS, *_SWITCHES, *_CROSSED),
    "your_model": (),
    "your_method": ("fmfp",),
    "benchmarks": (),
}
EVERYTHING = ("book", "all")


def needs(page: str) -> tuple[str | Need, ...]:
    """What a notebook, a paper or the book needs: names of papers, for all their runs, and rows.

    Parameters
    ----------
    page : a notebook, a paper, "book" or "all"

    Raises
    ------
    ValueError
        An unknown page.
    """
    terms.choose("paper or notebook", page, [*NOTEBOOKS, *EVERYTHING], "calibkit train --help")
    if page in EVERYTHING:
        return tuple(dict.fromkeys(need for its in NOTEBOOKS.values() for need in its))
    return NOTEBOOKS[page]


def papers_of(page: str) -> list[str]:
    """The papers whose runs a page needs as a whole.

    Parameters
    ----------
    page : as `needs` takes it
    """
    return [need for need in needs(page) if isinstance(need, str)]
