"""Rows that follow a grammar, in both runners: alone, beside others, however many steps are in flight."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import xgrammar

from engine.layers.batch import CausalLM
from engine.messages import GrammarSpec, SamplingParams
from engine.models.loader import load_model
from engine.runner.gpu import GPURunner
from tests.engine.runner.driver import Driver, Running, layout_of, make_runner
from tests.engine.runner.toy import ToyLM
from tests.grammars import EOS, VOCAB, bound, ids, text_of
from tests.models import write_tiny_llama

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 99},
        "b": {"type": "string", "pattern": "^[a-z]{0,4}$"},
    },
    "required": ["a", "b"],
}
PATTERN = "[a-z]{2,5}-[0-9]{2}"
GRAMMARS: dict[str, Callable[[str], bool]] = {
    "regex": lambda text: bool(re.fullmatch(PATTERN, text)),
    "choice": lambda text: text in ("harbour", "bridge"),
    "json_schema": lambda text: json.loads(text).keys() == {"a", "b"},
}
TEXTS: dict[str, Any] = {"regex": PATTERN, "choice": ["harbour", "bridge"], "json_schema": SCHEMA}


class _Toy(ToyLM):
    """Ends where the test's vocabulary says."""

    def __init__(self) -> None:
        super().__init__(VOCAB, 256)
        object.__setattr__(self.config, "eos_token_ids", EOS)


def _toy_driver() -> Driver:
    model = _Toy()
    return Driver(make_runner(model, layout_of(model)), layout_of(model))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("llama"), num_hidden_layers=1)


def _load(path: Path, device: torch.device) -> CausalLM:
    return load_model(path, dtype=torch.float32, device=device, max_positions=101)


def _plain_driver(path: Path) -> Driver:
    model = _load(path, torch.device("cpu"))
    return Driver(make_runner(model, layout_of(model)), layout_of(model))


def _gpu_driver(path: Path) -> Driver:
    model = _load(path, DEVICE)
    layout, config = layout_of(model), model.config
    shape = (layout.num_blocks, len(layout.groups[0].layer_ids), 2, config.num_kv_heads, 16, config.head_dim)
    runner = GPURunner(
        model,
        torch.zeros(shape, device=DEVICE),
        layout,
        max_num_seqs=5,
        max_model_len=100,
        max_num_batched_tokens=64,
        dtype=torch.float32,
    )
    if DEVICE.type == "cuda":
        runner.capture()
    return Driver(runner, layout)  # type: ignore[arg-type]  # both are runners


def _params(row: int, grammar: GrammarSpec | None, **changes: Any) -> SamplingParams:
    return SamplingParams(**{"seed": 50 + row, "max_tokens": 100, "grammar": grammar, **changes})


def _answer(sequence: Running) -> list[int]:
    """Up to and with the end token: what was computed behind it is overrun."""
    outputs = sequence.outputs
    ends = [place for place, token in enumerate(outputs) if token in EOS]
    assert ends, text_of(outputs)
    return outputs[: ends[0] + 1]


def _run(driver: Driver, rows: dict[int, SamplingParams], depth: int, num_outputs: int = 90) -> Driver:
    draw = random.Random(3)
    for row, params in rows.items():
        driver.add(row, [draw.randrange(5, 500) for _ in range(4 + row)], params)
    driver.run(num_outputs, depth=depth)
    return driver


@pytest.mark.parametrize("depth", [1, 2])
def test_every_answer_belongs_to_its_grammar(depth: int) -> None:
    rows = {row: _params(row, bound(kind, TEXTS[kind])) for row, kind in enumerate(GRAMMARS)}
    driver = _run(_toy_driver(), rows, depth)
    for row, belongs in enumerate(GRAMMARS.values()):
        assert driver.rows[row].error is None
        assert belongs(text_of(_answer(driver.rows[row]))), text_of(driver.rows[row].outputs)


def test_the_gpu_runner_equals_the_plain_one(llama: Path) -> None:
    """Also a row without a grammar, raw log-probabilities, and a row that ends long before the others."""
    rows = {
        0: _params(0, bound("regex", PATTERN, 512), num_logprobs=2),
        1: _params(1, bound("choice", ["harbour", "bridge"], 512), allowed_token_ids=(*range(5, 512), *EOS)),
        2: _params(2, None, temperature=0.0),
        3: _params(3, bound("regex", "[0-9]{3}", 512), min_tokens=9, logit_bias={9: 1.0}),
    }
    plain = _run(_plain_driver(llama), rows, 1, num_outputs=7)
    ours = _run(_gpu_driver(llama), rows, 2, num_outputs=7)
    assert plain.rows[2].outputs == ours.rows[2].outputs
    for row in (0, 1, 3):
        assert _answer(plain.rows[row]) == _answer(ours.rows[row])
    assert re.fullmatch(PATTERN, text_of(_answer(ours.rows[0])))
    for one, other in zip(plain.rows[0].logprobs[:3], ours.rows[0].logprobs[:3], strict=True):
        assert one.top_ids == other.top_ids
        assert one.token_logprob == pytest.approx(other.token_logprob, abs=1e-3)


