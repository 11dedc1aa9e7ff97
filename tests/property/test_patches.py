"""JSON merge patches of a session: writers of different fields never disturb each other."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core import commands as c
from antiphon.core.merge import merged
from models.scene import Scene

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "title": st.sampled_from([None, "A", "B"]),
    "model": st.sampled_from([None, "m", "n"]),
    "cwd": st.sampled_from([None, "/a", "/b"]),
    "when_busy": st.sampled_from([None, "queue", "steer"]),
}


@given(JSON, JSON)
def test_a_patch_is_idempotent_and_changes_neither_of_its_inputs(target: Any, patch: Any) -> None:
    before = repr((target, patch))
    once = merged(target, patch)
    assert merged(once, patch) == once
    assert repr((target, patch)) == before


def _patches(names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Patches over these names, of every field and inside both objects."""
    fields = {name: VALUES[name] for name in VALUES if name[0] in names}
    inner = st.dictionaries(st.sampled_from(list(names)), st.sampled_from([None, "1", "2"]), max_size=3)
    return st.fixed_dictionaries({}, optional={**fields, "labels": inner, "settings": inner})


@given(_patches("tmcwxy"), _patches("tx"), _patches("mcwy"))
def test_patches_of_different_fields_commute(first: Any, one: Any, other: Any) -> None:
    ends: list[Any] = []
    for patches in ((one, other), (other, one)):
        scene = Scene()
        for changes in (first, *patches):
            scene.take(c.PatchSession(changes=changes))
        ends.append(scene.session)
    assert ends[0] == ends[1]
