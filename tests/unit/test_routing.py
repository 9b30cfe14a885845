"""The routes of an application."""

from wenmai.config.settings import Settings
from wenmai.http.app import ROUTERS, serve_app
from wenmai.http.routes import pages


def test_applications_share_routes_that_were_built_at_import() -> None:
    """Building them takes long enough to hold up the event loop during the first request."""
    settings = Settings(profile="npc", store="memory://")
    own = [route for module in (*ROUTERS, pages) for route in module.router.routes]
    for _ in range(2):
        routes = serve_app(settings).routes
        assert [route for route in routes if any(route is each for each in own)] == own
