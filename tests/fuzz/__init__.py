"""Fuzz tests: `python -m tests.fuzz --help`.

- `calls`: random calls of all public functions with invalid arguments, in separate processes
- `interruptions`: signals whose handlers raise exceptions at random moments
- `threads`: one agent used by eight threads
- `lifetimes`: random sequences of calls, after each of which the belief must agree with the remaining rounds
- `logs`: malformed logs, each of which must be read with skipped rows counted, or raise an error that names its source
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = str(ROOT / "tests" / "support")
if SUPPORT not in sys.path:  # pytest gets it from pyproject.toml
    sys.path.insert(0, SUPPORT)
