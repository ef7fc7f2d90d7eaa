"""Explorable figures: their script comes out of the pages, which then load one shared copy."""

import re

from calibkit.explorable import _SCRIPT, _TAG


def share_script(app, pagename, templatename, context, doctree) -> None:
    body, scripts = re.subn(
        rf"<script {_TAG}>.*?</script>", "", context.get("body", ""), flags=re.S
    )
    if scripts:
        context["body"] = body
        app.add_js_file(_SCRIPT.name)


def setup(app) -> dict:
    """Sphinx calls this."""
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(str(_SCRIPT)))
    app.connect("html-page-context", share_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
