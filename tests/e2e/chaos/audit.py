"""What must hold when all is quiet again: the journals on the disks, the books, and the callers' records agree.

Reads the engines' journal files themselves, not what the ledger says of them. Every check returns sentences; an
empty list means that it holds.
"""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import redis

from engine.server.journal import PROGRESS_TOKENS
from engine.server.journal import Record as JournalRecord
from engine.server.journal_reader import read_page
from gateway.exchange.identity import Pseudonyms
from gateway.ids import KeyId, TenantId
from gateway.tenancy.principal import Principal
from tests.e2e.chaos.cluster import ALERT_PERCENTS, PEPPER, Cluster
from tests.e2e.chaos.load import Record

QUIET_S = 60.0

_EVENTS = """
    SELECT request_id, user_ref, tenant_id, count(*) FILTER (WHERE corrects IS NULL) AS firsts,
        sum(prompt_uncached_tokens + prompt_cached_tokens)::bigint AS prompt, sum(completion_tokens)::bigint AS completion,
        sum(amount_nanousd)::bigint AS amount, array_agg(status) AS statuses
    FROM usage_event GROUP BY 1, 2, 3
"""
_ATTEMPTS = """
    SELECT request_id, attempt, prompt_tokens AS prompt, completion_tokens AS completion, overrun_tokens AS overrun,
        billed_prompt_tokens AS billed_prompt, billed_completion_tokens AS billed_completion FROM attempt
"""
_OVER_LIMIT = """
    WITH committed AS (
        SELECT DISTINCT ON (txid, budget_id, period_key) txid, budget_id, period_key, held, spent FROM budget_history
        ORDER BY txid, budget_id, period_key, n DESC
    )
    SELECT c.*, b.limit_nanousd FROM committed c JOIN budget b ON b.id = c.budget_id
    WHERE b.is_hard AND c.held + c.spent > b.limit_nanousd
"""
_ROLLUPS = """
    SELECT coalesce(sum(prompt_uncached_tokens + prompt_cached_tokens + completion_tokens), 0)::bigint AS tokens,
        coalesce(sum(amount_nanousd), 0)::bigint AS amount, coalesce(sum(requests), 0)::bigint AS requests FROM {table}
"""


class Key(NamedTuple):
    request_id: str
    attempt: int


# A letter that a busy machine was twice too slow for would be tried again in five minutes.
_POSTPONED_NO_LONGER = """
UPDATE delivery SET next_attempt_at = now()
WHERE delivered_at IS NULL AND last_error IS NOT NULL AND next_attempt_at > now() + interval '30 s'
"""


@dataclass
class Produced:
    """The last word of a journal on one attempt."""

    engine: int
    prompt: int = 0
    completion: int = 0
    overrun: int = 0
    has_ended: bool = False
    was_closed_for_it: bool = False
    """The API process died over it; its supervisor wrote the end, with the last progress."""


async def until_quiet(cluster: Cluster) -> list[str]:
    """No holds, nothing in the outbox, no journalled attempt that the ledger has not; else what is left of them."""
    query = (
        "SELECT (SELECT count(*) FROM hold) AS holds, (SELECT count(*) FROM outbox WHERE topic = 'usage') AS outbox,"
        " (SELECT count(*) FROM journal_attempt WHERE matched_at IS NULL) AS unmatched,"
        " (SELECT count(*) FROM delivery WHERE delivered_at IS NULL) AS letters"
    )
    pending: dict[str, int] = {}
    for _ in range(int(QUIET_S / 0.2)):
        await cluster.sql(_POSTPONED_NO_LONGER)
        (pending,) = await cluster.sql(query)
        if not any(pending.values()):
            return []
        await asyncio.sleep(0.2)
    return [f"it never came to rest: {pending}"]


