"""A run as one HTML page: the picture inside it, the figures as a table. It loads nothing from anywhere.

Owns: the page's text. Never: computes a figure.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
img { max-width: 100%; } table { border-collapse: collapse; } caption { text-align: left; font-weight: 600; }
th, td { text-align: left; padding: .25rem 1.5rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td { font-variant-numeric: tabular-nums; } th { font-weight: 400; color: #555; }
footer { color: #555; font-size: .9rem; }
"""


def html(title: str, picture_png: bytes, rows: Mapping[str, str], notes: Sequence[str]) -> str:
    """The page; `rows` become the table, `notes` stand below it."""
    image = base64.b64encode(picture_png).decode()
    table = "\n".join(
        f"<tr><th scope=row>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items()
    )
    below = "\n".join(f"<p>{escape(note)}</p>" for note in notes)
    alternative = "Four panels: normalized entropy over samples; dedup factor per mini-batch; bytes; lag over time"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{_STYLE}</style></head>
<body><h1>{escape(title)}</h1>
<img alt="{alternative}" src="data:image/png;base64,{image}">
<table><caption>What was measured</caption>
{table}
</table>
<footer>{below}</footer></body></html>
"""
