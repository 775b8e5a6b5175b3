"""Lighthouse on the built site: a table, and a failure where it must be perfect.

    python -m tests.lighthouse.run _build/html    # make lighthouse does it all

Accessibility, best practices and SEO must score 100. Performance is a measurement
of this machine as much as of the page: it is shown beside its aim, never asserted.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.conftest import FLAGS, find_chromium
from tests.browser.serve import serving

CLI = Path(__file__).parent / "node_modules/lighthouse/cli/index.js"
PAGES = (
    "intro",
    "chapters/02_jit",
    "exercises/02_jit",
    "reference/tracecheck",
)  # the landing page, a heavy chapter, an exercise set, a reference page
DEVICES = {"desktop": ["--preset=desktop"], "mobile": []}
AIMS = {"desktop": 95, "mobile": 85}
PERFECT = ("accessibility", "best-practices", "seo")
CATEGORIES = ("performance", *PERFECT)


def audit(url, options):
    """Lighthouse's report on a page, as its JSON says it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = ["node", CLI, url, "--quiet", "--no-enable-error-reporting"]
        command += ["--output=json", f"--output-path={report}", *options]
        command += [f"--only-categories={','.join(CATEGORIES)}"]
        command += [f"--chrome-flags=--headless=new {' '.join(FLAGS)}"]
        environment = os.environ | {"CHROME_PATH": find_chromium()}
        subprocess.run(command, check=True, env=environment)
        return json.loads(report.read_text(encoding="utf-8"))


def scores(report):
    """{category: 0 to 100}; a category without a score counts as 0."""
    found = report["categories"]
    return {name: round(100 * (found[name]["score"] or 0)) for name in CATEGORIES}


def shortfalls(report):
    """What keeps the categories that must be perfect from it, a line an audit."""
    for name in PERFECT:
        for reference in report["categories"][name]["auditRefs"]:
            audited = report["audits"][reference["id"]]
            if reference["weight"] and audited["score"] not in (None, 1):
                yield f"{name}: {audited['id']}: {audited['title']}"


def main(site):
    """Audit every page on every device; returns the lines of what falls short."""
    short = []
    print(f"{'page':24}{'device':10}" + "".join(f"{name:>16}" for name in CATEGORIES))
    with serving(site) as server:
        for page in PAGES:
            for device, options in DEVICES.items():
                report = audit(f"{server.url}{page}.html", options)
                found = scores(report)
                aim = f"{found['performance']} (aim {AIMS[device]})"
                cells = [aim, *(found[name] for name in PERFECT)]
                row = "".join(f"{cell:>16}" for cell in cells)
                print(f"{page:24}{device:10}{row}", flush=True)
                short += [f"{page}, {device}: {line}" for line in shortfalls(report)]
    return short


if __name__ == "__main__":
    if not find_chromium():
        sys.exit("No Chromium: make browser")
    sys.exit("\n".join(main(Path(sys.argv[1]).resolve())) or 0)  # "" would be a failure
