"""Where things stand in the project, and the address of its repository."""

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from coursekit.errors import CourseError

PLACEHOLDER = "OWNER"
BRANCH = "main"


@dataclass(frozen=True)
class Course:
    """A checkout of the project; `root` is the folder that holds `_toc.yml`."""

    root: Path

    @classmethod
    def here(cls, start=None):
        """The course that holds `start`, by default the working directory.

        Raises:
          CourseError: no folder above has a `_toc.yml`.
        """
        start = Path(start or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            if (folder / "_toc.yml").is_file():
                return cls(folder)
        raise CourseError(f"no _toc.yml in {start} or above it: run this in the course.")

    @cached_property
    def address(self):
        """The repository's address, without a slash at its end.

        `REPOSITORY_URL` in the environment overrides `_config.yml`.
        """
        config = yaml.safe_load((self.root / "_config.yml").read_text(encoding="utf-8"))
        address = os.environ.get("REPOSITORY_URL") or config["repository"]["url"]
        return address.rstrip("/")

    @property
    def has_address(self):
        """Whether the address is a real one, not the placeholder."""
        return f"/{PLACEHOLDER}/" not in self.address

    def colab(self, notebook):
        """The link that opens a notebook of the course in Colab."""
        _, _, repository = self.address.partition("://github.com/")
        base = "https://colab.research.google.com/github"
        return f"{base}/{repository}/blob/{BRANCH}/{notebook}"

    def toc(self):
        """Every file named in `_toc.yml`, in order, without endings."""
        table = yaml.safe_load((self.root / "_toc.yml").read_text(encoding="utf-8"))
        return list(_files(table))

    def pages(self):
        """Sources of chapters and executed reference pages, in order of name."""
        found = sorted(
            path
            for folder in ("chapters", "reference")
            for path in (self.root / folder).glob("*.md")
            if "kernelspec:" in path.read_text(encoding="utf-8")[:400]
        )
        return found

    def masters(self):
        """Sources of exercise sets, in order of name."""
        return sorted((self.root / "solutions").glob("*.py"))

    def home_of(self, stem):
        """The folder whose page an exercise set is paired with, or None."""
        for folder in ("chapters", "reference"):
            if (self.root / folder / f"{stem}.md").is_file():
                return folder
        return None

    def inputs_sha(self, source):
        """What a notebook's outputs depend on: source, its data, tracecheck, lock.

        A page's data is the package of coursekit that has its name.
        """
        digest = hashlib.sha256(source.read_bytes())
        if source.suffix == ".md":
            for path in sorted((self.root / "coursekit" / source.stem).rglob("*.*")):
                if path.suffix in (".py", ".toml"):
                    digest.update(path.read_bytes())
        digest.update(self._shared_inputs)
        return digest.hexdigest()[:16]

    @cached_property
    def _shared_inputs(self):
        library = sorted((self.root / "tracecheck").rglob("*.py"))
        lock = self.root / "requirements.txt"
        return b"".join(path.read_bytes() for path in (*library, lock) if path.is_file())


def _files(node):
    if isinstance(node, list):
        for item in node:
            yield from _files(item)
    elif isinstance(node, dict):
        for key in ("root", "file"):
            if key in node:
                yield str(node[key]).removesuffix(".md").removesuffix(".ipynb")
        for key in ("parts", "chapters", "sections", "subtrees", "entries"):
            yield from _files(node.get(key, []))
