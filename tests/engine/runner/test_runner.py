"""engine.runner.runner on a toy decoder: equality pairs, failures, the life of rows."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch

from engine.core.contract import BatchError, RowInit, RowWork, ScheduleOutput
from engine.messages import SamplingParams
from engine.runner.runner import TorchRunner
from engine.runner.sampler import NOTHING_TO_CHOOSE
from tests.engine.runner.driver import Driver, layout_of, make_runner
from tests.engine.runner.equality import assert_same_tokens
from tests.engine.runner.toy import ToyLM

GREEDY = SamplingParams(seed=0, max_tokens=50, temperature=0.0, num_logprobs=97)
LENGTHS = (1, 5, 16, 17, 40, 70)


@pytest.fixture
def toy() -> ToyLM:
    return ToyLM()


@pytest.fixture
def runner(toy: ToyLM) -> Iterator[TorchRunner]:
    runner = make_runner(toy, layout_of(toy))
    yield runner
    runner.close()


def _prompts(seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(97) for _ in range(length)] for length in LENGTHS]


def _sampling(row: int) -> SamplingParams:
    kinds = ({"temperature": 0.0}, {"top_p": 0.9}, {"temperature": 0.7, "presence_penalty": 0.5})
    return SamplingParams(seed=100 + row, max_tokens=50, num_logprobs=97, **kinds[row % 3])  # type: ignore[arg-type]  # test shorthand


def test_rows_of_a_batch_equal_rows_alone(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    prompts = _prompts(seed)
    together = Driver(runner, layout_of(toy), seed)
    for row, prompt in enumerate(prompts):
        together.add(row, prompt, _sampling(row))
    together.run(num_outputs=30)
    for row, prompt in enumerate(prompts):
        alone = Driver(runner, layout_of(toy), seed + 1)
        alone.add(15 - row, prompt, _sampling(row))
        alone.run(num_outputs=30)
        assert_same_tokens(together.rows[row], alone.rows[15 - row], 1e-3)


@pytest.mark.parametrize("chunk", [1, 7, 16, 33])
def test_chunked_prefill_equals_whole(toy: ToyLM, runner: TorchRunner, seed: int, chunk: int) -> None:
    whole, chunked = (Driver(runner, layout_of(toy), seed + i) for i in range(2))
    for row, prompt in enumerate(_prompts(seed)):
        whole.add(row, prompt, _sampling(row))
        chunked.add(row + 7, prompt, _sampling(row))
    whole.run(num_outputs=12)
    chunked.run(num_outputs=12, chunk=chunk)
    for row in range(len(LENGTHS)):
        assert_same_tokens(whole.rows[row], chunked.rows[row + 7], 1e-3)


def test_two_steps_in_flight_equal_one_bitwise(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    drivers = [Driver(runner, layout_of(toy), seed) for _ in range(2)]
    for depth, driver in enumerate(drivers, start=1):
        for row, prompt in enumerate(_prompts(seed)):
            driver.add(row, prompt, _sampling(row))
        driver.run(num_outputs=20, chunk=24, depth=depth)
    for row in range(len(LENGTHS)):
        one, two = drivers[0].rows[row], drivers[1].rows[row]
        assert one.outputs == two.outputs
        assert one.logprobs == two.logprobs


def test_preempted_row_continues_where_it_stopped(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    plain, preempted = (Driver(runner, layout_of(toy), seed + i) for i in range(2))
    for row, prompt in enumerate(_prompts(seed)):
        plain.add(row, prompt, _sampling(row))
        preempted.add(row, prompt, _sampling(row))
    plain.run(num_outputs=25)
    preempted.run(num_outputs=10)
    for row in range(len(LENGTHS)):
        before = preempted.free(row)
        after = preempted.add(
            (row + 3) % len(LENGTHS) + 6, before.tokens[: before.num_prompt], before.sampling, before.outputs
        )
        after.logprobs = before.logprobs
    preempted.run(num_outputs=25)
    for row in range(len(LENGTHS)):
        assert_same_tokens(plain.rows[row], preempted.rows[(row + 3) % len(LENGTHS) + 6], 1e-3)


def test_cached_prefix_equals_computed_prefix(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    driver = Driver(runner, layout_of(toy), seed)
    first = driver.add(0, _prompts(seed)[-1], _sampling(0))
    driver.run(num_outputs=20)
    prompt = [*first.tokens[:80], 11, 12, 13]
    fresh = Driver(runner, layout_of(toy), seed + 1)
    expected = fresh.add(1, prompt, _sampling(1))
    # 64 tokens are four full pages of the first row; the windowed group needs only those its window reaches.
    shared = [pages[:4] for pages in first.pages]
    cached = driver.add(2, prompt, _sampling(1), cached=(64, shared))
    del driver.rows[0]
    driver.run(num_outputs=15)
    # The other driver hands out pages that the shared ones may be among: it runs after.
    fresh.run(num_outputs=15)
    assert_same_tokens(expected, cached, 1e-3)


def test_a_step_that_only_fills_pages_gives_no_token(toy: ToyLM, runner: TorchRunner) -> None:
    driver = Driver(runner, layout_of(toy))
    driver.add(0, list(range(40)), GREEDY)
    driver.launch({0: 16})
    assert driver.collect().tokens == {}
    driver.launch({0: 100})
    assert list(driver.collect().tokens) == [0]


def test_an_empty_step_applies_its_diff(toy: ToyLM, runner: TorchRunner) -> None:
    row = RowInit(3, [5, 6, 7], 3, GREEDY, ((1,), (2,)))
    result = runner.collect(runner.launch(ScheduleOutput(9, (), new_rows=(row,))))
    assert (result.step, result.tokens) == (9, {})
    filled = runner.collect(runner.launch(ScheduleOutput(10, (RowWork(3, 0, 3, True),))))
    assert list(filled.tokens) == [3]


def test_one_rows_settings_fail_that_row_only(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    driver, alone = (Driver(runner, layout_of(toy), seed + i) for i in range(2))
    prompts = _prompts(seed)
    bad = driver.add(0, prompts[2], SamplingParams(seed=1, max_tokens=5, logit_bias={5000: 1.0}))
    good = driver.add(1, prompts[3], _sampling(1))
    driver.run(num_outputs=6)
    assert bad.outputs == []
    assert "logit_bias names token 5000" in (bad.error or "")
    expected = alone.add(9, prompts[3], _sampling(1))
    alone.run(num_outputs=6)
    assert_same_tokens(expected, good, 1e-3)


def test_one_rows_numbers_fail_that_row_only(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    toy.broken[96] = float("nan")
    driver = Driver(runner, layout_of(toy), seed)
    bad = driver.add(0, [1, 2, 96], _sampling(1))
    forbidden = driver.add(
        1, [1, 2, 3], SamplingParams(seed=1, max_tokens=5, allowed_token_ids=(1,), min_tokens=3)
    )
    good = driver.add(2, [1, 2, 3], GREEDY)
    driver.launch({0: 9, 1: 9, 2: 9})
    result = driver.collect()
    assert result.failures == {0: NOTHING_TO_CHOOSE, 1: NOTHING_TO_CHOOSE}
    assert list(result.tokens) == list(result.logprobs) == [2]
    assert (bad.outputs, forbidden.outputs, len(good.outputs)) == ([], [], 1)


def test_a_failed_row_in_the_next_step_already_in_flight_harms_nobody(
    toy: ToyLM, runner: TorchRunner, seed: int
) -> None:
    nothing = SamplingParams(seed=1, max_tokens=5, allowed_token_ids=(1,), min_tokens=9, presence_penalty=1.0)
    driver, alone = (Driver(runner, layout_of(toy), seed + i) for i in range(2))
    bad, good = driver.add(0, [1, 2, 3], nothing), driver.add(1, [4, 5, 6], _sampling(1))
    for _ in range(3):
        driver.launch({0: 9, 1: 9})
    for _ in range(3):
        assert driver.collect().failures == {0: NOTHING_TO_CHOOSE}
    expected = alone.add(2, [4, 5, 6], _sampling(1))
    alone.run(num_outputs=3)
    assert_same_tokens(expected, good, 1e-3)
    assert bad.outputs == []


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), MemoryError(), torch.OutOfMemoryError("full"), IndexError()]
)
def test_a_host_error_or_lack_of_memory_fails_the_step_and_spares_the_runner(
    toy: ToyLM, runner: TorchRunner, error: Exception
) -> None:
    driver = Driver(runner, layout_of(toy))
    driver.add(0, [1, 2, 3], GREEDY)
    toy.raises = error
    driver.launch({0: 9})
    with pytest.raises(BatchError, match=f"step 0: {type(error).__name__}"):
        driver.collect()
    toy.raises = None
    driver.free(0)
    again = driver.add(0, [1, 2, 3], GREEDY)
    driver.run(num_outputs=3)
    assert len(again.outputs) == 3


@pytest.mark.parametrize("error", [torch.AcceleratorError("sticky"), KeyboardInterrupt()])
def test_a_lost_device_is_not_disguised(toy: ToyLM, runner: TorchRunner, error: BaseException) -> None:
    toy.raises = error  # type: ignore[assignment]  # a BaseException on purpose
    driver = Driver(runner, layout_of(toy))
    driver.add(0, [1, 2, 3], GREEDY)
    driver.launch({0: 9})
    with pytest.raises(type(error)):
        driver.collect()


def test_warm_up_leaves_no_trace(toy: ToyLM, runner: TorchRunner, seed: int) -> None:
    plain, warmed = (Driver(runner, layout_of(toy), seed) for _ in range(2))
    plain.add(0, _prompts(seed)[3], _sampling(1))
    plain.run(num_outputs=5)
    other = make_runner(toy, layout_of(toy))
    other.warm_up(3, 150)
    other.warm_up(1, 1)
    warmed.runner = other
    warmed.add(0, _prompts(seed)[3], _sampling(1))
    warmed.run(num_outputs=5)
    other.close()
    assert plain.rows[0].outputs == warmed.rows[0].outputs


def test_greedy_output_follows_the_logits_of_a_whole_forward(
    toy: ToyLM, runner: TorchRunner, seed: int
) -> None:
    """Against the toy run over the finished sequence at once: every token is the argmax at its place."""
    driver = Driver(runner, layout_of(toy), seed)
    row = driver.add(0, _prompts(seed)[4], GREEDY)
    driver.run(num_outputs=30)
    scorer = Driver(runner, layout_of(toy), seed + 1)
    for length in range(row.num_prompt, len(row.tokens)):
        scorer.add(1, row.tokens[:length], GREEDY)
        scorer.launch({1: 999})
        token = scorer.collect().tokens[1]
        scorer.free(1)
        index = length - row.num_prompt
        if token != row.outputs[index]:
            top = row.logprobs[index].top_logprobs
            assert top[0] - top[1] < 1e-3
