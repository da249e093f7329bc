"""`tollway check`: the production checklist against a running installation.

`gather` asks gateway, engines and database once; each check is a small function of what they said; `report` shows the
lines. Nothing is changed.
"""
