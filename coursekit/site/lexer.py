"""How the last lines of a traceback are coloured."""

from pygments.lexer import RegexLexer
from pygments.token import Name, Text


class ErrorLexer(RegexLexer):
    """An error's name stands out; what it says is prose, and never fails to lex."""

    tokens = {
        "root": [
            (r"^[\w.]*(Error|Exception|Failed|Warning)\b", Name.Exception),
            (r".+\n?|\n", Text),
        ]
    }
