"""Rules about the text of chapters."""

import re

from coursekit.lint.material import headings, markdown_cells, tags

DIRECTIVE = re.compile(r"^(`{3,}|:{3,})\{|\{[a-z:-]+\}`", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
HYPE = re.compile(
    r"\b(simply|obviously|of course|trivially|effortless(ly)?|blazing(ly)?|magic(al|ally)?"
    r"|amazing|awesome|powerful|needless to say)\b",
    re.I,
)
UNFINISHED = re.compile(r"\bTODO\b|\bFIXME\b|\bTBD\b|coming soon|lorem ipsum|^- …$", re.I | re.M)
MOST_OBJECTIVES = 4
ANSWER = "<details><summary>Answer</summary>"
OPTION = re.compile(r"^\d+\. (.+)$", re.M)
RIGHT = "**Right.**"


def objectives(material):
    """A chapter opens with at most four objectives and ends with a recap."""
    for name, page in material.chapters.items():
        opening = "\n".join(c.source for c in page.cells[:5] if c.cell_type == "markdown")
        count = len(re.findall(r"^> (?:- |\d\. )", opening, re.M))
        if "> **After this chapter**" not in opening or not count:
            yield f"{name}: no objectives; open with '> **After this chapter** you can'."
        if count > MOST_OBJECTIVES:
            yield f"{name}: {count} objectives; keep the {MOST_OBJECTIVES} that matter."
        if not any(h.startswith("Recap") for h in headings(page)[-3:]):
            yield f"{name}: no '## Recap' near the end."


def no_directives(material):
    """Notebooks hold plain CommonMark: Colab would show a MyST directive raw."""
    for name, page in _texts(material):
        for number, cell in page:
            if DIRECTIVE.search(cell.source):
                yield f"{name}: cell {number} has a MyST directive or role; use CommonMark."


def plain_words(material):
    """No hype, and no word that tells readers how easy something should be."""
    for name, page in _texts(material):
        for number, cell in page:
            found = HYPE.search(FENCE.sub("", cell.source))
            if found:
                yield f"{name}: cell {number} says '{found[0]}'; take the word out."


def finished(material):
    """Nothing is left to be written."""
    for name, page in _texts(material):
        for number, cell in page:
            found = UNFINISHED.search(cell.source)
            if found:
                yield f"{name}: cell {number} holds '{found[0]}'; write it."


def quizzes(material):
    """Three to five quick questions a chapter, each answered option by option."""
    for name, page in material.chapters.items():
        found = [(i, c) for i, c in markdown_cells(page) if "quiz" in tags(c)]
        if not 3 <= len(found) <= 5:
            yield f"{name}: {len(found)} quick questions; have three to five."
        for number, cell in found:
            yield from (f"{name}: cell {number}: {why}" for why in _quiz_problems(cell.source))
        yield from (f"{name}: {why}" for why in _patterns([c.source for _, c in found]))


def _quiz_problems(source):
    question, _, answer = source.partition(ANSWER)
    options, whys = OPTION.findall(question), OPTION.findall(answer)
    if not re.match(r"\*\*Quick question\.\*\* .*\?$", question.partition("\n\n")[0], re.S):
        yield "a quick question opens with '**Quick question.**' and ends in a question mark."
    if len(options) < 2:
        yield "a quick question needs two numbered options or more, one line each."
    if any("](" in option for option in options):
        yield "an option holds a link; it becomes a button, so put the link into the answer."
    if len(whys) != len(options) or not answer.endswith("</details>"):
        yield f"{ANSWER}, a numbered explanation for each option and </details> end the cell."
    if sum(why.startswith(RIGHT) for why in whys) != 1:
        yield f"one explanation, and only one, opens with '{RIGHT}'."


def _patterns(sources):
    """What is wrong with the questions of a page as a whole."""
    questions = [source.partition("\n\n")[0] for source in sources]
    whys = [OPTION.findall(source.partition(ANSWER)[2]) for source in sources]
    places = [[why.startswith(RIGHT) for why in answer].index(True) for answer in whys
              if any(why.startswith(RIGHT) for why in answer)]  # fmt: skip
    if len(questions) != len(set(questions)):
        yield "two quick questions ask the same; the site tells them apart by what they ask."
    if len(places) > 2 and len(set(places)) == 1:
        yield f"option {places[0] + 1} is always the right one; spread the right options."


def _texts(material):
    """(name, [(number, Markdown cell)]) of every page, exercise sets included."""
    for name, page in material.pages.items():
        yield name, markdown_cells(page)
    for name, read in material.masters.items():
        cells = [*read.common, *(c for e in read.exercises for c in e.cells)]
        yield name, [(f"at line {c.line}", c) for c in cells if c.markdown]


RULES = (objectives, no_directives, plain_words, finished, quizzes)
