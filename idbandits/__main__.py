"""`python -m idbandits`: the command line."""

from idbandits.app.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
