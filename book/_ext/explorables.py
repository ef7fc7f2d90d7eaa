"""Explorable figures: their script comes out of the pages, which then load one shared copy."""

import re
from pathlib import Path

from calibkit.explorable import _SCRIPT, _TAG, script


def share_script(app, pagename, templatename, context, doctree) -> None:
    body, scripts = re.subn(
        rf"<script {_TAG}>.*?</script>", "", context.get("body", ""), flags=re.S
    )
    if scripts:
        context["body"] = body
        app.add_js_file(_SCRIPT.name)


def add_script(app) -> None:
    """As pages have it, with its colours."""
    path = Path(app.doctreedir) / _SCRIPT.name
    path.write_text(script(), encoding="utf-8")
    app.config.html_static_path.append(str(path))


def setup(app) -> dict:
    """Sphinx calls this."""
    app.connect("builder-inited", add_script)
    app.connect("html-page-context", share_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
