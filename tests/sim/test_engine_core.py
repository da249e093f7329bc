"""The core under everything at once, from a seed: random sizes, salts, classes, aborts, failures, tiny pool.

Every request ends exactly once, the books balance after every step, nothing hangs, and whoever was not
interrupted got the tokens that the definition gives it alone in the world. The fake runner checks each
page that is read on the way.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field

import pytest

from engine.core.config import CoreConfig
from engine.core.contract import ScheduleOutput
from engine.messages import AddRequest, SamplingParams
from tests.engine.core.fake_runner import expected_answer
from tests.engine.core.harness import STEPS_MAX, Engine, add, config, layout

VOCAB = 61
EOS = (0, 1)


@dataclass
class Storm:
    """A stream of requests and of what happens to them, drawn from one generator."""

    rng: random.Random
    num_requests: int
    rate: float
    """Probability of an arrival per turn; tuned so that lines form and dissolve."""
    requests: dict[str, AddRequest] = field(default_factory=dict)
    doomed: dict[int, str] = field(default_factory=dict)
    """Turn → id to abort then."""
    prefixes: list[list[int]] = field(default_factory=list)

    def prompt(self) -> list[int]:
        """Fresh, or a shared beginning, or a conversation that goes on after somebody's answer."""
        rng = self.rng
        if not self.prefixes or rng.random() < 0.3:
            self.prefixes.append([rng.randrange(VOCAB) for _ in range(rng.randint(1, 60))])
        beginning = rng.choice(self.prefixes[-12:])
        return [*beginning, *(rng.randrange(VOCAB) for _ in range(rng.randint(0, 20)))]

    def request(self) -> AddRequest:
        rng = self.rng
        number = len(self.requests)
        salt = bytes([rng.randrange(4)])
        request = add(
            f"r{number}",
            self.prompt(),
            max_tokens=rng.choice(
                [1, 2, rng.randint(1, 40), rng.randint(1, 120), 120, 120 + 10 * rng.randrange(15)]
            ),
            min_tokens=rng.choice([0, 0, 0, 5]),
            ignore_eos=rng.random() < 0.75,
            stop_token_ids=(2,) if rng.random() < 0.2 else (),
            cache_salt=salt,
            fairness_id=f"id{rng.randrange(6)}",
            ttft_ms=rng.choice([None, None, 50.0, 500.0]),
            tpot_ms=rng.choice([None, None, 12.0]),
            max_kv_fraction=rng.choice([1.0, 1.0, 0.7]),
            fairness_weight=rng.choice([1.0, 1.0, 2.5]),
            request_class=rng.choice(["interactive", "interactive", "batch"]),
            worker=rng.randrange(3),
        )
        self.requests[request.request_id] = request
        return request

    def blow(self, engine: Engine, turn: int) -> None:
        """Submit and abort what this turn brings."""
        rng = self.rng
        if len(self.requests) < self.num_requests and rng.random() < self.rate:
            for _ in range(rng.choice([1, 1, 1, 2, 3, 12])):
                request = self.request()
                engine.submit(request)
                if rng.random() < 0.15:
                    self.doomed[turn + rng.randint(0, 60)] = request.request_id
        if turn in self.doomed:
            engine.abort(self.doomed.pop(turn))

    def fails_batch(self, schedule: ScheduleOutput) -> bool:
        return self.rng.random() < 0.003

    def fails_row(self, sampling: SamplingParams, position: int) -> bool:
        return self.rng.random() < 0.0005


def run_storm(storm: Storm, settings: CoreConfig) -> Engine:
    engine = Engine(settings, vocab_size=VOCAB, fails_batch=storm.fails_batch, fails_row=storm.fails_row)
    turn = 0
    while len(storm.requests) < storm.num_requests or not engine.loop.is_idle or engine.inbox:
        storm.blow(engine, turn)
        engine.turn()
        remember_conversations(storm, engine)
        turn += 1
        assert turn < STEPS_MAX, "no end in sight"
    engine.loop.check_integrity()
    return engine


def remember_conversations(storm: Storm, engine: Engine) -> None:
    """Now and then an answer becomes the beginning of a later prompt."""
    for output in engine.emitted[-1][1].outputs:
        if output.finish_reason in ("stop", "length") and storm.rng.random() < 0.1:
            answer = engine.answers[output.request_id]
            history = [*storm.requests[output.request_id].prompt_token_ids, *answer.tokens]
            storm.prefixes.append(history[:150])


def check_answers(storm: Storm, engine: Engine) -> dict[str, int]:
    """Exactly one terminal each; right tokens; returns how often each ending came up."""
    endings: dict[str, int] = {}
    for id, request in storm.requests.items():
        answer = engine.answers[id]
        final = answer.final
        tokens, why = expected_answer(request, VOCAB, EOS)
        if final.finish_reason in ("stop", "length"):
            assert (answer.tokens, final.finish_reason) == (tokens, why), id
        else:
            assert answer.tokens == tokens[: len(answer.tokens)], id
            assert len(answer.tokens) < len(tokens), id
        ending = final.error_code or str(final.finish_reason)
        endings[ending] = endings.get(ending, 0) + 1
        told = [output for output in answer.outputs if output.num_cached_tokens is not None]
        assert told in ([], answer.outputs[:1]), "only the first output says what was cached"
    return endings


