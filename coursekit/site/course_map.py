"""The course as a path of chapters: a list of links that CSS draws as a line."""

import html

from coursekit.site import facts

LEVELS = ("warm-up", "core", "stretch")


def render(root, uri):
    """The map as HTML.

    Args:
      root: the folder that holds `_toc.yml`.
      uri: docname -> address, relative to the page that the map stands on.
    """
    parts, reference, before = [], [], 0
    for caption, names in facts.parts(root):
        stops = [facts.of(root, n) for n in names if n.startswith("chapters/")]
        reference += [n for n in names if not n.startswith("chapters/")]
        if stops:
            parts.append(_part(caption, stops, before + 1, uri))
            before += len(stops)
    total = _total([facts.of(root, n) for n in facts.chapters(root)])
    progress = '<div class="course-progress"></div>'
    return f"{total}{''.join(parts)}{progress}{_reference(root, reference, uri)}"


def _total(stops):
    exercises = sum(len(stop.levels) for stop in stops)
    hours = round(sum(stop.minutes + stop.set_minutes for stop in stops) / 60)
    return (
        f'<p class="course-total">{len(stops)} chapters, {exercises} exercises, '
        f"about {hours} hours. <span>A mark is an exercise: {_legend()}.</span></p>"
    )


def _part(caption, stops, start, uri):
    rows = "".join(_stop(stop, start + i, uri) for i, stop in enumerate(stops))
    return (
        f'<p class="course-part" role="heading" aria-level="3">{html.escape(caption)}</p>'
        f'<ol class="course-map" start="{start}" style="--first: {start - 1}">{rows}</ol>'
    )


def _stop(stop, number, uri):
    data = {"page": stop.docname, "quizzes": stop.quizzes}
    if stop.levels:
        exercises = f"exercises/{stop.stem}"
        data |= {"exercise-page": exercises, "exercises": len(stop.levels)}
    attributes = " ".join(f'data-{key}="{value}"' for key, value in data.items())
    return (
        f"<li {attributes}>"
        f'<a class="course-stop" href="{uri(stop.docname)}">{html.escape(stop.title)}</a>'
        f'<span class="course-length">{stop.minutes} minutes</span>'
        f"{_set(stop, uri)}</li>"
    )


def _set(stop, uri):
    if not stop.levels:
        return ""
    return (
        f"{_dots(*stop.levels)}"
        f'<a class="course-set" href="{uri(f"exercises/{stop.stem}")}">'
        f"{len(stop.levels)} exercises"
        f'<span class="course-spoken"> on {html.escape(stop.title)}</span></a>'
    )


def _dots(*levels):
    dots = "".join(f'<i class="is-{level}"></i>' for level in levels)
    return f'<span class="course-dots" aria-hidden="true">{dots}</span>'


def _legend():
    return ", ".join(f'<span class="course-level">{_dots(n)} {n}</span>' for n in LEVELS)


def _reference(root, names, uri):
    if not names:
        return ""
    rows = "".join(
        f'<li><a href="{uri(name)}">{html.escape(_title(root, name))}</a></li>'
        for name in names
    )
    return (
        '<p class="course-part" role="heading" aria-level="3">To look things up</p>'
        f'<ul class="course-reference">{rows}</ul>'
    )


def _title(root, name):
    known = facts.of(root, name)
    if known:
        return known.title
    return facts.title((root / f"{name}.md").read_text(encoding="utf-8"))
