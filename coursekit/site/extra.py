"""Files of the site that no source stands for: 404.html, robots.txt, index.html."""

import shutil
from pathlib import Path
from urllib.parse import urlparse

from coursekit.course import Course
from coursekit.site import facts
from coursekit.site.address import site_url


def not_found(app):
    """Yield 404.html, which servers show at whatever address was asked for.

    It holds its own style and asks for no file. Its links are relative to a
    <base> with the site's path; while that is unknown, a script finds the path
    in the address that was asked for.
    """
    root = Path(app.srcdir)
    course = Course(root)
    pages = [facts.of(root, name) for name in facts.chapters(root)]
    context = {
        "base": urlparse(site_url(course)).path,
        "chapters": [page for page in pages if page],
        "first": app.config.root_doc,
    }
    yield "404", context, "notfound.html"


def robots(app, exception):
    """Write robots.txt: everything may be read; the sitemap, where there is one."""
    if exception is None:
        lines = ["User-agent: *", "Allow: /"]
        if app.config.html_baseurl:
            lines.append(f"Sitemap: {app.config.html_baseurl}sitemap.xml")
        text = "\n".join(lines) + "\n"
        (Path(app.outdir) / "robots.txt").write_text(text, encoding="utf-8")


def first_page(app, exception):
    """Show the first page at the site's root too, in place of a redirect.

    Its links are relative to the same folder, so that a copy will do.
    """
    first = Path(app.outdir) / f"{app.config.root_doc}.html"
    if exception is None and first.is_file():
        shutil.copyfile(first, first.with_name("index.html"))
