"""`python -m idbandits`: the command line."""

from idbandits.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
