"""An exploration as text, and as tables that a page can make a stepper of."""

import html
import json
import re


def as_text(data):
    """Calls with their entries, then each trace line by line."""
    width = max(len(call["label"]) for call in data["calls"])
    rows = [f"{data['name']}: {_amount(data)}"]
    for call in data["calls"]:
        why = f": {', '.join(call['why'])}" if call["why"] else ""
        rows.append(f"  {call['label']:{width}}  {verdict(call)}{why}")
    for number, entry in enumerate(data["entries"], 1):
        rows += ["", f"entry {number}, inputs {' '.join(entry['inputs'])}"]
        for step in entry["steps"]:
            code = data["code"][step["line"]].strip()
            rows.append(f"  line {step['line'] + 1}: {code}")
            rows += [f"      {text}" for text in _left(step)]
        rows.append(f"  returns {' '.join(entry['results'])}".rstrip())
    return "\n".join(rows)


def _amount(data):
    parts = ((data["calls"], "call", "calls"), (data["entries"], "entry", "entries"))
    return ", ".join(f"{len(p)} {one if len(p) == 1 else more}" for p, one, more in parts)


def verdict(call):
    """'traced, makes entry 2' or 'reuses entry 1'."""
    doing = "traced, makes" if call["traced"] else "reuses"
    return f"{doing} entry {call['entry']}"


def _left(step):
    """The equations of a step, and what Python printed."""
    printed = [f"prints: {line}" for line in step["printed"].splitlines()]
    return step["eqns"] + printed


def as_html(data):
    """Tables that need neither script nor style, and the data for explorer.js."""
    # "<" is escaped, or a "</script>" in a string of the code would end the block.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    packed = packed.replace("<", "\\u003c")
    first, *others = [_entry(data, n) for n in range(1, len(data["entries"]) + 1)]
    folded = [
        f"<details><summary>{title}</summary>{table}</details>"
        for title, table in others
    ]
    title, table = first
    return (
        '<div class="trace-explorer"><div class="trace-static">'
        f"{_calls(data)}<p><strong>{title}</strong></p>{table}{''.join(folded)}</div>"
        f'<script type="application/json" class="trace-explorer-data">{packed}</script>'
        "</div>"
    )


def _calls(data):
    rows = []
    for call in data["calls"]:
        given = ", ".join(f"{name}: {text}" for name, text in call["arguments"])
        why = f" ({', '.join(call['why'])})" if call["why"] else ""
        rows.append(_row((call["label"], given, verdict(call) + why)))
    return _table("trace-calls", ("Call", "Arguments", "What it does"), rows)


def _entry(data, number):
    """(title, table) of one trace."""
    entry, rows = data["entries"][number - 1], []
    label = data["calls"][entry["call"]]["label"]
    for step in entry["steps"]:
        code = data["code"][step["line"]].strip()
        left = "<br>".join(_code(text) for text in _left(step)) or "nothing"
        rows.append(f"<tr><td>{step['line'] + 1}</td><td>{_code(code)}</td><td>{left}</td></tr>")
    rows.append(_row(("", "result", " ".join(entry["results"]))))
    inputs = html.escape(" ".join(entry["inputs"]))
    title = f"Entry {number}, traced for “{html.escape(label)}”; inputs {inputs}"
    return title, _table("trace-lines", ("Line", "Python runs", "What it leaves"), rows)


def _code(text):
    return f"<code>{html.escape(text)}</code>"


def _row(cells):
    return "<tr>" + "".join(f"<td>{_marked(cell)}</td>" for cell in cells) + "</tr>"


def _marked(text):
    """Text for a page, with its `names` set as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _table(name, heads, rows):
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    body = "".join(rows)
    return f'<table class="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
