"""What an ACP agent lets be chosen for a session: its mode, its model, and options of its own.

There are three forms of it, of different age: `configOptions` (a mode and a model are options of that category),
`modes`, and `models`, which the schema has no more. Agents have one of them, or several.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.agents.acp.protocol import ConfigOption, Session


class NotOffered(Exception):
    """The agent does not offer what was chosen; the text is for a person."""


class Choice(msgspec.Struct, frozen=True):
    """A request that makes a choice, but for the session's id."""

    method: str
    params: dict[str, Any]


def choices(
    session: Session, mode: str | None, model: str | None, config: Mapping[str, str | bool]
) -> Iterator[Choice]:
    """The requests that bring a session to what was chosen; none for what it is at already.

    Raises:
        NotOffered: Something is not on offer.
    """
    if model is not None:
        yield from _model(session, model)
    if mode is not None:
        yield from _mode(session, mode)
    for name, value in config.items():
        option = _named(session, name)
        if option is None:
            offered = [option.id for option in session.config_options or ()]
            raise NotOffered(f"The agent offers no option {name!r}. {_list(offered)}")
        yield from _option(option, value)


def current_mode(session: Session) -> str | None:
    """The mode that a session is in, where the agent has modes."""
    if session.modes is not None:
        return session.modes.current_mode_id
    option = _category(session, "mode")
    return option.current_value if option and isinstance(option.current_value, str) else None


def _model(session: Session, model: str) -> Iterator[Choice]:
    option = _category(session, "model")
    if option is not None:
        yield from _option(option, model)
    elif session.models is not None:
        offered = [each.model_id for each in session.models.available_models]
        if model not in offered:
            raise NotOffered(f"The agent offers no model {model!r}. {_list(offered)}")
        if model != session.models.current_model_id:
            yield Choice("session/set_model", {"modelId": model})
    else:
        raise NotOffered(
            f"The agent can't be told to use the model {model!r}. Choose it in the agent's own configuration instead."
        )


def _mode(session: Session, mode: str) -> Iterator[Choice]:
    if session.modes is not None:
        offered = [each.id for each in session.modes.available_modes]
        if mode not in offered:
            raise NotOffered(f"The agent offers no mode {mode!r}. {_list(offered)}")
        if mode != session.modes.current_mode_id:
            yield Choice("session/set_mode", {"modeId": mode})
        return
    option = _category(session, "mode")
    if option is None:
        raise NotOffered(f"The agent has no modes, so it can't be put into {mode!r}.")
    yield from _option(option, mode)


def _option(option: ConfigOption, value: str | bool) -> Iterator[Choice]:
    if option.type == "select" and value not in option.values:
        raise NotOffered(f"The agent's option {option.id!r} can't be {value!r}. {_list(option.values)}")
    if value != option.current_value:
        kind = {"type": "boolean"} if isinstance(value, bool) else {}
        yield Choice("session/set_config_option", {"configId": option.id, **kind, "value": value})


def _category(session: Session, category: str) -> ConfigOption | None:
    options = session.config_options or []
    return next((option for option in options if category in (option.category, option.id)), None)


def _named(session: Session, name: str) -> ConfigOption | None:
    return next((option for option in session.config_options or () if option.id == name), None)


def _list(offered: list[str]) -> str:
    return f"There are: {', '.join(offered)}." if offered else "There are none."
