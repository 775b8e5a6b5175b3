"""What can be seen of one page in a browser, as lists of findings."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
FINDINGS = Path(__file__).with_name("look.js").read_text(encoding="utf-8")
AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"


@cache
def axe_source():
    return AXE.read_text(encoding="utf-8")


class Visit:
    """A page that was opened, and what went wrong meanwhile.

    Attributes:
      page: Playwright's page, loaded, its maths typeset, its folds open.
      findings: complaints of the browser, and requests that left `base`.
    """

    def __init__(self, context, base, path):
        self.base, self.findings = base, []
        self.page = context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self._add(f"error: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", lambda r: self._add(f"failed: {r.url}"))
        self.page.on("response", self._answered)
        self.page.goto(base + path, wait_until="load")
        self.page.evaluate(FINDINGS)
        self.page.evaluate("look.settle()")

    def _add(self, text):
        self.findings.append(text)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self._add(f"console: {message.text}")

    def _asked(self, request):
        if not request.url.startswith((self.base, "data:", "blob:")):
            self._add(f"asks another host: {request.url}")

    def _answered(self, response):
        if response.status >= 400:
            self._add(f"{response.status}: {response.url}")

    def see(self, *names):
        """Findings of functions in look.js."""
        return [f for name in names for f in self.page.evaluate(f"look.{name}()")]

    def axe(self):
        """What axe-core finds, in light and in dark. It changes the page: look last."""
        self.page.evaluate(axe_source() + ";0")
        return self.page.evaluate("look.axe()")

    def dead_links(self, site):
        """Links inside the site that lead to no file or to no place in it."""
        for link in self.page.evaluate("look.links()"):
            if link.startswith(self.base):
                path, anchor = urldefrag(link.removeprefix(self.base).partition("?")[0])
                target = site / (unquote(path) or "index.html")
                if not target.is_file():
                    yield f"dead link: {link}"
                elif anchor and unquote(anchor) not in ids(target):
                    yield f"dead anchor: {link}"


@cache
def ids(path):
    """The ids in an HTML file, as the browser's own scripts need not have run."""
    return set(re.findall(r'\sid="([^"]+)"', path.read_text(encoding="utf-8")))
