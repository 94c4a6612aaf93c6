"""How the templates of this world's pages are read.

Invariants: a page is one file without network; all data is escaped; a name that a template lacks is an error.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def template(name: str) -> Template:
    """A template of this folder."""
    environment = Environment(
        loader=PackageLoader("homerl.worlds.personalhome", "pages"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["words"] = lambda text: str(text).replace("_", " ")
    return environment.get_template(name)
