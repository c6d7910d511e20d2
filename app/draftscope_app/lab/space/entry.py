"""What `python app/start_server.py` does, on a Space and in a container. All settings come from the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from draftscope.base.errors import DraftscopeError


def main(root: Path) -> int:
    """Serves until SIGTERM; invalid settings are one sentence. The environment takes precedence over `space.yaml`."""
    from draftscope_app.engine.config import Environment
    from draftscope_app.lab.space.folder import read

    try:
        environment = Environment.read(read(root).environment | os.environ)
        from draftscope_app.serve.server import serve

        serve(
            environment.host, environment.port, environment.load, environment.drafter or None, environment=environment
        )
    except DraftscopeError as error:
        print(f"draftscope: {error}", file=sys.stderr)
        return 2
    return 0
