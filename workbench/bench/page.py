"""The report as one HTML file: tables, the rule of the knee, the settings, the picture inside. Nothing is fetched."""

from __future__ import annotations

import base64
from html import escape

from workbench.bench.knee import RULE
from workbench.bench.results import Result
from workbench.bench.tables import Rows, sentences_of, tables_of

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 2rem; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { text-align: right; padding: .25rem .75rem; border-bottom: 1px solid #8884; white-space: nowrap; }
img { max-width: 100%; background: white; }
dt { font-weight: 600; float: left; clear: left; width: 14rem; }
dd { margin: 0 0 0 14rem; overflow-wrap: anywhere; }
"""


def as_page(result: Result, picture: bytes) -> str:
    title = " and ".join(run.label for run in result.runs)
    image = base64.b64encode(picture).decode()
    return "\n".join([
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Serving benchmark: {escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Serving benchmark: {escape(title)}</h1>",
        *(f"<p>{escape(sentence)}</p>" for sentence in sentences_of(result)),
        f'<img alt="TTFT, TPOT and throughput over the offered rate" src="data:image/png;base64,{image}">',
        *map(_table, tables_of(result)),
        f"<h2>How it was measured</h2><p>TTFT: from sending to the first token. TPOT: the rest of the time, per further "
        f"token. ITL: between two chunks. E2EL: to the last token. Knee: {escape(RULE)}.</p>",
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in result.settings.items()),
        "</dl></body></html>",
        "",
    ])  # fmt: skip


def _table(rows: Rows) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in rows.heads)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows.cells
    )
    return (
        f"<h2>{escape(rows.title)}</h2><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    )
