"""Everything on a page can be pointed at, and a link tells where it leads.

* A link to the bibliography whose words are a citation, ``[Guo et al. (2017)](bibliography.md)``,
  leads to that entry and shows authors, title and venue. Notebooks write citations so, because a
  role in braces is raw text in JupyterLab.
* On the page `claims`, the first element that holds nothing but a claim's name, such as "fmfp-c09",
  in a cell, a summary or code, is the anchor of that name.
* A link that HTML in a notebook writes with capitals (``overconf.html#overconf-figA``) finds the
  anchor, which docutils writes without.
* The first time a page uses a term of the glossary, written as there, the mouse finds it explained
  and a click leads to the glossary. Anything else is explained in place:
  ``<abbr title="what it means">term</abbr>``.
* A type in the reference links to a class. The ``n`` of "(n,) array" is none, and Sphinx 9 would
  lead it to any attribute of that name.
"""

import re
from pathlib import Path

from docutils import nodes
from pybtex.plugin import find_plugin
from sphinx import addnodes
from sphinx.transforms.post_transforms import ReferencesResolver, SphinxPostTransform

CITATION = re.compile(r"(?P<name>[A-Z]\w[\w-]*).*?(?P<year>(?:19|20)\d\d)?\)?")
CLAIM = re.compile(r"<(\w+)([^<>]*)>\s*([a-z]+-c\d\d)\s*</\1>")
APART = (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.math,
         nodes.raw, nodes.abbreviation, addnodes.desc, nodes.caption)  # fmt: skip


def cited(domain, words: str):
    """The one citation that words such as "Guo et al. (2017)" mean, or None."""
    if not (match := CITATION.fullmatch(words.strip())):
        return None
    found = [
        its
        for its in domain.citations
        if (its.entry.persons["author"][0].last_names or [""])[-1] == match["name"]
        and match["year"] in (None, its.entry.fields["year"])
    ]
    return found[0] if len(found) == 1 else None


def link_citations(app, doctree, page) -> None:
    """Lead links to the top of the bibliography to the entry that their words name."""
    domain = app.env.get_domain("cite")
    plain = find_plugin("pybtex.backends", "plaintext")()
    for link in doctree.findall(nodes.reference):
        if not link.get("refuri", "").endswith("bibliography.html"):
            continue
        if citation := cited(domain, link.astext()):
            link["refuri"] += f"#{citation.citation_id}"
            link["reftitle"] = citation.formatted_entry.text.render(plain)


def glossary(app, config) -> None:
    """The terms of the book's glossary, each with its one sentence."""
    text = (Path(app.srcdir) / "glossary.md").read_text(encoding="utf-8")
    config.terms = dict(re.findall(r"^(\S.*)\n  (\S.*)$", text, re.MULTILINE))


def explain(app, doctree, page) -> None:
    """Mark up the first use of each term of the glossary on a page, and lead it there."""
    if page in ("glossary", "bibliography") or page.startswith("api"):
        return
    left = dict(app.config.terms)
    longest = sorted(map(re.escape, left), key=len, reverse=True)
    unclear = r"no difference[\w -]* is clear"  # is not what is called no difference
    pattern = re.compile(rf"(?<![\w-])(?!{unclear})({'|'.join(longest)})(?![\w-])")
    for text in list(doctree.findall(nodes.Text)):
        above, inside = text.parent, False
        while above is not None and not inside:
            inside, above = isinstance(above, APART), above.parent
        if inside or not isinstance(text.parent, nodes.paragraph | nodes.emphasis | nodes.strong):
            continue
        parts = []
        for i, part in enumerate(pattern.split(text)):
            if i % 2 and part in left:
                word = nodes.abbreviation(part, part, explanation=left.pop(part))
                to = f"{app.builder.get_relative_uri(page, 'glossary')}#term-{anchor(part)}"
                parts.append(nodes.reference("", "", word, refuri=to, classes=["term"]))
            elif part:
                parts.append(nodes.Text(part))
        if any(isinstance(part, nodes.reference) for part in parts):
            text.parent.replace(text, parts)


def anchor(term: str) -> str:
    """What Sphinx makes of a term, in an address."""
    return re.sub(r"\W+", "-", term).strip("-")


def anchor_html(app, page, template, context, doctree) -> None:
    """Anchors for the lines of the scoreboard, and links in HTML as docutils writes anchors."""
    body = context.get("body")
    if not body:
        return
    if page.rpartition("/")[2] == "claims":
        named = set(re.findall(r'\bid="([\w-]+)"', body))
        body = CLAIM.sub(lambda its: as_anchor(its, named), body)
    context["body"] = re.sub(
        r'(href="(?:[\w./-]+\.html)?#)(?!term-)([a-z]\w*-[\w-]*)"',
        lambda link: f'{link[1]}{link[2].lower()}"',
        body,
    )


def as_anchor(match: re.Match, named: set[str]) -> str:
    """An element that holds nothing but the name of a claim, as its anchor the first time."""
    tag, attributes, claim = match.groups()
    if claim in named or " id=" in attributes:
        return match[0]
    named.add(claim)
    link = f'<a class="headerlink" href="#{claim}" aria-label="Link to {claim}">#</a>'
    return f'<{tag} id="{claim}"{attributes}>{claim}{link if tag != "a" else ""}</{tag}>'


class TypesAreClasses(SphinxPostTransform):
    """Leave words of a type as they are that only an attribute has for its name."""

    default_priority = ReferencesResolver.default_priority - 1

    def run(self, **options) -> None:
        """Sphinx calls this for each page, before it resolves links."""
        domain = self.env.get_domain("py")
        for link in list(self.document.findall(addnodes.pending_xref)):
            if (link["refdomain"], link["reftype"]) != ("py", "class"):
                continue
            word = self.env, link.get("py:module"), link.get("py:class"), link["reftarget"]
            if not domain.find_obj(*word, "class", 1) and domain.find_obj(*word, "attr", 1):
                link.replace_self(link.children)


def setup(app) -> dict:
    """Sphinx calls this."""
    app.add_post_transform(TypesAreClasses)
    app.add_config_value("terms", {}, "env")
    app.connect("config-inited", glossary)
    app.connect("doctree-resolved", link_citations)
    app.connect("doctree-resolved", explain)
    app.connect("html-page-context", anchor_html)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