class Audit:
    def __init__(self, cluster: Cluster, records: Sequence[Record]) -> None:
        self._cluster = cluster
        self._records = records
        self._produced: dict[Key, Produced] = {}
        self._doubled: list[str] = []

    async def tokens(self) -> list[str]:
        """Journals, attempts, events and the callers' own records agree."""
        self._read_journals()
        events = await self._cluster.sql(_EVENTS)
        attempts = await self._cluster.sql(_ATTEMPTS)
        return [
            *self._doubled,
            *self._journal_is_attempts(attempts),
            *_events_are_billed(events, attempts),
            *self._events_are_records(events),
        ]

    async def run(self) -> list[str]:
        return [
            *await self.tokens(),
            *await self._budgets(),
            *await self._nothing_is_left(),
            *await self._rollups(),
            *await self._letters(),
        ]

    # -- journal = Σ attempt(billed + unbilled) -----------------------------------------------------------

    def _read_journals(self) -> None:
        for number in range(len(self._cluster.engines)):
            for record in _records_in(self._cluster.journal_dir(number)):
                assert record.request_id is not None
                key = Key(record.request_id, record.attempt or 0)
                known = self._produced.setdefault(key, Produced(number))
                if known.engine != number:
                    self._doubled.append(f"{key} is in the journals of both engines")
                known.prompt = max(known.prompt, record.prompt_tokens or 0)
                known.completion = max(known.completion, record.completion_tokens or 0)
                known.overrun = max(known.overrun, record.overrun_tokens or 0)
                if record.kind == "end":
                    known.has_ended = True
                    known.was_closed_for_it = record.overrun_tokens is None

    def _journal_is_attempts(self, attempts: Sequence[Mapping[str, Any]]) -> list[str]:
        wrong = []
        written = {Key(row["request_id"], row["attempt"]): row for row in attempts}
        for key, made in self._produced.items():
            row = written.get(key)
            said = (row["prompt"], row["completion"], row["overrun"]) if row else None
            if said != (made.prompt, made.completion, made.overrun):
                wrong.append(f"{key}: the journal has {made}, the ledger {said}")
            if not made.has_ended:
                wrong.append(f"{key}: its journal was never closed")
        for key, row in written.items():
            if key not in self._produced and (row["prompt"] or row["completion"]):
                wrong.append(f"{key}: the ledger has {dict(row)}, no journal has it")
        return wrong

    # -- events = what the callers have -------------------------------------------------------------------

    def _events_are_records(self, events: Sequence[Mapping[str, Any]]) -> list[str]:
        names = _References()
        by_reference = defaultdict(list)
        for event in events:
            by_reference[event["user_ref"]].append(event)
        wrong = []
        for record in self._records:
            found = by_reference.pop(names.of(record), [])
            wrong += [f"{_shown(record)}: {problem}" for problem in self._compare(record, found)]
        wrong += [f"nobody asked for {event}" for orphans in by_reference.values() for event in orphans]
        return wrong

    def _compare(self, record: Record, events: Sequence[Mapping[str, Any]]) -> list[str]:
        if len(events) > 1:
            return [f"it has several request ids: {events}"]
        if not events:
            must = record.has_data or record.end in ("complete", "cut")
            return ["it has no event"] if must else []
        (event,) = events
        wrong = []
        if event["firsts"] != 1:
            wrong.append(f"it was charged {event['firsts']} times")
        if event["tenant_id"] != record.plan.tenant.id:
            wrong.append(f"{event['tenant_id']} was charged for it")
        if record.request_id is not None and event["request_id"] != record.request_id:
            wrong.append(f"its event is {event['request_id']}'s")
        if record.status == 429:
            wrong.append("it was refused and has an event")
        if record.end == "refused" and event["amount"]:
            wrong.append(f"it was refused and costs {event['amount']}")
        return wrong + self._compare_tokens(record, event)

    def _compare_tokens(self, record: Record, event: Mapping[str, Any]) -> list[str]:
        got, charged = len(record.token_ids), event["completion"]
        attempts = [made for key, made in self._produced.items() if key.request_id == event["request_id"]]
        # What is not in the journal when its writer dies is not charged: less than one progress interval, each time.
        slack = PROGRESS_TOKENS * sum(made.was_closed_for_it for made in attempts)
        if record.end == "complete":
            assert record.usage is not None, f"{_shown(record)} has no usage"
            prompt, completion = record.usage["prompt_tokens"], record.usage["completion_tokens"]
            is_right = event["prompt"] == prompt and completion - slack <= charged <= completion == got
            return [] if is_right else [f"its event has {(event['prompt'], charged)} (slack {slack})"]
        if charged + slack < got or charged > record.max_tokens:
            return [f"{charged} tokens were charged (slack {slack})"]
        return []

    # -- budgets, holds, slots, rollups -------------------------------------------------------------------

    async def _budgets(self) -> list[str]:
        wrong = [f"over its limit: {row}" for row in await self._cluster.sql(_OVER_LIMIT)]
        spent = await self._cluster.sql(
            "SELECT b.tenant_id, coalesce(sum(p.held_nanousd), 0)::bigint AS held, coalesce(sum(p.spent_nanousd), 0)::bigint"
            " AS spent FROM budget b LEFT JOIN budget_period p ON p.budget_id = b.id GROUP BY 1"
        )
        charged = await self._cluster.sql(
            "SELECT tenant_id, sum(amount_nanousd)::bigint AS amount FROM usage_event GROUP BY 1"
        )
        amounts: dict[str | None, int] = {row["tenant_id"]: row["amount"] for row in charged}
        amounts[None] = sum(amounts.values())
        for row in spent:
            if row["held"]:
                wrong.append(f"the budget of {row['tenant_id']} still holds {row['held']}")
            if row["spent"] != amounts.get(row["tenant_id"], 0):
                wrong.append(
                    f"the budget of {row['tenant_id']} has {row}, its events {amounts.get(row['tenant_id'])}"
                )
        return wrong + await self._hard_tenants({row["tenant_id"]: row["spent"] for row in spent})

    async def _hard_tenants(self, spent: Mapping[str | None, int]) -> list[str]:
        wrong = []
        for plan in self._cluster.plans:
            if plan.limit is None or not plan.is_hard:
                continue
            mine = [record for record in self._records if record.plan is plan and record.is_decided]
            refused = sum(record.status == 429 for record in mine)
            if refused < 0.3 * len(mine):
                wrong.append(f"{plan.name}: only {refused} of {len(mine)} were refused")
            if spent[plan.tenant.id] < 0.95 * plan.limit:
                wrong.append(f"{plan.name}: only {spent[plan.tenant.id]} of {plan.limit} are spent")
        return wrong

    async def _nothing_is_left(self) -> list[str]:
        counts = await self._cluster.sql(
            "SELECT (SELECT count(*) FROM hold) AS holds,"
            " (SELECT count(*) FROM settled_request s LEFT JOIN usage_event e USING (request_id)"
            "  WHERE e.request_id IS NULL) AS settled_without_event"
        )
        wrong = [f"{name}: {count}" for name, count in counts[0].items() if count]
        log = (self._cluster.postgres.home / "postgres.log").read_text(errors="replace")
        if deadlocks := log.count("deadlock detected"):
            wrong.append(f"deadlocks: {deadlocks}")
        slots = await asyncio.to_thread(_open_slots, self._cluster.valkey.url())
        if slots:
            wrong.append(f"limiter slots are taken: {slots}")
        spool = self._cluster.home / "spool"
        wrong += [f"{path.name} is not empty" for path in spool.glob("*.spool") if path.stat().st_size]
        wrong += [f"{path.name}: {path.read_text()[:500]}" for path in spool.glob("*.rejected")]
        return wrong

    async def _rollups(self) -> list[str]:
        events = _ROLLUPS.replace("sum(requests)", "count(*) FILTER (WHERE corrects IS NULL)")
        (truth,) = await self._cluster.sql(events.format(table="usage_event"))
        wrong = []
        for table in ("rollup_minute", "rollup_hour", "rollup_day"):
            (rolled,) = await self._cluster.sql(_ROLLUPS.format(table=table))
            if rolled != truth:
                wrong.append(f"{table} has {rolled}, the events {truth}")
        return wrong

    async def _letters(self) -> list[str]:
        """At least once each, always under its own id; and nothing fires twice."""
        sent = Counter(str(letter["Message-ID"]) for _, letter in self._cluster.mailbox.taken)
        rows = await self._cluster.sql(
            "SELECT count(*) AS n, count(DISTINCT record_id) AS records FROM delivery"
        )
        fired = await self._cluster.sql(
            "SELECT payload ->> 'alert_id' AS alert, count(*) AS n FROM alert_record"
            " WHERE type = 'budget.threshold_reached' GROUP BY 1"
        )
        wrong = [f"{row['alert']} fired {row['n']} times" for row in fired if row["n"] != 1]
        if len(sent) != rows[0]["n"]:
            wrong.append(f"{rows[0]['n']} letters were to be sent, {len(sent)} arrived")
        if len(fired) < len(ALERT_PERCENTS):
            wrong.append(f"only {len(fired)} thresholds fired")
        return wrong


