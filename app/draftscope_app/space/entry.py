"""What `python app/main.py` does, on a Space and in a container: everything comes from the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from draftscope.base.errors import DraftscopeError


def main(root: Path) -> int:
    """Serves until it is told to end; bad settings are one sentence. The environment goes before `space.yaml`."""
    from draftscope_app.engine.config import Environment
    from draftscope_app.space.description import read

    try:
        environment = Environment.read(read(root / "space.yaml").environment | os.environ)
        from draftscope_app.serve.server import serve

        serve(
            environment.host, environment.port, environment.load, environment.drafter or None, environment=environment
        )
    except DraftscopeError as error:
        print(f"draftscope: {error}", file=sys.stderr)
        return 2
    return 0
