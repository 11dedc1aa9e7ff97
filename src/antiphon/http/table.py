"""Every route that is served."""

from antiphon.http import (
    about,
    events,
    hosts,
    messages,
    permissions,
    schedules,
    sessions,
    sign_in,
    tokens,
    turns,
    webhooks,
)
from antiphon.http.routes import Route

ROUTES: tuple[Route, ...] = (
    *messages.GROUP,
    *sessions.GROUP,
    *turns.GROUP,
    *events.GROUP,
    *permissions.GROUP,
    *webhooks.GROUP,
    *schedules.GROUP,
    *hosts.GROUP,
    *tokens.GROUP,
    *sign_in.GROUP,
    *about.GROUP,
)
