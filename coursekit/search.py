"""The search index: one entry a section, with its code, its output and its errors.

Sphinx's own index knows whole pages, forgets where on a page a word stands, and
wants every word of a query on one page. Here a result is a section with an excerpt.
`assets/search.js` reads the index and ranks; this module only collects.

The index is a script and not JSON: a page opened from a disk may load scripts, and
may not fetch. What nobody searches for is left out, to keep it light: imports, the
rest of a long output, checks, and, of solution pages, the code of wrong answers and
what is repeated from the exercises.
"""

import html
import json
import re
from pathlib import Path

from docutils import nodes

INDEX = "search-index.js"
HOME = "course"  # what a page outside the folders below is
KINDS = {
    "chapters": "chapter",
    "exercises": "exercises",
    "solutions": "solutions",
    "reference": "reference",
}
PRINTED = {"myst-ansi", "text"}  # the language of outputs, and of what checks say
LENGTH = 200  # characters of those; of code and errors everything
IMPORTS = re.compile(r"^(?:import|from) .*$", re.MULTILINE)
HABIT = re.compile(r"<summary>Wrong turn \d+: (.*?)</summary>", re.DOTALL)
TAG = re.compile(r"</?code>")
CHECKS = {"check", "hidden"}  # the kind of a cell, as its metadata says
SKIPPED = (nodes.section, nodes.title, nodes.math_block)
TEXTS = (nodes.paragraph, nodes.literal_block, nodes.caption, nodes.raw)


def collect(app, doctree):
    """Keep the sections of a page that was read: `[anchor, title, prose, code]`."""
    name = app.env.docname
    answers = _kind(name) == "solutions"
    sections = [_entry(section, answers) for section in doctree.findall(nodes.section)]
    _store(app.env)[name] = sections


def _store(env):
    if not hasattr(env, "course_sections"):
        env.course_sections = {}
    return env.course_sections


def _kind(name):
    return KINDS.get(name.partition("/")[0], HOME)


def _entry(section, answers):
    title = section.next_node(nodes.title).astext()
    prose, code = [], []
    for node in _own(section):
        if isinstance(node, nodes.raw):
            habits = HABIT.findall(node.astext())
            prose += [TAG.sub("", html.unescape(habit)) for habit in habits]
        elif not isinstance(node, nodes.literal_block):
            prose.append(_line(node.astext()))
        elif not (answers and _is_wrong(node)):
            code.append(_shortened(node))
    return [section["ids"][0], title, prose, code]


def _own(node):
    """The blocks of text of a section that no section below it holds."""
    for child in node.children:
        if isinstance(child, TEXTS):
            yield child
        elif isinstance(child, nodes.Element) and not _is_skipped(child):
            yield from _own(child)


def _is_skipped(node):
    kind = node.get("cell_metadata", {}).get("course", {}).get("kind")
    return isinstance(node, SKIPPED) or kind in CHECKS


def _is_wrong(block):
    """Whether code on a solution page is no cell: so it shows what does not pass."""
    in_cell = "cell_input" in block.parent["classes"]
    return block.get("language") == "python" and not in_cell


def _shortened(block):
    text = _line(IMPORTS.sub("", block.astext()))
    return text[:LENGTH] if block.get("language") in PRINTED else text


def _line(text):
    return " ".join(text.split())


def purge(app, env, docname):
    """Forget a page that is read again, or is gone."""
    _store(env).pop(docname, None)


def merge(app, env, docnames, other):
    """Take over what another process has read."""
    _store(env).update({name: _store(other)[name] for name in docnames})


def write(app, exception):
    """Write the index beside the pages: `[[page, kind, title, sections], ...]`."""
    if exception is None and app.builder.format == "html":
        store = _store(app.env)
        pages = [
            [app.builder.get_target_uri(name), _kind(name), texts[0][1], texts]
            for name in sorted(store)
            if (texts := list(_texts(name, store)))
        ]
        script = f"courseSearch({json.dumps(pages, ensure_ascii=False)});\n"
        Path(app.outdir, INDEX).write_text(script, encoding="utf-8")


def _texts(name, store):
    """The sections of a page as they are searched, without what it repeats."""
    seen = set()
    if _kind(name) == "solutions":
        exercises = store.get(name.replace("solutions", "exercises", 1), [])
        seen = {block for *_, prose, code in exercises for block in prose + code}
    for anchor, title, *parts in store[name]:
        own = [" ".join(text for text in part if text not in seen) for part in parts]
        yield [anchor, title, *own]


def setup(app):
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("build-finished", write)
    # Another number makes Sphinx read every page again.
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
