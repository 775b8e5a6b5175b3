"""`coursekit new`: the two sources of a chapter, and its line in _toc.yml."""

import re

from coursekit.errors import CourseError

CHAPTER = '''\
---
jupytext:
  text_representation:
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
  language: python
---

# {title}

In PyTorch you … In JAX you …

+++

> **After this chapter** you can
> - …

```{{code-cell}}
import jax
import jax.numpy as jnp
```

## A claim, not a topic

```{{code-cell}}
:tags: [nbval-check-output]
jax.make_jaxpr(jnp.sin)(1.0)
```

## Recap

- …
'''

MASTER = '''\
# %% [markdown]
# # {title}
#
# What these exercises train.
# %%
import jax
import jax.numpy as jnp
from tracecheck import check, expect_close
# %% [markdown] ex="{topic}_double_it" level="warm-up" minutes=3
# ## Double it
#
# Return twice the argument.
# %% ex="{topic}_double_it" kind="solution"
def double(x):
    """Twice x: any shape, the same dtype."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
# %% [markdown] ex="{topic}_double_it" kind="hint"
# Multiplication by a Python number keeps the dtype.
# %% ex="{topic}_double_it" kind="check"
with check("{topic}_doubles", points=1, section="A claim, not a topic"):
    expect_close(double(jnp.ones(3)), 2 * jnp.ones(3))
# %% ex="{topic}_double_it" kind="hidden"
with check("{topic}_doubles_integers", points=1, section="A claim, not a topic"):
    expect_close(double(jnp.arange(3)), jnp.array([0, 2, 4]))
# %% ex="{topic}_double_it" kind="wrong" fails="{topic}_doubles_integers"
# a float factor changes the dtype
def double(x):
    return 2.0 * x
# %% ex="{topic}_double_it" kind="wrong" fails="{topic}_doubles {topic}_doubles_integers"
# nothing is returned
def double(x):
    2 * x
# %% [markdown] ex="{topic}_double_it" kind="why"
# A Python number is weakly typed: it takes the dtype of the array.
'''


def new(course, stem, title=None):
    """Write the sources of a chapter; neither may exist.

    Args:
      stem: such as '08_training_from_scratch'.
      title: by default made from the stem.

    Returns:
      list of str: what was done, and what to do next.

    Raises:
      CourseError: a bad stem, or a source that is there already.
    """
    match = re.fullmatch(r"\d\d_([a-z][a-z0-9_]*)", stem)
    if not match:
        raise CourseError(f"'{stem}' is no name for a chapter: write it like 08_optax.")
    topic = match[1]
    title = title or topic.replace("_", " ").capitalize()
    chapter = course.root / "chapters" / f"{stem}.md"
    master = course.root / "solutions" / f"{stem}.py"
    for path in (chapter, master):
        if path.exists():
            raise CourseError(f"{path} is there already and is left as it is.")
    for path, text in ((chapter, CHAPTER), (master, MASTER)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(title=title, topic=topic), encoding="utf-8")
    _add_to_toc(course.root / "_toc.yml", f"chapters/{stem}")
    return [
        f"wrote chapters/{stem}.md and solutions/{stem}.py, and a line in _toc.yml",
        f"next: write them, try 'coursekit check {stem}', then 'make notebooks'",
    ]


def _add_to_toc(path, name):
    """One line behind the last chapter that comes before it; nothing else changes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entry = re.compile(r"(\s*)- file: (chapters/\S+)")
    places = [(i, m) for i, line in enumerate(lines) if (m := entry.match(line))]
    if not places:
        raise CourseError(f"{path} lists no chapter yet: add '- file: {name}' by hand.")
    before = [p for p in places if p[1][2] < name] or places[:1]
    index, match = before[-1]
    lines.insert(index + 1, f"{match[1]}- file: {name}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
