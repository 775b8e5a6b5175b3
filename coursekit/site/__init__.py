"""What the book asks of Sphinx beyond `_config.yml`; one module for each concern.

- contents: exercises and solutions below their chapter; no page for a source.
- address: the repository's and the site's address, and what hangs on them.
- bar: the line below a title, from the facts in the committed notebooks.
- answers: an answer on a solution page is folded until it is asked for.
- boundary: the table of the instructors' page.
- landing: the first page's example, ways in and course map.
- head: what machines read of a page.
- extra: 404.html, robots.txt, and the first page at the site's root.
- weight: nothing is sent that a page does not use.
"""

from coursekit.site import (
    address,
    answers,
    bar,
    boundary,
    contents,
    extra,
    head,
    landing,
    lexer,
    weight,
)


def setup(app):
    """Register everything; called by Sphinx."""
    # sphinx_external_toc parses _toc.yml at priority 900; Sphinx adds MathJax at
    # 500, the theme makes its buttons at 501, opengraph writes its tags at 500.
    app.add_lexer("course-error", lexer.ErrorLexer)
    app.connect("config-inited", address.set_address)
    app.connect("config-inited", address.set_site)
    app.connect("config-inited", contents.skip_sources)
    app.connect("config-inited", contents.nest_exercises, priority=950)
    app.connect("config-inited", contents.skip_drafts, priority=960)
    app.connect("source-read", bar.replace_banner)
    app.connect("doctree-read", answers.fold)
    app.connect("html-collect-pages", extra.not_found)
    app.connect("html-page-context", head.describe, priority=400)
    app.connect("html-page-context", head.tidy, priority=600)
    app.connect("html-page-context", address.edit_the_source, priority=502)
    app.connect("html-page-context", weight.drop_mathjax, priority=502)
    app.connect("html-page-context", weight.drop_unused, priority=502)
    app.connect("build-finished", weight.drop_icon_rules)
    app.connect("build-finished", extra.robots)
    app.connect("build-finished", extra.first_page, priority=950)
    landing.setup(app)
    boundary.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
