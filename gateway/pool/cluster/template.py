"""What all engine pods of a cluster have in common: the file behind `tollway pool --kubernetes FILE`.

Place: read once at the supervisor's start. What differs from pool to pool is in the pool's specification
(`EngineSpec.kubernetes`); what no cluster differs in is in `manifest`.
"""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["ClusterTemplate"]


class ClusterTemplate(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    service: str = "tollway-engines"
    """The headless Service under whose name each replica has one of its own."""
    secret: str = "tollway"
    secret_key: str = "internal_key"
    """Where the key is that engines know the gateway by; its value never appears in an object."""
    models: dict[str, Any] | None = None
    """A volume source as in a pod, mounted read-only at `/models`."""
    journal_size: str = "1Gi"
    journal_class: str | None = None
    """The storage class of the volume that each replica keeps its usage journal on; the cluster's default when not set."""
    shm_size: str = "1Gi"
    gpu_resource: str = "nvidia.com/gpu"
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    user: int = 10001

    @classmethod
    def read(cls, path: Path) -> "ClusterTemplate":
        """Raises ValueError with a sentence for whoever wrote the file."""
        try:
            return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: no YAML: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
