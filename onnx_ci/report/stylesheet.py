"""The look of an HTML report, in light and in dark, wide and narrow."""

from __future__ import annotations

LIGHT = {
    "paper": "#fbfbfa",
    "card": "#ffffff",
    "ink": "#1c2024",
    "soft": "#596068",
    "line": "#e2e3e0",
    "whole": "#e6e8e6",
    "accent": "#1f6f8b",
    "good": "#22693c",
    "warn": "#835400",
    "bad": "#a8322a",
    "good-back": "#e7f3ea",
    "warn-back": "#faf0db",
    "bad-back": "#fbeae8",
    "dim-back": "#eeefed",
}
DARK = {
    "paper": "#14171a",
    "card": "#1b1f23",
    "ink": "#e4e7e9",
    "soft": "#a2aab1",
    "line": "#30363b",
    "whole": "#333a40",
    "accent": "#6cb8d4",
    "good": "#86d19c",
    "warn": "#e3bb6a",
    "bad": "#f2938a",
    "good-back": "#1d3225",
    "warn-back": "#372d17",
    "bad-back": "#3b2220",
    "dim-back": "#2a2f34",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;
overflow-wrap:anywhere}
main{max-width:68rem;margin:0 auto;padding:2rem 1.5rem 0}
footer{max-width:68rem;margin:0 auto;padding:2rem 1.5rem;color:var(--soft);font-size:.85rem}
h1{font-size:1.5rem;line-height:1.3;margin:0 0 1rem}
h2{font-size:1.15rem;line-height:1.4;margin:0 0 .75rem}
h3{font-size:1rem;margin:1.75rem 0 .4rem}
section>h3:first-child{margin-top:0}
p{margin:.4rem 0;max-width:46rem}
a{color:var(--accent);text-underline-offset:.2em}
code,.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9em}
.soft{color:var(--soft)}
.badge{display:inline-block;padding:.05rem .6rem;border-radius:1rem;font:600 .82rem/1.6 system-ui,sans-serif;
white-space:nowrap;color:var(--soft);background:var(--dim-back)}
.badge.good{color:var(--good);background:var(--good-back)}
.badge.warn{color:var(--warn);background:var(--warn-back)}
.badge.bad{color:var(--bad);background:var(--bad-back)}
h1 .badge,h2 .badge{vertical-align:.12em}
.figures{display:flex;flex-wrap:wrap;gap:.75rem 2.5rem;margin:0 0 1rem}
.figures dt{color:var(--soft);font-size:.85rem}
.figures dd{margin:0;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;
padding:1.25rem 1.5rem;margin:1.25rem 0}
table{min-width:min(100%,34rem);border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
table:has(thead th:nth-child(5)){width:100%}
caption{text-align:left;color:var(--soft);padding:0 0 .35rem;font-size:.88rem}
th,td{text-align:left;vertical-align:top;padding:.4rem 1.2rem .4rem 0;border-bottom:1px solid var(--line)}
tr>:last-child{padding-right:0}
tbody tr:last-child>*{border-bottom:0}
thead th{color:var(--soft);font-weight:500;font-size:.85rem;white-space:nowrap}
tbody th{font-weight:500;min-width:9rem}
.number{text-align:right;white-space:nowrap}
.bar{display:block;width:100%;min-width:6rem;max-width:9rem;height:.5rem;margin:.5rem 0}
.bar .whole{fill:var(--whole)}
.bar .part{fill:var(--accent)}
ul{list-style:none;margin:0;padding:0}
.findings li{padding:.55rem 0 .55rem .9rem;border-left:3px solid var(--line);margin:.5rem 0}
.findings li.error{border-color:var(--bad)}
.findings li.warning{border-color:var(--warn)}
.findings p{margin:.2rem 0}
details{margin:.75rem 0}
summary{cursor:pointer;color:var(--soft);font-size:.92rem}
summary:hover{color:var(--ink)}
figure{margin:.75rem 0}
figcaption{color:var(--soft);font-size:.88rem}
.chart{padding:2.1rem 1rem 2.6rem 3.2rem}
.curve,.point{overflow:visible}
.curve{display:block;width:100%;height:15rem;font-size:12px}
.curve text{fill:var(--soft)}
.curve .grid{stroke:var(--line)}
.curve .best{stroke:var(--soft);stroke-dasharray:2 3}
.point *{stroke:var(--accent);stroke-width:1.75;fill:none}
.point.holds circle{fill:var(--accent)}
.point.fails path{stroke:var(--bad)}
.point.chosen path{fill:var(--card);stroke:var(--ink);stroke-width:2.25}
.point .hit{stroke:none;fill:transparent}
.point.holds .hit{fill:transparent}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;color:var(--soft);font-size:.88rem}
.legend svg{width:16px;height:16px;vertical-align:-3px;margin-right:.35rem;overflow:visible}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
@media (max-width:40rem){
main,footer{padding-left:1rem;padding-right:1rem}
main{padding-top:1.25rem}
section{padding:1rem}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table,tbody,caption,thead tr,thead th{display:block}
thead th{padding:0}
tbody tr{display:block;padding:.6rem 0;border-bottom:1px solid var(--line)}
tbody tr:last-child{border-bottom:0}
tbody th,td{display:block;border:0;padding:.1rem 0}
tbody th{font-weight:600}
td{display:flex;gap:1rem;justify-content:space-between;text-align:right;white-space:normal}
td::before{content:attr(data-label);color:var(--soft);text-align:left;flex:none}
td>span{min-width:0;flex:0 1 auto}
td:has(>span:empty){display:none}
td .bar{width:9rem}
}
@media print{section{break-inside:avoid}}
"""

STYLESHEET = (
    f"\n:root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}{RULES}"
)
