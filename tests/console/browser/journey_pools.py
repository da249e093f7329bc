"""Pools by keyboard alone: one is made on named devices and scaled, what leads to another is switched, and a roll is watched."""

from __future__ import annotations

from tests.console.browser.stage import Hand, Stage, open_browser
from tests.harness import SERVED

GPU = "GPU-5d0f3a1c-9b7e-4f60-8a52-1c2d3e4f5a6b"
HELD = "INSERT INTO replica (id, pool_id, node, state, pool_generation, gpus, devices, last_error) VALUES "
TROUBLE = f"{GPU} (GPU 3): it requires a reset"


async def test_a_pool_is_made_on_devices_and_scaled(stage: Stage) -> None:
    async with open_browser() as context:
        hand = Hand(await context.new_page())
        await hand.sign_in(stage.url)
        await hand.jump("Pools")
        await hand.activate("New pool")
        for field, value in (
            ("Name", "big"),
            ("Model", "/m/a"),
            ("Names the engine", "big"),
            ("GPUs", "0, x"),
        ):
            await hand.to(field)
            await hand.type(value)
        await hand.see("Neither an index nor a UUID: x")
        create = hand.page.get_by_role("button", name="Create pool")
        assert await create.is_disabled()
        await hand.to("GPUs")
        await hand.type(f"{GPU}, 1")
        await hand.to("Most")
        await hand.type("3")
        await hand.see("3 replicas of 1 each need 3 devices, not 2.")
        await hand.to("Most")
        await hand.type("2")
        await hand.to("Queue per replica")
        await hand.type("6")
        await hand.press("Enter")
        await hand.see("big is being started")
        [pool] = [one for one in (await stage.gateway.admin("GET", "/pools"))["data"] if one["name"] == "big"]
        spec = pool["spec"]
        assert (spec["gpus"], spec["max_replicas"]) == ([GPU, 1], 2)
        assert spec["scaling"]["waiting_per_replica"] == 6
        await hand.activate("big")
        await hand.see_heading("big")
        await hand.see("1 to 2, chosen by the queue")
        await scale_to_two(hand, stage, pool["id"])


async def scale_to_two(hand: Hand, stage: Stage, pool_id: str) -> None:
    await hand.activate("Scale…")
    await hand.to("Least")
    await hand.type("3")
    await hand.see("At least 3, the least.")
    await hand.to("Least")
    await hand.type("2")
    await hand.see("0 replicas are there now. 2 more will be started.")
    await hand.press("Enter")
    await hand.see("big has 2 replicas from now on")
    pool = await stage.gateway.admin("GET", f"/pools/{pool_id}")
    assert (pool["spec"]["min_replicas"], pool["generation"]) == (2, 1), "no replica is replaced by it"


async def test_what_leads_to_a_pool_is_switched(stage: Stage) -> None:
    gateway = stage.gateway
    green = await gateway.pool(stage.engine, name="green")
    await gateway.sql("UPDATE replica SET state = 'starting' WHERE pool_id = $1 RETURNING id", green)
    async with open_browser("dark") as context:
        hand = Hand(await context.new_page())
        await hand.sign_in(stage.url)
        await hand.page.goto(f"{stage.url}pools/{stage.pool_id}")
        await hand.activate("Switch traffic…")
        await hand.see("green has 0 of 1 replica ready, so this will be refused.")
        await gateway.sql("UPDATE replica SET state = 'ready' WHERE pool_id = $1 RETURNING id", green)
        await hand.press("Escape")
        await hand.page.reload()
        await hand.activate("Switch traffic…")
        await hand.see("green is ready: 1 replica of its newest generation.")
        await hand.see(f"1 route will lead to green: {SERVED}.")
        await hand.activate("Switch to green")
        await hand.see("1 route leads to")
        [route] = (await gateway.admin("GET", "/routes"))["data"]
        assert route["pool_id"] == green


async def test_a_roll_and_a_device_in_trouble_are_seen(stage: Stage) -> None:
    gateway = stage.gateway
    spec = {"model": "/m/a", "served_names": ["big"], "gpus": [GPU, 1], "min_replicas": 2, "max_replicas": 2}
    pool = (await gateway.admin("POST", "/pools", {"name": "big", "spec": spec}))["id"]
    rolled = {**spec, "flags": {"max-model-len": 4096}}
    assert (await gateway.admin("PATCH", f"/pools/{pool}", {"spec": rolled}))["generation"] == 2
    rows = (
        f"('replica_old', '{pool}', 'n1', 'ready', 1, '{{1}}', '{{}}', NULL),"
        f"('replica_new', '{pool}', 'n1', 'failed', 2, '{{3}}', '{{{GPU}}}', '{TROUBLE}')"
    )
    await gateway.sql(f"{HELD}{rows} RETURNING id")
    node = f"('{pool}', 'n1', 'blocked', 'no device is free for a new replica')"
    await gateway.sql(f"INSERT INTO pool_node (pool_id, node, phase, reason) VALUES {node} RETURNING node")
    async with open_browser() as context:
        hand = Hand(await context.new_page())
        await hand.sign_in(stage.url)
        await hand.page.goto(f"{stage.url}pools/{pool}")
        await hand.see("Rolling to generation 2: 0 of 1 replica replaced, 1 not ready yet")
        nodes = hand.page.get_by_role("table", name="Nodes")
        await nodes.get_by_text("Blocked").wait_for()
        await nodes.get_by_text("no device is free for a new replica").wait_for()
        devices = hand.page.get_by_role("table", name="GPUs")
        await devices.get_by_role("row").filter(has_text=GPU).get_by_text("In trouble").wait_for()
        await devices.get_by_text("it requires a reset").wait_for()
        await gateway.sql(
            "UPDATE replica SET state = 'ready', last_error = NULL WHERE id = 'replica_new' RETURNING id"
        )
        await gateway.sql("UPDATE replica SET state = 'draining' WHERE id = 'replica_old' RETURNING id")
        await hand.see("1 of 1 replica replaced, 1 finishing what it has")
