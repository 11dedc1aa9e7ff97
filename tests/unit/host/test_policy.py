"""What policy answers without a person, and what a turn may say."""

import asyncio
from typing import Any

import pytest

from antiphon.host.policy import policy_of
from antiphon.host.settings import AgentSettings, HostSettings
from antiphon.ports.agent import Asked
from antiphon.testing.scripted_agent import Ask, Hold, Say, ScriptedAgent
from hostlab.stage import Stage, in_virtual_time, staged


class Asking(ScriptedAgent):
    """An agent that asks for the tool that its prompt names."""

    def __init__(self) -> None:
        super().__init__(lambda text: [Ask(text)], name="asking")

    async def open(self, spec: Any, resume_token: str | None) -> Any:
        return _Asking(await super().open(spec, resume_token))


class _Asking:
    def __init__(self, conversation: Any) -> None:
        self._conversation = conversation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conversation, name)

    async def said(self) -> Any:
        async for said in self._conversation.said():
            if isinstance(said, Asked):
                tool = said.question or None
                yield Asked(turn_id=said.turn_id, request_id=said.request_id, question="May I?", tool=tool)
            else:
                yield said


async def state(stage: Stage, tool: str, settings: dict[str, Any] | None = None) -> tuple[str, str | None, str | None]:
    """Ask for a tool; the request's state, by whom and why, a moment later."""
    await stage.open(agent="asking", settings=settings or {})
    await stage.send("k", tool)
    await asyncio.sleep(1)
    [asked] = (await stage.host.permissions(state=None)).items
    return asked.state, asked.by, asked.note


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("Read", "allowed"),
        ("mcp__files__read", "allowed"),
        ("Bash", "denied"),
        ("mcp__files__rm", "denied"),
        ("Edit", "pending"),
    ],
)
@in_virtual_time
async def test_lists_answer_at_once_and_what_is_denied_is_denied_whatever_allows_it(tool: str, expected: str) -> None:
    lists = {"allow_tools": ("Read", "Ba*", "mcp__files__*"), "deny_tools": ("Bash", "*__rm")}
    async with staged(Asking(), **lists) as stage:
        found, by, note = await state(stage, tool)
        assert found == expected
        assert by == (None if expected == "pending" else "policy")
        assert ("deny_tools" in (note or "")) == (expected == "denied")


@in_virtual_time
async def test_the_journal_has_the_question_and_that_policy_answered_it() -> None:
    async with staged(Asking(), allow_tools=("*",)) as stage:
        session_id = await stage.open(agent="asking")
        assert (await stage.ask("k", "Read")).state == "answered"
        entries = await stage.store.memory.entries(session_id, after=0, limit=100)
        told = [entry for entry in entries if entry.type.startswith("permission.")]
        assert [entry.type for entry in told] == ["permission.requested", "permission.answered"]
        assert (told[1].data["by"], told[1].data["decision"]) == ("policy", "allow")
        assert "asking" not in [entry.data.get("status") for entry in entries if entry.type == "session.status"]


@pytest.mark.parametrize("where", ["session", "agent", "host"])
@in_virtual_time
async def test_lists_of_host_agent_and_session_add_up(where: str) -> None:
    agents = {"asking": AgentSettings(allow_tools=("Read",) if where == "agent" else (), deny_tools=("Bash",))}
    async with staged(Asking(), agents=agents, allow_tools=("Read",) if where == "host" else ()) as stage:
        own = {"allow_tools": ["Read", "Bash"]} if where == "session" else {}
        assert (await state(stage, "Read", own))[0] == "allowed"
        await stage.host.delete_session("k")
        assert (await state(stage, "Bash", own))[0] == "denied"


@in_virtual_time
async def test_a_question_about_no_tool_is_answered_only_by_a_list_that_has_everything() -> None:
    async with staged(Asking(), allow_tools=("?*",)) as stage:
        assert (await state(stage, ""))[0] == "pending"
        await stage.host.patch_session("k", {"settings": {"deny_tools": ["*"]}}, if_match=None)
        await stage.send("k", "", when_busy="interrupt")
        await asyncio.sleep(5)
        assert {asked.state for asked in (await stage.host.permissions(state=None)).items} == {"expired", "denied"}


@pytest.mark.parametrize(("default", "expected"), [(None, "denied"), ("deny", "denied"), ("allow", "allowed")])
@in_virtual_time
async def test_at_the_deadline_of_the_session_its_default_answers_and_policy_is_named(
    default: str | None, expected: str
) -> None:
    async with staged(Asking()) as stage:
        await stage.open(agent="asking", settings={"permission_deadline_s": 30, "permission_default": default})
        receipt = await stage.send("k", "Edit")
        await asyncio.sleep(28)
        assert (await stage.host.session("k")).status == "asking"
        await stage.end_of(receipt.id)
        [asked] = (await stage.host.permissions(state=None)).items
        assert (asked.state, asked.by) == (expected, "policy")
        assert 30 <= stage.clock.monotonic() < 35


def test_a_session_that_came_with_settings_that_can_not_be_gone_by_has_those_of_the_host() -> None:
    class Came:
        agent, settings = "a", {"stall_after_s": "soon", "allow_tools": "all", "permission_default": 3}

    policy = policy_of(Came, HostSettings())  # pyright: ignore[reportArgumentType]
    assert (policy.stall_after_s, policy.allow_tools, policy.permission_default) == (300.0, (), "deny")


@in_virtual_time
async def test_a_turn_that_says_more_than_it_may_fails_and_the_next_one_has_a_new_agent() -> None:
    async with staged(output_mb=0.001) as stage:
        stage.agent.script = lambda text: [Say("x" * 400)] * 4 + [Hold("never")] if text == "much" else [Say("fine")]
        session_id = await stage.open()
        end = await stage.ask("k", "much")
        assert end.state == "failed"
        assert end.error
        assert "output_mb" in end.error.detail
        assert len(end.reply or "") == 800, "what it might say is kept"
        assert (await stage.ask("k", "little")).reply == "fine"
        assert (await stage.types(session_id)).count("agent.started") == 2


@in_virtual_time
async def test_what_turns_say_is_counted_for_each_turn_anew() -> None:
    async with staged(output_mb=0.001) as stage:
        stage.agent.script = lambda _: [Say("x" * 600)]
        await stage.open()
        assert {(await stage.ask("k", f"{number}")).state for number in range(5)} == {"answered"}
