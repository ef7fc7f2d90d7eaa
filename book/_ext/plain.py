"""What a notebook keeps as text of a table that it shows as HTML.

pandas writes the table's address in memory, which is another one each time a page is made.
"""

import sys


def keep() -> None:
    """From now on a notebook writes that there is a table."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        texts = shell.display_formatter.formatters["text/plain"]
        texts.for_type_by_name(
            "pandas.io.formats.style", "Styler", lambda table, p, cycle: p.text("<table>")
        )
