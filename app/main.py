"""The Space's entry: puts both source roots on sys.path (a Space installs requirements before the code), serves."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for source in ("engine", "app"):
    sys.path.insert(0, str(ROOT / source))

if __name__ == "__main__":  # the engine process imports this file again and must not serve
    from draftscope_app.server import serve

    serve(os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"), int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
