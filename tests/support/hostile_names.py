"""Names that try to be something else: a command, a tag, a link, a mention, a cell, the end of a block."""

from __future__ import annotations

HOSTILE = (
    "\n::error::owned",
    "\r\n::set-output name=a::b",
    "##[error]owned",
    "x ##vso[task.setvariable variable=PATH]owned ##teamcity[buildStop]",
    "  ::error::owned",
    "%0A::warning::owned",
    "::stop-commands::x",
    "a,line=9::owned",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</code></summary></details><h1>owned</h1>",
    "<!-- a --> &lt;b&gt; &#60;",
    "| a | b |\\| c | `|`",
    "`` ` ``` \n```\n# owned",
    "~~~\nowned",
    "[owned](https://evil.example) ![owned](https://evil.example/a.png) <https://evil.example>",
    "https://evil.example www.evil.example WWW.evil.example someone@evil.example mailto:a@evil.example",
    "@octocat @github/security #1 octo/cat#1 GH-1 :+1: $a^2$",
    "**a** _b_ ~~c~~ [^1] ](x)",
    '"]; click a "javascript:alert(1)" %%{init: {}}%%',
    "--> end subgraph \\\\\\",
    "]]> <![CDATA[ ' \" &",
    "\x00\x1b[31m\u202e\ud800",
    "-leading - [ ] # 1. > +",
)
EVERYTHING = " ".join(HOSTILE)
