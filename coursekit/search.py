"""The search index: one entry a section, with its code, its output and its errors.

Sphinx's own index knows whole pages, forgets where on a page a word stands, and
wants every word of a query on one page. Here a result is a section with an excerpt.
`assets/search.js` reads the index and ranks; this module only collects.

The index is a script and not JSON: a page opened from a disk may load scripts, and
may not fetch. What nobody searches for is left out, to keep it light: imports, the
rest of a long output, the code of exercises and solutions, checks among it, and what
solutions repeat from the exercises.
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
LENGTH = 120  # characters of those
CODE = {"ipython3", "python"}
SHOWN = 180  # characters of code; of what follows only names, each once
NAME = re.compile(r"[A-Za-z_][\w.]{2,}")
IMPORTS = re.compile(r"^(?:import|from) .*$", re.MULTILINE)
HABIT = re.compile(r"<summary>Wrong turn \d+: (.*?)</summary>", re.DOTALL)
TAG = re.compile(r"</?code>")
PLACE = re.compile(r'<a id="([\w-]+)">')  # a row of a table that can be linked to
SKIPPED = (nodes.section, nodes.title, nodes.math_block)
TEXTS = (nodes.paragraph, nodes.literal_block, nodes.caption, nodes.raw)


def collect(app, doctree):
    """Keep the sections of a page that was read: `[anchor, title, prose, code]`."""
    name = app.env.docname
    with_code = _kind(name) not in ("exercises", "solutions")
    sections = [_entry(section, with_code) for section in doctree.findall(nodes.section)]
    rows = [_row(row) for row in doctree.findall(_has_place)]
    _store(app.env)[name] = sections + rows


def _store(env):
    if not hasattr(env, "course_sections"):
        env.course_sections = {}
    return env.course_sections


def _kind(name):
    return KINDS.get(name.partition("/")[0], HOME)


def _entry(section, with_code):
    title = section.next_node(nodes.title).astext()
    prose, code = [], []
    for node in _own(section):
        if isinstance(node, nodes.raw):
            habits = HABIT.findall(node.astext())
            prose += [TAG.sub("", html.unescape(habit)) for habit in habits]
        elif not isinstance(node, nodes.literal_block):
            prose.append(_line(node.astext()))
        elif with_code:
            code.append(_shortened(node))
    return [section["ids"][0], title, prose, code]


def _has_place(node):
    """Whether a node is a row of a table with a place of its own, so an entry of its own."""
    return isinstance(node, nodes.row) and bool(_places(node))


def _places(row):
    return PLACE.findall("".join(raw.astext() for raw in row.findall(nodes.raw)))


def _row(row):
    """A row as an entry: its first two cells are the title, the others its prose."""
    texts = [_visible(entry) for entry in row.findall(nodes.entry)]
    title = " → ".join(text for text in texts[:2] if text)
    return [_places(row)[0], title, texts[2:-1], []]


def _visible(node):
    """The text of a node, without the tags in it."""
    texts = [t for t in node.findall(nodes.Text) if not isinstance(t.parent, nodes.raw)]
    return _line(" ".join(texts))


def _own(node):
    """The blocks of text of a section that no section below it holds."""
    for child in node.children:
        if isinstance(child, TEXTS):
            yield child
        elif isinstance(child, nodes.Element) and not _is_skipped(child):
            yield from _own(child)


def _is_skipped(node):
    return isinstance(node, SKIPPED) or _has_place(node)


def _shortened(block):
    """An error whole; of an output the beginning; of code also the names that follow."""
    text = _line(IMPORTS.sub("", block.astext()))
    if block.get("language") in PRINTED:
        return text[:LENGTH]
    if block.get("language") not in CODE:
        return text
    start, rest = text[:SHOWN], text[SHOWN:]
    new = [name for name in dict.fromkeys(NAME.findall(rest)) if name not in start]
    return f"{start} {' '.join(new)}"


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
    return {"env_version": 4, "parallel_read_safe": True, "parallel_write_safe": True}
