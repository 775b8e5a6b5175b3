"""Cut the theme's icon fonts down to the icons that the book uses.

    pip install fonttools brotli
    python assets/vendor/fontawesome/subset.py

The licence reserves the name of the original fonts, so the subsets get another
one. `icons.json` records what each file holds, and tests/test_site.py compares
it with the files and with the pages.
"""

import hashlib
import json
import re
from pathlib import Path

import pydata_sphinx_theme
from fontTools import subset

HERE = Path(__file__).parent
THEME = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"

ICONS = {
    "fa-solid-900": """angle-left angle-right arrow-up bars circle-half-stroke
        chevron-down code download expand file file-lines file-pdf home lightbulb
        list magnifying-glass moon outdent pencil pencil-alt play rocket sun""",
    "fa-regular-400": "lightbulb",
    "fa-brands-400": "github",
}


def codepoints(css):
    """The code of every icon by name, and of those that the theme's CSS draws."""
    rules = re.findall(r'([^{}]+)\{content:"\\([0-9a-f]+)"\}', css)
    by_name = {
        name: int(code, 16)
        for selectors, code in rules
        for name in re.findall(r"\.fa-([a-z0-9-]+):before", selectors)
    }
    drawn = re.findall(r'--pst-[a-z-]+:"([\ue000-\uf8ff])"', css)
    return by_name, {ord(char) for char in drawn}


def cut(name, codes):
    """Write the subset of one font; returns the codes that it holds."""
    source = THEME / f"vendor/fontawesome/webfonts/{name}.woff2"
    options = subset.Options(flavor="woff2", layout_features=[], hinting=False)
    font = subset.load_font(source, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID == 0:  # the copyright notice stays as it is
            continue
        text = str(record).replace("Font Awesome", "Course Icons")
        record.string = text.replace("FontAwesome", "CourseIcons")
    subset.save_font(font, HERE / f"webfonts/{name}.woff2", options)
    return sorted(font.getBestCmap())


def main():
    css = (THEME / "styles/pydata-sphinx-theme.css").read_text("utf8")
    by_name, drawn = codepoints(css)
    manifest = {}
    for name, icons in ICONS.items():
        wanted = {by_name[icon] for icon in icons.split()}
        held = cut(name, wanted | (drawn if "solid" in name else set()))
        digest = hashlib.sha256((HERE / f"webfonts/{name}.woff2").read_bytes())
        manifest[name] = {
            "sha256": digest.hexdigest(),
            "codes": [f"{code:x}" for code in held],
        }
    (HERE / "icons.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
