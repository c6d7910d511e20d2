"""Health checks for a proxy or an orchestrator: `/healthz` while the server is alive, `/readyz` while it takes runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from draftscope_app.engine.admission import Admission


def routes(admission: Admission) -> list[Route]:
    """Both answer in JSON. `/readyz` is 503 while models load, without models, while the engine does not answer, and
    while the server ends."""

    async def alive(_: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def ready(_: Request) -> JSONResponse:
        engine = admission.engine
        says = engine.silent or engine.status.sentence
        status = {"ready": admission.ready, "engine": engine.status.phase, "says": says}
        return JSONResponse(status | {"runs": len(engine)}, status_code=200 if admission.ready else 503)

    return [Route("/healthz", alive), Route("/readyz", ready)]
