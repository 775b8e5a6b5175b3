"""What machines read of a page: its description, its name, Open Graph."""

import html
import re

from docutils import nodes

LENGTH = 160  # what search engines show of a description
ANSWERS = "Worked answers and wrong turns. "


def describe(app, pagename, templatename, context, doctree):
    """Give every page a description, from its first paragraph."""
    context.setdefault("metatags", "")
    text = f"Search {app.config.project}." if pagename == "search" else ""
    if doctree is not None:
        opening = ANSWERS if pagename.startswith("solutions/") else ""
        text = shorten(opening + first_paragraph(doctree))
        context["meta"] = {**(context.get("meta") or {}), "og:description": text}
        context["metatags"] += _tag("course-page", pagename)
    if text:
        context["metatags"] += _tag("description", text)


def tidy(app, pagename, templatename, context, doctree):
    """Drop what holds no address while the site has none, or is no article."""
    if not app.config.html_baseurl:
        tags = context["metatags"]
        context["metatags"] = re.sub(r'<meta property="og:url"[^>]*>\n?', "", tags)
        context["pageurl"] = None


def first_paragraph(doctree):
    """The text of the first paragraph that stands in a section of its own."""
    for node in doctree.findall(nodes.paragraph):
        if isinstance(node.parent, nodes.section):
            return " ".join(node.astext().split())
    return ""


def shorten(text, length=LENGTH):
    """Whole sentences of a text, or whole words where its first one is too long."""
    if len(text) <= length:
        return text
    ends = [m.start() + 1 for m in re.finditer(r"[.!?](?= )", text[: length + 1])]
    if ends and ends[-1] > length / 2:
        return text[: ends[-1]]
    return text[: length - 1].rpartition(" ")[0].rstrip(",;:") + "…"


def _tag(name, content):
    return f'<meta name="{name}" content="{html.escape(content)}" />\n'
