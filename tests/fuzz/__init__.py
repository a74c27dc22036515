"""Fuzz tests: `python -m tests.fuzz --help`.

- `calls`: random calls of all public functions with garbage among their arguments, in processes of their own
- `interruptions`: signals whose handlers raise exceptions, at random moments of a learner's life
- `threads`: one agent used by eight threads at once
- `lifetimes`: sequences of calls of all kinds, after each of which an agent must hold what its surviving rounds say
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = str(ROOT / "tests" / "support")
if SUPPORT not in sys.path:  # outside pytest, which has it from pyproject.toml
    sys.path.insert(0, SUPPORT)
