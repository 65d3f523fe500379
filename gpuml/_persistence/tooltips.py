"""Descriptions of parameters and fitted attributes in notebooks.

scikit-learn shows them with links to its site, and only with those. gpuml's have no link, as its
pages have no address that is known here.
"""

import html
from typing import Any

from gpuml._sklearn import get_docstring

# Cells with a name alone: of a parameter, and of a fitted attribute.
NAMES = (
    '<td class="param">{name}</td>',
    '<td class="param"><a class="param-doc-link" style="text-decoration:none;">{name}</a></td>',
)
DESCRIBED = (
    '<td class="param"><a class="param-doc-link" style="anchor-name: --doc-link-{name};">{name}'
    '<span class="param-doc-description" style="position-anchor: --doc-link-{name};">'
    "{description}</span></a></td>"
)


def with_tooltips(shown: Any, kind: type, section: str) -> Any:
    """A table of scikit-learn's that shows what a section of the docstring of a class says."""
    plain = shown._html_repr

    def described():
        text = plain()
        for name in map(html.escape, shown):
            description = get_docstring(kind, section, name)
            if description:
                cell = DESCRIBED.format(name=name, description=description)
                for alone in NAMES:
                    text = text.replace(alone.format(name=name), cell, 1)
        return text

    shown._html_repr = described
    return shown
