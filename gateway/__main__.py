"""`python -m gateway …` is `tollway …`."""

from gateway.cli import app

if __name__ == "__main__":
    app(prog_name="tollway")
