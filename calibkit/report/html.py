"""Self-contained pages: one look for all of them, figures inside, no script."""

import base64
import io
import math
import os
from dataclasses import is_dataclass
from pathlib import Path

import jinja2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibkit import plots
from calibkit.stats import Interval


def render(template: Path, **values) -> str:
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
    return environment.get_template(template.name).render(**values)


def table(frame: pd.DataFrame) -> dict:
    """Rows of strings for the template, which escapes them."""
    frame = frame.reset_index(names=frame.columns.name)
    return {"head": list(frame.columns), "rows": frame.to_numpy().tolist()}


def picture(figure: Figure) -> str:
    """A figure as a data address. Inside an <img>, an SVG neither runs scripts nor fetches."""
    file = io.BytesIO()
    with plots.style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


def plain(value):
    """Numbers as JSON allows them: intervals by name, ``nan`` as null, infinity as "inf"."""
    if isinstance(value, Interval):
        value = value._asdict()
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(x) for x in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf"
    return value


def write(path: Path, text: str) -> None:
    """Write a page or its numbers: whole, or not at all."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