def _events_are_billed(
    events: Sequence[Mapping[str, Any]], attempts: Sequence[Mapping[str, Any]]
) -> list[str]:
    billed: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in attempts:
        prompt, completion = billed[row["request_id"]]
        billed[row["request_id"]] = (prompt + row["billed_prompt"], completion + row["billed_completion"])
    wrong = [
        f"{event['request_id']}: its event has {(event['prompt'], event['completion'])},"
        f" its attempts {billed[event['request_id']]}"
        for event in events
        if (event["prompt"], event["completion"]) != billed[event["request_id"]]
    ]
    known = {event["request_id"] for event in events}
    return wrong + [f"{name} has attempts and no event" for name in billed if name not in known]


class _References:
    """The user references that gateways write for the callers' tags."""

    def __init__(self) -> None:
        self._pseudonyms = Pseudonyms(hashlib.sha256(b"tollway pseudonyms\0" + PEPPER.encode()).digest())

    def of(self, record: Record) -> str | None:
        principal = Principal(TenantId(record.plan.tenant.id), KeyId(record.plan.tenant.key_id), frozenset())
        return self._pseudonyms.user_ref(principal, record.tag)


def _records_in(directory: Path) -> list[JournalRecord]:
    found: list[JournalRecord] = []
    cursor, is_complete = "", False
    while not is_complete:
        page = read_page(directory, cursor, 10_000)
        found += page.records
        cursor, is_complete = page.cursor, page.complete
    return found


def _open_slots(url: str) -> dict[str, int]:
    """Leases that have not run out, by the server's clock."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        seconds, micros = client.time()
        now = seconds * 1_000_000 + micros
        keys = [key for key in client.scan_iter("tw:{*") if client.type(key) == "zset"]
        counts = {key: client.zcount(key, now, "+inf") for key in keys}
    return {key: count for key, count in counts.items() if count}


def _shown(record: Record) -> str:
    return (
        f"{record.tag} ({record.plan.name}, {'stream' if record.is_stream else 'whole'}, {record.end}, status"
        f" {record.status}, {record.request_id}, {len(record.token_ids)} of {record.max_tokens} tokens, {record.usage})"
    )
