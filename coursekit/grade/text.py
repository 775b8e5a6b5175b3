"""Text that a submission had a hand in, made fit for a terminal, a table and a page."""

MOST = 2000


def clean(text, most=MOST):
    """The text without what a terminal or a page would obey or can't show.

    Control characters, marks of direction and halves of a surrogate pair are spelled
    out (`\\u202e`); line ends stay, and what is longer than `most` is cut.
    """
    text = text if isinstance(text, str) else "a message that is no text"
    cut = text if len(text) <= most else text[:most] + " …"
    return "".join(c if c.isprintable() or c == "\n" else _spelled(c) for c in cut)


def line(text, most=200):
    """The same on one line."""
    return " ".join(clean(text, most).split())


def _spelled(character):
    return " " if character in "\t\xa0" else f"\\u{ord(character):04x}"
