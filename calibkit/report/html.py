"""Write self-contained HTML pages with their figures inside, and the JSON beside them."""

import base64
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from calibkit import arrays, files, plots, terms
from calibkit.report.names import Say
from calibkit.report.written import FILTERS


def plain(value: Any) -> Any:
    """The numbers of a report as plain values for JSON."""
    return arrays.plain(value, infinite="inf")


def render(template: Path, **values: Any) -> str:
    """Fill in a template, which can include ``style.css`` and other files of this folder by name.

    Every string is escaped. A value that the template needs but does not get raises an error.
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
    told: Say | None = None,
    **values: Any,
) -> Path:
    """Write ``NAME.html`` and ``NAME.json`` together; return the path of the page.

    Parameters
    ----------
    out : Path
        Folder to write to; created if missing.
    name : str
        Name of both files, without a suffix.
    numbers : Facts
        The numbers for the JSON file and the template.
    more : mapping
        What the JSON file has beside the numbers.
    template : str
        Name or path of the template, without ``.html.jinja``; by default `name`.
    told : function of str, optional
        Called with the text of the JSON file when both are written. (Another process may replace
        the file before the caller can read it.)
    **values
        What the template may use beside the numbers.
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
    """A data frame as lists of strings for the template, which escapes them."""
    frame = frame.reset_index(names=frame.columns.name)
    return {"head": list(frame.columns), "rows": frame.to_numpy().tolist()}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the book's style, without reading dollar signs in names as formulas."""
    with plots.style(), plt.rc_context({"text.parse_math": False}):
        yield


def picture(figure: Figure) -> str:
    """A figure as a data address. Inside an <img>, an SVG neither runs scripts nor fetches."""
    file = io.BytesIO()
    with style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