def settings(
    steps_in_flight: int, windows: tuple[int | None, ...], num_blocks: int, *, num_host_blocks: int = 0
) -> CoreConfig:
    return config(
        layout(num_blocks, windows=windows, num_host_blocks=num_host_blocks),
        swaps=num_host_blocks > 0,
        eos_token_ids=EOS,
        max_num_seqs=10,
        max_num_batched_tokens=48,
        max_model_len=330,
        max_num_queued_reqs=60,
        max_num_queued_tokens=2500,
        queue_timeout_s=6.0,
        num_workers=3,
        steps_in_flight=steps_in_flight,
    )


def test_two_thousand_requests() -> None:
    seed = 20_000
    print("seed", seed)
    storm = Storm(random.Random(seed), 2000, rate=0.05)
    engine = run_storm(storm, settings(2, (None,), 34))
    endings = check_answers(storm, engine)
    engine.turn()
    load = engine.emitted[-1][1].load
    print(endings, load)
    assert engine.runner.max_in_flight == 2
    assert endings.keys() == {
        "stop",
        "length",
        "abort",
        "engine_error",
        "server_is_overloaded",
        "context_length_exceeded",
    }
    assert endings["stop"] + endings["length"] > 1000
    assert load.num_preemptions > 100
    assert load.prefix_hits > 2000
    assert (load.num_running, load.num_waiting, load.kv_usage) == (0, 0, 0.0)


@pytest.mark.parametrize("steps_in_flight", [1, 2])
@pytest.mark.parametrize(
    ("windows", "num_blocks"), [((None,), 30), ((20,), 24), ((None, 17), 60), ((None, 5, 40, 33), 120)]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_storms_over_every_kind_of_attention(
    steps_in_flight: int, windows: tuple[int | None, ...], num_blocks: int, seed: int
) -> None:
    print("seed", seed)
    storm = Storm(random.Random(seed), 250, rate=0.1)
    engine = run_storm(storm, settings(steps_in_flight, windows, num_blocks))
    endings = check_answers(storm, engine)
    assert endings["stop"] + endings["length"] > 60, endings


@pytest.mark.parametrize(
    ("windows", "num_blocks", "num_host_blocks"),
    [((None,), 30, 1), ((None,), 30, 60), ((None, 17), 60, 15), ((None, 17), 60, 200)],
)
def test_storms_with_a_second_tier(
    windows: tuple[int | None, ...], num_blocks: int, num_host_blocks: int
) -> None:
    print("seed", num_host_blocks)
    storm = Storm(random.Random(num_host_blocks), 250, rate=0.1)
    engine = run_storm(storm, settings(2, windows, num_blocks, num_host_blocks=num_host_blocks))
    endings = check_answers(storm, engine)
    assert endings["stop"] + endings["length"] > 60, endings
    assert engine.runner.num_moved > 10
    host = engine.loop._scheduler.kv.host
    assert host.num_restored > (0 if num_host_blocks == 1 else 10)
    assert host.pool.num_held == 0, "nobody needs what was kept"


def test_two_steps_in_flight_answer_as_one_and_as_each_request_alone() -> None:
    """By runs of the whole core, not by the definition: batched = alone, asynchronous = synchronous."""
    storm = Storm(random.Random(3), 40, rate=1.0)
    requests = [storm.request() for _ in range(40)]
    together = {}
    for steps_in_flight in (1, 2):
        engine = Engine(settings(steps_in_flight, (None, 20), 70), vocab_size=VOCAB)
        engine.run(*requests)
        together[steps_in_flight] = engine.answers
    for request in requests:
        engine = Engine(settings(2, (None, 20), 70), vocab_size=VOCAB)
        engine.run(request)
        alone = engine.answers[request.request_id]
        for answers in together.values():
            answer = answers[request.request_id]
            assert (answer.tokens, answer.reason) == (alone.tokens, alone.reason)


def test_chunked_and_cached_answers_equal_whole_and_fresh_ones() -> None:
    storm = Storm(random.Random(4), 40, rate=1.0)
    requests = [storm.request() for _ in range(40)]
    answers = []
    for changes in (
        {"max_num_batched_tokens": 10},
        {"max_num_batched_tokens": 400},
        {"enable_prefix_caching": False},
        {"max_num_seqs": 1},
    ):
        patient = dataclasses.replace(settings(2, (None, 20), 300), queue_timeout_s=1e9, **changes)
        engine = Engine(patient, vocab_size=VOCAB)
        engine.run(*requests)
        assert not any(answer.reason == "error" for answer in engine.answers.values())
        answers.append({id: answer.tokens for id, answer in engine.answers.items()})
    assert all(each == answers[0] for each in answers)


def test_tenants_with_different_salts_never_share_a_page() -> None:
    """The same prompts under two salts: hits within a salt, none across, in any order of arrival."""
    engine = Engine(config(layout(300)))
    prompt = list(range(50))
    for round in range(3):
        for salt in (b"one", b"two", b""):
            id = f"{salt!r}{round}"
            engine.run(add(id, prompt, cache_salt=salt))
            assert engine.answers[id].outputs[0].num_cached_tokens == (48 if round else 0)
