"""The file behind `--kubernetes`: what is wrong with it is said in a sentence, and the one in `deploy/` is right."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gateway.pool.cluster.template import ClusterTemplate
from tests.tidy.tree import ROOT


def test_the_deployed_one_is_read_and_names_what_is_there(tmp_path: Path) -> None:
    path = ROOT / "deploy/kustomize/components/cluster-pools/engines.yaml"
    objects = {one["kind"]: one for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))}
    file = tmp_path / "engines.yaml"
    file.write_text(objects["ConfigMap"]["data"]["engines.yaml"], encoding="utf-8")
    template = ClusterTemplate.read(file)
    assert template.service == objects["Service"]["metadata"]["name"]
    assert objects["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert template.models is not None


@pytest.mark.parametrize(
    ("text", "said"), [("services: x", "services: Extra inputs"), ("a: [", "no YAML"), ("user: me", "user: ")]
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "engines.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        ClusterTemplate.read(file)
    with pytest.raises(ValueError, match="No such file"):
        ClusterTemplate.read(tmp_path / "none")
