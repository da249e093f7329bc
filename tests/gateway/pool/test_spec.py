"""EngineSpec: what is refused, and the command line of each kind."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.pool.spec import EngineSpec, Placement

PLACEMENT = Placement("127.0.0.1", 8001, (0, 1), Path("/journal"), "secret")


def test_our_engine_gets_keys_journal_and_flags() -> None:
    spec = EngineSpec(
        model="m.gguf", served_names=("a", "b"), flags={"max-model-len": 4096, "enforce-eager": True}
    )
    assert spec.command(PLACEMENT) == (
        sys.executable, "-m", "engine", "serve", "--model", "m.gguf", "--served-model-name", "a", "b",
        "--host", "127.0.0.1", "--port", "8001", "--journal-dir", "/journal",
        "--max-model-len", "4096", "--enforce-eager",
    )  # fmt: skip


def test_vllm_and_sglang_name_their_parallelism_differently() -> None:
    common = {"model": "m", "served_names": ("a",), "tensor_parallel": 2, "gpus": (0, 1)}
    vllm = EngineSpec(kind="vllm", **common).command(PLACEMENT)
    sglang = EngineSpec(kind="sglang", **common).command(PLACEMENT)
    assert vllm[:3] == ("vllm", "serve", "m")
    assert vllm[-2:] == ("--tensor-parallel-size", "2")
    assert sglang[-2:] == ("--tp-size", "2")


def test_keys_stay_off_the_command_line_where_the_engine_allows_it() -> None:
    ours = EngineSpec(model="m", served_names=("a",))
    vllm = EngineSpec(kind="vllm", model="m", served_names=("a",))
    assert "secret" not in (*ours.command(PLACEMENT), *vllm.command(PLACEMENT))
    assert set(ours.environ(PLACEMENT)) == {"TOLLWAY_ENGINE_INTERNAL_KEY", "TOLLWAY_ENGINE_API_KEY"}
    assert vllm.environ(PLACEMENT) == {"VLLM_API_KEY": "secret"}


def test_only_our_own_engine_may_be_open() -> None:
    open_placement = replace(PLACEMENT, is_open=True)
    assert set(EngineSpec(model="m", served_names=("a",)).environ(open_placement)) == {
        "TOLLWAY_ENGINE_INTERNAL_KEY"
    }
    assert EngineSpec(kind="vllm", model="m", served_names=("a",)).environ(open_placement) != {}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"served_names": ()}, "at least 1 item"),
        ({"served_names": ("a", "a")}, "a name is given twice"),
        ({"served_names": ("a b",)}, "should match pattern"),
        ({"min_replicas": 3, "max_replicas": 2}, "more than max_replicas"),
        ({"gpus": (0,), "tensor_parallel": 2}, "need 2 devices, not 1"),
        ({"gpus": (0, 0)}, "a device is given twice"),
        ({"gpus": ("GPU-7d1c0f6e", "GPU-7d1c0f6e")}, "a device is given twice"),
        ({"gpus": ("GPU-a,b",)}, "should match pattern"),
        ({"gpus": (-1,)}, "greater than or equal to 0"),
        ({"flags": {"port": 1}}, "--port is set by the pool"),
        ({"flags": {"enforce-eager": False}}, "cannot be false"),
        ({"flags": {"--port": 1}}, "should match pattern"),
        ({"urls": ("http://one",)}, "only for kind 'external'"),
        ({"kind": "external"}, "needs at least one"),
        ({"kind": "external", "urls": ("http://user:pass@one",)}, "no user, password, query or fragment"),
        ({"kind": "external", "urls": ("http://one", "http://:pass@two")}, "no user, password"),
        ({"kind": "external", "urls": ("http://one/?key=1",)}, "no user, password, query"),
        ({"kind": "external", "urls": ("http://one/#part",)}, "no user, password, query or fragment"),
        ({"kind": "external", "urls": ("http://one",), "gpus": (0,)}, "takes none"),
        ({"replicas": 3}, "Extra inputs are not permitted"),
    ],
)
def test_contradictions_are_named(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        EngineSpec.model_validate({"model": "m", "served_names": ("a",)} | given)


def test_it_survives_the_database() -> None:
    spec = EngineSpec(kind="external", model="m", served_names=("a",), urls=("http://one:1/",))
    assert EngineSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert spec.replicas == 1
