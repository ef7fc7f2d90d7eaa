"""Self-contained pages: one look for all of them, figures inside, no script."""

import base64
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from calibkit import arrays, files, plots, terms
from calibkit.report.written import FILTERS


def plain(value: Any) -> Any:
    """Numbers as the JSON files have them."""
    return arrays.plain(value, infinite="inf")


def render(template: Path, **values: Any) -> str:
    """Fill in a template, which can include ``style.css`` and other files of this folder by name.

    Every string is escaped; a value that the template needs but does not get is an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.globals["colors"] = terms.COLORS
    digest = hashlib.sha256(values.get("script", "").encode()).digest()
    sealed = {"script_sum": base64.b64encode(digest).decode()}  # the one script that may run
    return environment.get_template(template.name).render(**sealed, **values)


def publish(
    out: Path,
    name: str,
    numbers: Any,
    more: Mapping[str, Any],
    template: str = "",
    /,
    *,
    told: Callable[[str], None] | None = None,
    **values: Any,
) -> Path:
    """Write ``NAME.json``, of the numbers and what is said of them, and ``NAME.html``, together.

    The page is ``NAME.html.jinja`` of this folder, or a `template` of another name or folder.
    `told` is called with the text of the JSON file when both are there: another process may have
    replaced them by the time that someone reads them back.
    """
    values = {"script": "", "explorables": {}} | values
    page = render(
        Path(__file__).parent / f"{template or name}.html.jinja", numbers=numbers, **values
    )
    text = json.dumps(plain(numbers) | plain(more), indent=1, ensure_ascii=False, allow_nan=False)
    html, numbers = (out / f"{name}.{suffix}" for suffix in ("html", "json"))
    out.mkdir(parents=True, exist_ok=True)
    files.publish({html: page.encode(), numbers: f"{text}\n".encode()})
    if told:
        told(f"{text}\n")
    return html


def table(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Rows of strings for the template, which escapes them."""
    frame = frame.reset_index(names=frame.columns.name)
    return {"head": list(frame.columns), "rows": frame.to_numpy().tolist()}


@contextmanager
def style() -> Iterator[None]:
    """The book's style, with dollar signs as they are: classes and files have any name."""
    with plots.style(), plt.rc_context({"text.parse_math": False}):
        yield


def picture(figure: Figure) -> str:
    """A figure as a data address. Inside an <img>, an SVG neither runs scripts nor fetches."""
    file = io.BytesIO()
    with style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