def test_other_rows_get_what_they_get_without_it() -> None:
    others = {0: _params(0, None), 2: _params(2, None, top_p=0.9, num_logprobs=2)}
    without = _run(_toy_driver(), {**others, 1: _params(1, None)}, 2, num_outputs=12)
    beside = _run(_toy_driver(), {**others, 1: _params(1, bound("regex", PATTERN))}, 2, num_outputs=12)
    assert [beside.rows[row].outputs for row in others] == [without.rows[row].outputs for row in others]


def test_log_probabilities_are_those_without_the_grammar() -> None:
    free = _run(_toy_driver(), {0: _params(0, None, num_logprobs=3)}, 1, num_outputs=1).rows[0]
    held = _run(
        _toy_driver(), {0: _params(0, bound("choice", ["zz"]), num_logprobs=3)}, 1, num_outputs=1
    ).rows[0]
    assert held.logprobs[0].top_ids == free.logprobs[0].top_ids
    assert held.logprobs[0].top_logprobs == pytest.approx(free.logprobs[0].top_logprobs, abs=1e-5)
    assert held.logprobs[0].rank > 3, "an unlikely token, forced"


@pytest.mark.parametrize("kind", ["plain", "gpu"])
def test_a_row_without_a_choice_fails_alone(llama: Path, kind: str) -> None:
    driver = (_plain_driver if kind == "plain" else _gpu_driver)(llama)
    rows = {
        0: _params(0, bound("regex", "[0-9]{3}", 512), allowed_token_ids=tuple(ids("a"))),
        1: _params(1, bound("regex", PATTERN, 512)),
        2: _params(2, GrammarSpec("ebnf", "a")),
        3: _params(3, None),
        4: _params(4, bound("choice", ["a"], 512), bad_words=((ids("a")[0],),)),
    }
    for row, params in rows.items():
        driver.add(row, ids("The sea"), params)
    driver.launch(dict.fromkeys(rows, 9))
    result = driver.collect()
    assert result.tokens.keys() == {1, 3}
    assert "no token can follow" in result.failures[0]
    assert "never compiled" in result.failures[2]
    assert "no token can be chosen" in result.failures[4]
    assert result.refused == {0, 4}, "their callers' doing"


def test_a_preempted_row_goes_on_where_it_was() -> None:
    params = _params(0, bound("regex", "([a-z]{3} ){4}end"))
    whole = _answer(_run(_toy_driver(), {0: params}, 2).rows[0])
    assert re.fullmatch("([a-z]{3} ){4}end", text_of(whole))
    for cut in range(1, len(whole)):
        driver = _run(_toy_driver(), {0: params}, 2, num_outputs=cut)
        stopped = driver.free(0)
        driver.add(1, stopped.tokens[: stopped.num_prompt], params, stopped.outputs)
        driver.run(60, depth=2)
        assert _answer(driver.rows[1]) == whole


@pytest.mark.parametrize("kind", ["plain", "gpu"])
def test_a_row_that_changes_hands_in_flight_keeps_nothing(llama: Path, kind: str) -> None:
    """The new owner's grammar hears of its own tokens only, though the old owner's last one arrives later."""
    driver = (_plain_driver if kind == "plain" else _gpu_driver)(llama)
    driver.add(0, ids("harbour"), _params(0, bound("regex", "[0-9]+", 512)))
    driver.launch({0: 9})
    driver.launch({0: 1})
    driver.collect()
    driver.free(0)
    driver.add(0, ids("bridge"), _params(1, bound("regex", "[a-z]{3}", 512)))
    driver.launch({0: 9})
    assert text_of([driver.collect().tokens[0]]).isdigit(), "the old owner's"
    driver.rows[0].tokens = driver.rows[0].tokens[: driver.rows[0].num_prompt]
    driver.run(5, depth=2)
    assert re.fullmatch("[a-z]{3}", text_of(_answer(driver.rows[0])))


def test_a_matcher_that_breaks_fails_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: object) -> None:
        raise RuntimeError("broken")

    for method in ("__init__", "accept_token", "fill_next_token_bitmask"):
        driver = _toy_driver()
        driver.add(0, ids("harbour"), _params(0, bound("regex", "[a-z]{9}")))
        driver.add(1, ids("harbour"), _params(1, None))
        with monkeypatch.context() as patched:
            patched.setattr(xgrammar.GrammarMatcher, method, breaks)
            driver.run(3)
        assert "could not be followed" in (driver.rows[0].error or "")
        assert driver.rows[1].error is None
        assert len(driver.rows[1].outputs) == 3
