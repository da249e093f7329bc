"""The console's types are those of the committed description of the API: whoever changes one writes the other anew."""

from __future__ import annotations

import json

from scripts.console_types import DESCRIPTION, TYPES, render


def test_the_types_are_of_this_description() -> None:
    assert TYPES.read_text() == render(json.loads(DESCRIPTION.read_text())), (
        "docs/openapi.json has changed: run `python -m scripts.console_types` and commit admin_ui/src/api/schema.ts"
    )
