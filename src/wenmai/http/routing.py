"""Routers whose routes are built once, when their module is imported, and which all applications of a process share."""

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from wenmai.http.authorization import authorize


def resource_router(
    prefix: str = "", *, tag: str | None = None, route_class: type[APIRoute] = APIRoute, in_schema: bool = True
) -> APIRouter:
    """A router whose routes are authorized and have their function's name as operation id.

    Args:
        prefix: of all paths.
        tag: of the operations in the OpenAPI document.
        route_class: how bodies and answers are converted.
        in_schema: whether the OpenAPI document has the routes.
    """
    return APIRouter(
        prefix=prefix,
        tags=[tag] if tag else [],
        route_class=route_class,
        include_in_schema=in_schema,
        dependencies=[Depends(authorize)],
        generate_unique_id_function=lambda route: route.name,
    )


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Add the routes as they are; ``include_router`` would build them again, during the first request."""
    app.router.routes.extend(router.routes)
