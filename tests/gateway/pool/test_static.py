"""Static URLs: each has one replica, and nothing is ever ended."""

import pytest

from gateway.ids import ReplicaId
from gateway.pool.launcher import Assignment, LaunchError, Running
from gateway.pool.spec import EngineSpec
from gateway.pool.static import StaticLauncher

SPEC = EngineSpec(kind="external", model="m", served_names=("a",), urls=("http://one:1", "http://two:2/"))


def test_each_url_is_given_once() -> None:
    launcher = StaticLauncher()
    first = launcher.assign(ReplicaId("rep_1"), SPEC, [], None)
    second = launcher.assign(ReplicaId("rep_1"), SPEC, [first], None)
    assert [first.url, second.url] == ["http://one:1", "http://two:2"]
    with pytest.raises(LaunchError, match="every URL"):
        launcher.assign(ReplicaId("rep_1"), SPEC, [first, second], None)


async def test_it_runs_by_definition() -> None:
    launcher = StaticLauncher()
    replica = ReplicaId("rep")
    running = await launcher.launch(replica, "stub", SPEC, Assignment("http://one:1", ()))
    await launcher.terminate(running)
    await launcher.kill(replica, running)
    assert (await launcher.observe(running)).alive
    assert await launcher.find(replica, None) == Running(None)
    assert await launcher.strays([]) == ()
