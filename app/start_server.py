"""The Space's entry point: puts both source roots on sys.path, as a Space only installs requirements, and serves."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for source in ("engine", "app"):
    sys.path.insert(0, str(ROOT / source))

if __name__ == "__main__":  # the engine process imports this file again and must not serve
    from draftscope_app.lab.space.entry import main

    sys.exit(main(ROOT))
