"""The REST API and the page, as an ASGI application."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.serve.guard import App, Guard, RefusedError
from diagnoser.serve.limits import Door, Limits
from diagnoser.serve.work import Desk, Upload, WorkError
from diagnoser.version import __version__

STATIC = Path(__file__).resolve().parent / "static"
MAX_FILES = 100
MAX_ALERTS = 20

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {"type": "array", "items": {"type": "string", "format": "binary"}}
                    },
                }
            },
        },
    }
}


class Problem(BaseModel):
    """Why there is no answer, in one sentence."""

    error: str


class Alert(BaseModel):
    """One alert of Alertmanager's webhook (version 4). Its annotations are what is read."""

    status: str = "firing"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    fingerprint: str = ""


class Alerts(BaseModel):
    """Alertmanager's webhook."""

    status: str = "firing"
    alerts: list[Alert] = []


class Answered(BaseModel):
    """What was found for one alert; error: why nothing was."""

    fingerprint: str
    headline: str | None = None
    rule: str | None = None
    confidence: float | None = None
    fix: str | None = None
    error: str | None = None


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 408, 413, 421, 422, 429, 504)
}


def application(door: Door, limits: Limits = Limits()) -> App:  # noqa: B008 (a tuple of numbers)
    """The application behind its guard."""
    api = FastAPI(
        title="diagnoser",
        version=__version__,
        description="Why an LLM inference server is slow or will not start.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    desk = Desk(limits)

    @api.exception_handler(WorkError)
    async def refused(_request: Request, error: WorkError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status)

    @api.exception_handler(HTTPException)
    async def broken_off(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code)

    @api.get("/health", tags=["server"])
    async def health() -> dict[str, str]:
        """Whether the server answers, and its version."""
        return {"status": "ok", "version": __version__}

    @api.post("/api/diagnose", response_model=Diagnosis, responses=_PROBLEMS, openapi_extra=_BODY)
    async def diagnose(request: Request) -> Response:
        """Diagnose a pasted text (text/plain) or files (multipart/form-data, fields named files). Nothing is kept."""
        text, _ = await desk.diagnose(await _uploads(request))
        return Response(text, media_type="application/json")

    @api.post("/api/diagnose/stream", responses=_PROBLEMS, openapi_extra=_BODY)
    async def stream(request: Request) -> StreamingResponse:
        """The same as server-sent events: `working`, then `diagnosis` or `problem`."""
        uploads = await _uploads(request)

        async def events() -> AsyncIterator[str]:
            yield _event("working", {"bytes": sum(len(one.data) for one in uploads), "files": len(uploads)})
            try:
                text, _ = await desk.diagnose(uploads)
            except WorkError as error:
                yield _event("problem", {"error": str(error)})
            else:
                yield _event("diagnosis", json.loads(text))

        return StreamingResponse(events(), media_type="text/event-stream")

    @api.post("/api/report", responses=_PROBLEMS, openapi_extra=_BODY)
    async def report(
        request: Request, suffix: Annotated[str, Query(alias="format", pattern="^(html|md)$")] = "html"
    ) -> Response:
        """The postmortem of what is sent, as one HTML page or as Markdown."""
        _, text = await desk.diagnose(await _uploads(request), suffix)
        if text is None:
            raise WorkError(422, "no postmortem could be written")
        kind = "text/html" if suffix == "html" else "text/markdown"
        disposition = f'attachment; filename="incident.{suffix}"'
        return Response(
            text, media_type=f"{kind}; charset=utf-8", headers={"content-disposition": disposition}
        )

    @api.post("/api/alertmanager", responses=_PROBLEMS)
    async def alertmanager(given: Alerts) -> dict[str, list[Answered]]:
        """Alertmanager's webhook: the annotations of each alert are read as text (put the log's lines there)."""
        return {"alerts": [await _answered(desk, alert) for alert in given.alerts[:MAX_ALERTS]]}

    @api.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    @api.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        kinds = {"app.js": "text/javascript", "style.css": "text/css"}
        if name not in kinds:
            return JSONResponse({"error": "there is no such file"}, 404)
        return FileResponse(STATIC / name, media_type=f"{kinds[name]}; charset=utf-8")

    return Guard(api, door, limits)


async def _uploads(request: Request) -> list[Upload]:
    """What was sent. Raises `WorkError` for nothing, or for a form that is none."""
    kind = request.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        try:
            async with request.form(max_files=MAX_FILES, max_fields=10) as form:
                files = [one for one in form.getlist("files") if isinstance(one, UploadFile)]
                uploads = [Upload(one.filename or "paste", await one.read()) for one in files]
        except RefusedError:
            raise
        except (HTTPException, ValueError, KeyError):
            raise WorkError(400, "the form cannot be read") from None
    else:
        uploads = [Upload("paste", await request.body())]
    if not any(one.data for one in uploads):
        raise WorkError(400, "nothing was sent; paste a log as text/plain, or files as multipart/form-data")
    return uploads


async def _answered(desk: Desk, alert: Alert) -> Answered:
    text = "\n".join(alert.annotations.values()).encode("utf-8", "replace")
    if not text.strip():
        return Answered(fingerprint=alert.fingerprint, error="the alert has no annotation to read")
    try:
        found, _ = await desk.diagnose([Upload("alert", text)])
    except WorkError as error:
        return Answered(fingerprint=alert.fingerprint, error=str(error))
    diagnosis = Diagnosis.model_validate_json(found)
    first = next(iter(diagnosis.causes), None)
    return Answered(
        fingerprint=alert.fingerprint,
        headline=diagnosis.headline,
        rule=first.rule if first else None,
        confidence=first.confidence if first else None,
        fix=first.fixes[0].command if first and first.fixes else None,
    )


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
