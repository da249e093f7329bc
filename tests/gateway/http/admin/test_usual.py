"""Today beside the same weekday of earlier weeks, hour by hour, up to this minute."""

from __future__ import annotations

from datetime import timedelta

from gateway.http.admin.usual import spread
from gateway.ledger.repository.usage import UsageSums
from tests.gateway.usage_events import settled, write
from tests.harness import Gateway

DAY, WEEK = 86_400, 7 * 86_400


async def test_today_beside_the_usual(gateway: Gateway) -> None:
    now = gateway.app.clock.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    # Per week before: completion tokens in the first minute of the day; two weeks ago nobody was there.
    tokens = {0: 9, 1: 10, 3: 30, 4: 20}
    earlier = [
        settled(week, midnight - timedelta(weeks=week), tokens=(0, 0, amount))
        for week, amount in tokens.items()
    ]
    # Later that day, a week ago: not to be compared with (at midnight it falls on the next day, which proves as much).
    later = settled(9, now - timedelta(weeks=1) + timedelta(minutes=5))
    await write(gateway.app.database, [*earlier, later])
    found = await gateway.admin("GET", "/usage/usual")
    assert found["object"] == "organization.usage.usual"
    assert found["start_time"] == int(midnight.timestamp())
    assert 0 < found["end_time"] - now.timestamp() + 1 <= 62, "up to the end of this minute"
    assert found["weeks"] == 3
    first = found["data"][0]
    assert (first["start_time"], first["output_tokens"]) == (found["start_time"], 9)
    spread_ = [first[word]["output_tokens"] for word in ("lowest", "usual", "highest")]
    assert spread_ == [10, 20, 30]
    assert found["data"][-1]["end_time"] == found["end_time"]
    assert len(found["data"]) == -(-(found["end_time"] - found["start_time"]) // 3_600)
    total = found["total"]
    assert (total["output_tokens"], total["usual"]["output_tokens"]) == (9, 20)
    assert (total["amount_nanousd"], total["usual"]["amount_nanousd"]) == (3_600, 8_000)
    assert total["usual"]["num_model_requests"] == 1
    assert total["highest"]["num_model_requests"] == 1, "what came later that day is not compared with"
    short = await gateway.admin("GET", "/usage/usual?weeks=1&project_ids=proj_a")
    assert (short["weeks"], short["total"]["usual"]["output_tokens"]) == (1, 10)
    nobody = await gateway.admin("GET", "/usage/usual?project_ids=proj_none")
    assert (nobody["weeks"], nobody["total"]["usual"], nobody["total"]["output_tokens"]) == (0, None, 0)
    assert (await gateway.admin("GET", "/usage/usual?weeks=9", status=400))["error"]["param"] == "weeks"
    await gateway.sql("TRUNCATE usage_event")  # nobody had reserved them: not for the audit of the books


def test_the_middle_is_whole_and_figure_by_figure() -> None:
    values = [UsageSums(requests=1, amount_nanousd=40), UsageSums(requests=2, amount_nanousd=10)]
    found = spread(values)
    assert (found["usual"]["num_model_requests"], found["usual"]["amount_nanousd"]) == (1, 10)
    assert (found["highest"]["num_model_requests"], found["highest"]["amount_nanousd"]) == (2, 40)
    assert spread([]) == {"usual": None, "lowest": None, "highest": None}
