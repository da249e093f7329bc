"""One terminal output per sequence, whatever the core does and whenever it goes."""

from __future__ import annotations

import random

import pytest

from engine.messages import (
    AbortRequest,
    AddRequest,
    CoreInbound,
    LoadStats,
    SamplingParams,
    StepOutputs,
    TokenLogprobs,
    TokenOutput,
)
from engine.server.bridge import AT_ONCE, BACKLOG_BYTES, BACKLOG_BYTES_CHOICE, Bridge
from engine.server.errors import ApiError
from tests.fakes.core import ready
from tests.seeds import seed_of_test


class Link:
    def __init__(self) -> None:
        self.sent: list[CoreInbound] = []
        self.closed = False

    def send(self, message: CoreInbound) -> None:
        assert not self.closed
        self.sent.append(message)

    def close(self) -> None:
        self.closed = True


def request(name: str) -> AddRequest:
    return AddRequest(
        request_id=name, worker=0, prompt_token_ids=[5], sampling=SamplingParams(seed=1, max_tokens=4)
    )


def step(*outputs: TokenOutput) -> StepOutputs:
    return StepOutputs(outputs=list(outputs), load=LoadStats(num_running=1))


def make_bridge(max_num_queued: int = 36) -> tuple[Bridge, Link, list[int]]:
    late: list[int] = []
    bridge, link = Bridge(lambda: 1.0, lambda: late.append(1), max_num_queued), Link()
    bridge.core_up(ready(), 7, link)
    return bridge, link, late


async def test_news_of_one_step_wake_a_request_once() -> None:
    bridge, _, _ = make_bridge()
    flow = bridge.submit([request("a-0"), request("a-1")])
    bridge.on_step(
        step(TokenOutput(request_id="a-0", token_ids=[1]), TokenOutput(request_id="a-1", token_ids=[2]))
    )
    assert [output.request_id for output in await flow.next()] == ["a-0", "a-1"]


def scored(name: str, alternatives: int = 20) -> TokenOutput:
    values = TokenLogprobs(-0.5, 1, list(range(alternatives)), [-1.0] * alternatives)
    return TokenOutput(request_id=name, token_ids=[1], logprobs=[values])


@pytest.mark.parametrize("num_choices", [1, 4])
async def test_what_waits_for_a_request_is_bounded(num_choices: int) -> None:
    bridge, _, _ = make_bridge()
    flow = bridge.submit([request(f"a-{index}") for index in range(num_choices)])
    called: list[int] = []

    def on_backlog() -> None:
        called.append(len(called))
        flow.shed()

    flow.on_backlog = on_backlog
    bound = BACKLOG_BYTES + (num_choices - 1) * BACKLOG_BYTES_CHOICE
    count = bound // 2000
    for _ in range(count):
        bridge.on_step(step(scored("a-0")))
    assert not called
    for _ in range(count):
        bridge.on_step(step(scored("a-0")))
    assert called == [0]
    taken = []
    while len(taken) < 2 * count:
        news = await flow.next()
        assert len(news) <= AT_ONCE, "one write is bounded too"
        taken += news
    assert [len(output.token_ids) for output in taken] == [1] * (2 * count)
    assert taken[0].logprobs is None


async def test_what_is_taken_does_not_wait_any_more() -> None:
    """Far more than the bound goes through a request that keeps up, in portions of less."""
    bridge, _, _ = make_bridge()
    flow = bridge.submit([request("a")])
    flow.on_backlog = pytest.fail
    for _ in range(40):
        bridge.on_step(step(*[scored("a")] * 400))
        assert len(await flow.next()) == AT_ONCE
        assert len(await flow.next()) == 400 - AT_ONCE


async def test_loss_of_the_core_ends_everything_once() -> None:
    bridge, link, late = make_bridge()
    flow = bridge.submit([request("a")])
    bridge.core_down("killed")
    bridge.core_down("said twice")
    assert [(o.finish_reason, o.error_code) for o in await flow.next()] == [("error", "engine_error")]
    assert (link.closed, bridge.ready, bridge.num_live, late) == (True, None, 0, [])
    bridge.on_step(step(TokenOutput(request_id="a", finish_reason="stop")))
    assert late == [1]


