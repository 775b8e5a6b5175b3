"""The addresses of repository and site, and the links that are made of them."""

import os
from pathlib import Path
from urllib.parse import urlparse

from sphinx.util import logging

from coursekit.course import BRANCH, Course
from coursekit.site.contents import PAIRED

log = logging.getLogger(__name__)


def site_url(course):
    """Where the site is published, with a slash at its end; '' where nobody knows.

    `SITE_URL` in the environment decides. Otherwise a repository on GitHub is
    taken to publish on GitHub Pages, unless its address is the placeholder.
    """
    given = os.environ.get("SITE_URL", "").rstrip("/")
    if given:
        return f"{given}/"
    repository = urlparse(course.address)
    if repository.netloc != "github.com" or not course.has_address:
        return ""
    owner, _, name = repository.path.strip("/").partition("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def set_address(app, config):
    """Hand the repository's address to the theme's buttons."""
    course = Course(Path(app.srcdir))
    config.html_theme_options["repository_url"] = course.address
    if not course.has_address:
        log.info("The repository's address is a placeholder: %s", course.address)


def set_site(app, config):
    """Give canonical links, Open Graph and the sitemap the site's address.

    Without an address there is no canonical link and no sitemap: both hold
    absolute addresses, and a wrong one is worse than none.
    """
    config.html_baseurl = config.ogp_site_url = site_url(Course(Path(app.srcdir)))
    if config.html_baseurl:
        app.setup_extension("sphinx_sitemap")
        config.sitemap_url_scheme = "{link}"
        config.sitemap_excludes = ["search.html", "404.html", "genindex.html"]


def binder(course, notebook):
    """The link that opens a notebook of the course on Binder."""
    repository = urlparse(course.address).path.strip("/")
    return f"https://mybinder.org/v2/gh/{repository}/{BRANCH}?urlpath=lab/tree/{notebook}"


def source_of(docname):
    """The text that people edit, of a page that is a notebook."""
    folder, _, stem = docname.partition("/")
    return f"solutions/{stem}.py" if folder in PAIRED else f"{docname}.md"


def edit(course, docname):
    """The link that edits the source of a page."""
    return f"{course.address}/edit/{BRANCH}/{source_of(docname)}"


def edit_the_source(app, pagename, templatename, context, doctree):
    """Point the edit button at the source of a generated notebook."""
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("label") == "source-edit-button":
                source = source_of(pagename)
                button["url"] = button["url"].replace(f"{pagename}.ipynb", source)
