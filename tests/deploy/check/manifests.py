"""kubectl renders the overlays, and renders what is committed."""

from __future__ import annotations

from scripts.deploy_files import OVERLAYS, RENDERED, render

__all__ = ["run"]


def run() -> str:
    for overlay in OVERLAYS:
        committed = (RENDERED / f"{overlay}.yaml").read_text(encoding="utf-8")
        assert render(overlay) == committed, f"{overlay}: run `make deploy-files`"
    return f"{', '.join(OVERLAYS)} are rendered as committed"