async def test_without_a_core_nothing_is_accepted() -> None:
    bridge = Bridge(lambda: 1.0, lambda: None, 36)
    with pytest.raises(ApiError) as caught:
        bridge.submit([request("a")])
    assert (caught.value.status, caught.value.code) == (503, "engine_unavailable")


async def test_a_core_that_takes_nothing_in_is_not_fed_for_ever() -> None:
    """Stopped, it refuses nobody itself. What waits here of a request of many sequences does not count."""
    bridge, link, _ = make_bridge()
    for index in range(201):
        bridge.submit([request(f"a-{index}")])
    with pytest.raises(ApiError) as caught:
        bridge.submit([request("b")])
    assert (caught.value.status, caught.value.code) == (503, "server_is_overloaded")
    assert (len(link.sent), bridge.num_live) == (201, 201)
    bridge.on_step(step(TokenOutput(request_id="a-0", finish_reason="stop")))
    bridge.submit([request("b")])


async def test_abort_names_only_live_sequences() -> None:
    bridge, link, _ = make_bridge()
    flow = bridge.submit([request("a-0"), request("a-1")])
    bridge.on_step(step(TokenOutput(request_id="a-0", finish_reason="stop")))
    bridge.abort(flow)
    assert link.sent[-1] == AbortRequest(request_ids=["a-1"])
    bridge.on_step(step(TokenOutput(request_id="a-1", finish_reason="abort")))
    bridge.abort(flow)
    assert len([message for message in link.sent if isinstance(message, AbortRequest)]) == 1


async def test_random_lives_have_one_end_each() -> None:
    """2,000 sequences: outputs, aborts, late and repeated terminals, lost and new cores."""
    seed = seed_of_test()
    rng = random.Random(seed)
    bridge, link, _ = make_bridge(2000)
    flows, ends = {}, {}
    for turn in range(2000):
        name = f"s-{turn}"
        flows[name], ends[name] = bridge.submit([request(name)]), 0
        for other in rng.sample(list(flows), min(3, len(flows))):
            action = rng.random()
            if action < 0.3:
                bridge.abort(flows[other])
            elif action < 0.6:
                bridge.on_step(step(TokenOutput(request_id=other, token_ids=[4])))
            else:
                bridge.on_step(step(TokenOutput(request_id=other, finish_reason="stop")))
        if rng.random() < 0.01:
            bridge.core_down("random")
            link = Link()
            bridge.core_up(ready(), 7, link)
    bridge.core_down("over")
    for name, flow in flows.items():
        assert not flow.live
        ends[name] = sum(output.finish_reason is not None for output in await flow.next())
    assert set(ends.values()) == {1}


async def test_more_sequences_than_may_wait_go_one_after_the_other() -> None:
    """Each that ends makes room for the next; an abort, and the loss of the core, ends those the core never saw."""
    names = [f"a-{number}" for number in range(7)]
    bridge, link, _ = make_bridge(max_num_queued=3)
    flow = bridge.submit([request(name) for name in names])
    sent = [message.request_id for message in link.sent if isinstance(message, AddRequest)]
    assert sent == names[:3]
    bridge.on_step(step(*(TokenOutput(request_id=name, finish_reason="stop") for name in names[:2])))
    assert [message.request_id for message in link.sent if isinstance(message, AddRequest)] == names[:5]
    bridge.abort(flow)
    assert isinstance(link.sent[-1], AbortRequest)
    assert {*link.sent[-1].request_ids} == flow.live == {*names[2:5]}
    ended = {output.request_id: output.finish_reason for output in await flow.next()}
    assert ended == dict.fromkeys(names[:2], "stop") | dict.fromkeys(names[5:], "abort")
    other = bridge.submit([request(f"b-{number}") for number in range(500)])
    bridge.submit([request("c")])
    bridge.core_down("gone")
    bridge.abort(other)
    assert not other.live
    ends = [*await other.next(), *await other.next()]
    assert [output.finish_reason for output in ends] == ["error"] * 500
    assert bridge.num_live == 0
