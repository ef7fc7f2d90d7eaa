"""Formulas as MathML, written while the book is built: a page needs no script to show them.

Their font (`_static/formulas.woff2`) is STIX Two Math 2.11 (SIL Open Font License 1.1) with the
letters and signs that formulas have, a twelfth of its bytes::

    pyftsubset STIXTwoMath-Regular.ttf --unicodes=… --layout-features= --flavor=woff2 --no-hinting
"""

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

LOGGER = logging.getLogger(__name__)


def as_latex(block: str) -> str:
    """What stands between dollars, complete: lines that are aligned are said to be."""
    lines = r"\\" in block and not block.lstrip().startswith(r"\begin")
    return rf"\begin{{aligned}}{block}\end{{aligned}}" if lines else block


def prepare(app) -> None:
    """Give the builder what writes its formulas, with the book's macros."""
    app.builder.formulas = LatexToMathML(macros=app.config.formula_macros, fancy_error=False)


def mathml(translator, node, displaystyle: bool) -> str:
    """The formula of a node, or its LaTeX and a warning."""
    formulas = translator.builder.formulas
    latex = node.astext()
    try:
        text = as_latex(latex) if displaystyle else latex
        return formulas.convert_with_local_state(text, displaystyle=displaystyle)
    except LatexError as error:
        LOGGER.warning("formula %r: %s", latex, error, location=node)
        return f"<code>{translator.encode(latex)}</code>"


def visit_inline(translator, node) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(translator, node, False))
    raise nodes.SkipNode


def visit_block(translator, node) -> None:
    """Write a formula on a line of its own, with its number where it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math", tabindex="0"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(mathml(translator, node, True) + "</div>\n")
    raise nodes.SkipNode


def setup(app) -> dict:
    """Let Sphinx use `html_math_renderer: mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.add_config_value("formula_macros", {}, "html")
    app.connect("builder-inited", prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
