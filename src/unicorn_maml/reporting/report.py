"""One page of runs and studies that needs nothing beside itself."""

import base64
import re
from html import escape
from importlib.resources import files

from unicorn_maml import __version__
from unicorn_maml.reporting.sections import Section

__all__ = ["report_page"]


def report_page(title: str, sections: list[Section]) -> str:
    """Return the page: what was found first, then each run with figure, table and command."""
    style = (files("unicorn_maml") / "reporting" / "report.css").read_text(encoding="utf-8")
    findings = "\n".join(
        f'<li><a href="#run-{number}">{escape(section.title)}</a>. '
        f"{_prose(section.conclusion)}</li>"
        for number, section in enumerate(sections)
    )
    bodies = "\n".join(_section(number, section) for number, section in enumerate(sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p class="muted">Accuracies are in percent, ± half of the 95% interval over tasks.</p>
<section id="summary">
<h2>Summary</h2>
<ol>
{findings}
</ol>
</section>
{bodies}
<footer><p>Made by unicorn-maml {escape(__version__)}.</p></footer>
</body>
</html>
"""


def _prose(text: str) -> str:
    """A conclusion, with `words` between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _section(number: int, section: Section) -> str:
    parts = [
        f'<section id="run-{number}">',
        f"<h2>{number + 1}. {escape(section.title)}</h2>",
        f"<p>{_prose(section.conclusion)}</p>",
    ]
    if section.figure is not None:
        image = base64.b64encode(section.figure).decode("ascii")
        parts.append(
            f'<figure><img alt="{escape(section.title)}" src="data:image/svg+xml;base64,{image}">'
            "</figure>"
        )
    if section.rows:
        parts.append(_table(section.columns, section.rows))
    if section.paper:
        parts.append("<h3>The paper's numbers</h3>")
        parts.append(_table(["", "the paper", "where"], section.paper, kind="paper"))
    parts.append(f"<h3>Command</h3>\n<pre>{escape(section.command)}</pre>")
    details = " · ".join(
        f"<b>{escape(name.replace('_', ' '))}</b> {escape(value)}"
        for name, value in section.details.items()
    )
    parts += [f'<p class="details">{details}</p>', "</section>"]
    return "\n".join(parts)


def _table(columns: list[str], rows: list[list[str]], kind: str = "ours") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
