"""What every store must do. A kind's tests subclass `StoreSuite` and give `make`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from bascule.core.errors import AccessDenied, InvalidRequest, QuotaExceeded
from bascule.core.sessions import (
    Egress,
    SessionId,
    SessionSpec,
    SessionState,
    WorkspaceSource,
    new_session_id,
)
from bascule.core.windows import WindowId
from bascule.hub.accounts.rows import AuditFilter, UserRow
from bascule.hub.identity import Scope, TokenRow
from bascule.hub.sessions.rows import AuditRow, Claim, Quota, SessionRow
from bascule.hub.store import Store

MakeStore = Callable[[], Store]
"""A store that is not open yet. All that it makes in one test have the same contents."""

STARTING: tuple[SessionState] = ("starting",)
SPEC = SessionSpec(
    name="a name",
    workspace=WorkspaceSource(kind="git", url="https://example.org/x.git"),
    environment={"A": "b"},
    egress=Egress(mode="proxy", domains=("example.org",)),
)


def row(**changes: object) -> SessionRow:
    made = SessionRow(
        id=new_session_id(),
        owner="ada",
        created_by="agent",
        spec=SPEC,
        created=1.5,
        updated=1.5,
        last_active=1.5,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def claim(limit: int, *, amount: int = 1, per_owner: bool = False, kind: str = "session") -> Claim:
    return Claim(kind, amount, "sessions", (Quota("max_sessions", limit, per_owner),))


class StoreSuite:
    @pytest.fixture
    def make(self) -> MakeStore:
        raise NotImplementedError

    @pytest.fixture
    async def store(self, make: MakeStore) -> AsyncIterator[Store]:
        async with make() as store:
            await store.open()
            yield store

    async def test_a_store_that_is_open_passes_its_check(self, store: Store) -> None:
        await store.check()

    # Tokens and windows -------------------------------------------------------------------

    async def test_a_token_is_found_by_its_hash_and_removed_by_its_name(self, store: Store) -> None:
        token = TokenRow(hash="h", name="n", owner="ada", scope="agent", expires=1_900_000_000.25)
        await store.add_token(token)
        assert await store.find_token("h") == token
        assert await store.list_tokens() == [token]
        assert await store.find_token("other") is None
        assert await store.remove_token("n")
        assert not await store.remove_token("n")
        assert await store.list_tokens() == []

    async def test_a_removed_token_is_not_found_even_if_it_was_cached(self, store: Store) -> None:
        kept = TokenRow(hash="h", name="n", owner="ada", scope="agent")
        await store.add_token(kept)
        for _ in range(3):
            assert await store.find_token("h") == kept
        await store.remove_token("n")
        assert await store.find_token("h") is None
        again = replace(kept, owner="bob")
        await store.add_token(again)
        assert await store.find_token("h") == again

    async def test_two_tokens_cannot_have_one_name(self, store: Store) -> None:
        token = TokenRow(hash="h", name="n", owner="ada", scope="agent")
        await store.add_token(token)
        with pytest.raises(InvalidRequest, match="'n' already"):
            await store.add_token(replace(token, hash="other"))

    async def test_a_window_id_stays_bound_to_its_first_key_and_owner(self, store: Store) -> None:
        window = WindowId("w")
        assert await store.bind_window(window, "key", "ada")
        assert await store.bind_window(window, "key", "ada")
        assert not await store.bind_window(window, "other", "ada")
        assert not await store.bind_window(window, "key", "bob")

    async def test_stored_rows_are_visible_to_another_process(
        self, store: Store, make: MakeStore
    ) -> None:
        kept = await store.add_session(row(), [])
        await store.add_token(TokenRow(hash="h", name="n", owner="ada", scope="agent"))
        async with make() as other:
            await other.open()
            assert await other.find_session(kept.id) == kept
            assert await other.remove_token("n")
        assert await store.find_token("h") is None

    # Sessions -----------------------------------------------------------------------------

    async def test_a_session_is_stored_unchanged(self, store: Store) -> None:
        made = row()
        assert await store.add_session(made, []) == made
        assert await store.find_session(made.id) == made
        assert await store.find_session(new_session_id()) is None

    async def test_the_value_of_a_secret_is_not_kept(self, store: Store) -> None:
        made = row(spec=replace(SPEC, secrets={"TOKEN": "very-secret"}))
        await store.add_session(made, [])
        found = await store.find_session(made.id)
        assert found is not None
        assert dict(found.spec.secrets) == {"TOKEN": ""}

    async def test_sessions_are_listed_oldest_first_and_by_owner(self, store: Store) -> None:
        rows = [row(created=float(n), owner=owner) for n, owner in enumerate(["ada", "bob", "ada"])]
        for each in reversed(rows):
            await store.add_session(each, [])
        assert await store.list_sessions() == rows
        assert await store.list_sessions("ada") == [rows[0], rows[2]]
        assert await store.list_sessions("nobody") == []

    async def test_the_same_request_key_of_an_owner_is_the_same_session(self, store: Store) -> None:
        first = await store.add_session(row(request_key="k"), [])
        assert await store.add_session(row(request_key="k"), []) == first
        bobs = await store.add_session(row(request_key="k", owner="bob"), [])
        assert bobs.id != first.id
        for _ in range(2):  # without a key each is one of its own
            await store.add_session(row(), [])
        assert len(await store.list_sessions()) == 4

    async def test_concurrent_requests_with_one_key_get_one_session(self, store: Store) -> None:
        asked = [store.add_session(row(request_key="k"), []) for _ in range(8)]
        found = await asyncio.gather(*asked)
        assert len({each.id for each in found}) == 1

    async def test_a_session_changes_only_from_the_given_states(self, store: Store) -> None:
        made = await store.add_session(row(), [])
        moved = await store.change_session(
            made.id, {"state": "ready", "stage": ""}, states=STARTING
        )
        assert moved == replace(made, state="ready")
        assert await store.change_session(made.id, {"state": "ready"}, states=STARTING) is None
        assert await store.change_session(made.id, {"cause": "why"}) == replace(
            made, state="ready", cause="why"
        )
        assert await store.change_session(new_session_id(), {"cause": "why"}) is None

    async def test_only_one_of_many_concurrent_changes_wins(self, store: Store) -> None:
        made = await store.add_session(row(), [])
        changes = [
            store.change_session(made.id, {"state": state}, states=STARTING)
            for state in ("ready", "failed", "stopping", "ready")
        ]
        assert sum(each is not None for each in await asyncio.gather(*changes)) == 1

    async def test_removing_a_session_removes_its_tokens_events_and_reservations(
        self, store: Store
    ) -> None:
        made = await store.add_session(row(), [claim(1)])
        token = TokenRow(hash="h", name="n", owner="ada", scope="session", session_id=made.id)
        await store.add_token(token)
        await store.add_event(made.id, "state", {}, time=1.0)
        assert await store.remove_session(made.id)
        assert not await store.remove_session(made.id)
        assert await store.find_token("h") is None
        assert await store.list_events(made.id) == []
        await store.add_session(row(), [claim(1)])

    # Reservations -------------------------------------------------------------------------

    async def test_an_exceeded_quota_names_its_setting_and_stores_nothing(
        self, store: Store
    ) -> None:
        await store.add_session(row(), [claim(1)])
        refused = row()
        with pytest.raises(QuotaExceeded, match=r"1 of 1 sessions.*`max_sessions`") as error:
            await store.add_session(refused, [claim(9, kind="other"), claim(1)])
        assert error.value.detail["setting"] == "max_sessions"
        assert await store.find_session(refused.id) is None
        await store.add_session(row(), [claim(1, kind="other")])

    async def test_concurrent_requests_do_not_exceed_the_quota(
        self, store: Store, make: MakeStore
    ) -> None:
        async with make() as other:
            await other.open()
            asked = [each.add_session(row(), [claim(3)]) for each in (store, other) * 5]
            found = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, SessionRow) for each in found) == 3
        assert sum(isinstance(each, QuotaExceeded) for each in found) == 7

    async def test_a_quota_per_owner_counts_only_that_owners_sessions(self, store: Store) -> None:
        mine = claim(1, per_owner=True)
        await store.add_session(row(), [mine])
        await store.add_session(row(owner="bob"), [mine])
        with pytest.raises(QuotaExceeded, match="ada has 1 of 1"):
            await store.add_session(row(), [mine])

    async def test_reserved_amounts_add_up_and_are_released(self, store: Store) -> None:
        first = await store.add_session(row(), [claim(10, amount=6)])
        second = await store.add_session(row(), [])
        with pytest.raises(QuotaExceeded):
            await store.reserve(second.id, "ada", [claim(10, amount=5)])
        await store.reserve(first.id, "ada", [claim(10, amount=5)])  # its own counts once
        await store.reserve(second.id, "ada", [claim(10, amount=5)])
        await store.release(first.id, ["session"])
        await store.release(first.id, ["session"])
        await store.reserve(second.id, "ada", [claim(10, amount=10)])

    # What happened ------------------------------------------------------------------------

    async def test_events_are_listed_in_order_from_a_given_number(self, store: Store) -> None:
        session_id, other = new_session_id(), new_session_id()
        made = [
            await store.add_event(session_id, "stage", {"n": n, "deep": {"x": [1]}}, time=n / 2)
            for n in range(4)
        ]
        await store.add_event(other, "stage", {}, time=0)
        assert await store.list_events(session_id) == made
        assert await store.list_events(session_id, after=made[1].id) == made[2:]
        assert await store.list_events(session_id, limit=1) == made[:1]
        assert made == sorted(made, key=lambda each: each.id)

    async def test_the_audit_log_is_newest_first_and_outlives_the_session(
        self, store: Store
    ) -> None:
        made = await store.add_session(row(), [])
        rows = [
            AuditRow(time=n, who="agent", owner="ada", verb="create", session_id=made.id)
            for n in range(3)
        ]
        other = AuditRow(
            time=3, who="hub", owner="bob", verb="stop", session_id=SessionId("x"), detail={"a": 1}
        )
        for each in (*rows, other):
            await store.add_audit(each)
        await store.remove_session(made.id)
        assert await store.list_audit() == [other, *reversed(rows)]
        assert await store.list_audit(AuditFilter(session_id=made.id), limit=2) == [
            rows[2],
            rows[1],
        ]

    async def test_old_events_and_audit_rows_are_removed(self, store: Store) -> None:
        session_id, other = new_session_id(), new_session_id()
        made = [await store.add_event(session_id, "stage", {}, time=n) for n in range(5)]
        kept = await store.add_event(other, "stage", {}, time=0)
        for time in (1.0, 2.0, 3.0):
            await store.add_audit(
                AuditRow(time=time, who="w", owner="o", verb="v", session_id=session_id)
            )
        await store.forget(audit_before=2.0, events_kept=2)
        assert await store.list_events(session_id) == made[3:]
        assert await store.list_events(other) == [kept]
        assert [each.time for each in await store.list_audit()] == [3.0, 2.0]

    async def test_a_user_is_found_by_name_and_by_account(self, store: Store) -> None:
        ada = UserRow(name="ada", role="member", issuer="https://id", subject="7", created=1.0)
        await store.put_user(ada)
        assert await store.find_user("ada") == ada
        assert await store.find_account("https://id", "7") == ada
        assert await store.find_account("https://other", "7") is None
        changed = replace(ada, role="viewer", is_disabled=True, max_sessions=3)
        await store.put_user(changed)
        assert await store.list_users() == [changed]

    async def test_an_account_belongs_to_one_user(self, store: Store) -> None:
        ada = UserRow(name="ada", role="member", issuer="https://id", subject="7", created=1.0)
        await store.put_user(ada)
        with pytest.raises(InvalidRequest, match="Another user has the account '7'"):
            await store.put_user(replace(ada, name="bob"))
        for name in ("eve", "mallory"):  # users without an account
            await store.put_user(UserRow(name=name, role="viewer", created=1.0))

    async def test_an_owner_exists_through_a_token_window_session_or_user(
        self, store: Store
    ) -> None:
        assert not await store.has_owner("ada")
        await store.add_token(TokenRow(hash="h", name="n", owner="ada", scope="agent"))
        await store.bind_window(WindowId("w"), "k", "bob")
        await store.add_session(row(owner="carol"), ())
        await store.put_user(UserRow(name="dan", role="viewer", created=1.0))
        assert [await store.has_owner(each) for each in ("ada", "bob", "carol", "dan", "eve")] == [
            *[True] * 4,
            False,
        ]

    async def test_the_tokens_of_a_user_are_removed_by_scope(self, store: Store) -> None:
        for owner in ("ada", "bob"):
            for scope in ("admin", "member", "viewer", "agent"):
                name = f"{owner} {scope}"
                await store.add_token(TokenRow(hash=name, name=name, owner=owner, scope=scope))
        sign_in = TokenRow(hash="s", name="s", owner="ada", scope="member", is_sign_in=True)
        await store.add_token(sign_in)
        assert await store.remove_tokens_of("ada", keep=("member", "agent")) == 2
        assert await store.remove_sign_ins("ada", except_scope="member") == 0
        assert await store.remove_sign_ins("ada") == 1
        assert not await store.remove_token("ada agent", owner="bob")
        names = [each.name for each in await store.list_tokens() if each.owner == "ada"]
        assert names == ["ada agent", "ada member"]
        assert await store.remove_token_hash("ada agent")
        assert await store.remove_tokens_of("ada") == 1
        assert {each.owner for each in await store.list_tokens()} == {"bob"}

    async def test_a_removed_session_is_shared_with_nobody(self, store: Store) -> None:
        made = row()
        await store.add_session(made, ())
        await store.put_share(made.id, "bob", "act")
        await store.put_share(made.id, "bob", "view")
        await store.put_share(made.id, "carol", "act")
        assert {(each.user_name, each.access) for each in await store.list_shares()} == {
            ("bob", "view"),
            ("carol", "act"),
        }
        await store.put_share(made.id, "carol", None)
        assert [each.user_name for each in await store.list_shares()] == ["bob"]
        await store.remove_session(made.id)
        assert await store.list_shares() == []

    async def test_the_audit_log_is_read_in_parts_by_user_verb_and_time(self, store: Store) -> None:
        for time in range(6):
            user = ("ada", "bob")[time % 2]
            await store.add_audit(
                AuditRow(
                    time=time,
                    who="w",
                    owner="o",
                    verb=("a", "b", "c")[time % 3],
                    session_id=SessionId(""),
                    user_name=user,
                )
            )

        async def times(only: AuditFilter, *, limit: int = 10) -> list[float]:
            return [each.time for each in await store.list_audit(only, limit=limit)]

        assert await times(AuditFilter(user_name="ada")) == [4, 2, 0]
        assert await times(AuditFilter(user_name="ada", verb="c")) == [2]
        assert await times(AuditFilter(since=3.0)) == [5, 4, 3]
        first = await store.list_audit(limit=2)
        assert await times(AuditFilter(before=first[-1].id), limit=2) == [3, 2]

    async def test_a_user_gets_no_token_that_its_role_does_not_permit(self, store: Store) -> None:
        await store.put_user(UserRow(name="ada", role="viewer", created=1.0))
        await store.put_user(UserRow(name="bob", role="admin", is_disabled=True, created=1.0))
        await store.add_token(TokenRow(hash="1", name="1", owner="ada", scope="viewer"))
        refused: list[tuple[str, Scope]] = [("ada", "agent"), ("ada", "member"), ("bob", "viewer")]
        for owner, scope in refused:
            with pytest.raises(AccessDenied, match=owner):
                await store.add_token(TokenRow(hash="2", name="2", owner=owner, scope=scope))
        assert len(await store.list_tokens()) == 1

    async def test_a_name_with_a_shared_session_is_not_free(self, store: Store) -> None:
        made = row()
        await store.add_session(made, ())
        await store.put_share(made.id, "bob", "act")
        assert await store.has_owner("bob")
        await store.put_share(made.id, "bob", None)
        assert not await store.has_owner("bob")
