"""On a solution page every answer is folded, and its fold says what it spoils.

The headings and statements stay outside, so that links and search hits land on
text that can be seen. It needs no JavaScript.
"""

from docutils import nodes

OPEN = (
    '<details class="course-answer"><summary>Spoiler: the answer, its checks and '
    "the wrong turns</summary>"
)


def fold(app, doctree):
    """Wrap each section of a solution page from its answer to its end."""
    if not app.env.docname.startswith("solutions/"):
        return
    for section in list(doctree.findall(nodes.section)):
        at = next((i for i, n in enumerate(section.children) if _is_answer(n)), None)
        if at is not None:
            section.insert(at, nodes.raw("", OPEN, format="html"))
            section.append(nodes.raw("", "</details>", format="html"))


def _is_answer(node):
    if not isinstance(node, nodes.container):
        return False
    metadata = node.get("cell_metadata") or {}
    return metadata.get("course", {}).get("kind") == "solution"
