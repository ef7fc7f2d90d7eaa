"""The runs that each page of the book needs: all runs of a paper, or some methods in settings."""

from calibkit import terms
from calibkit_companion.experiments.papers import PAPERS
from calibkit_companion.experiments.papers.blocks import FOUR, Need

# Objectives that are also trained with SAM, SWA and FMFP, which no paper has tried. Editions in
# which pages train have only the first four.
MATRIX = ("erm", "mixup", "cs_kd", "label_smoothing", "l1_norm", "focal", "bsce_gra")
# The main methods of each paper, which are also trained on other data.
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
# The needs of each notebook: a name of a paper stands for all runs of the paper.
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
    """Return what a page needs: rows (`Need`), and names of papers that stand for all their runs.

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
    """List the papers of which a page needs all runs.

    Parameters
    ----------
    page : a notebook, a paper, "book" or "all"
    """
    return [need for need in needs(page) if isinstance(need, str)]
