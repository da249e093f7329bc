"""Finding the cluster that a supervisor runs in, or that a kubeconfig names.

Place: beside the launcher, for the composition root. In a pod: its service account; elsewhere `KUBECONFIG`, with the
namespace of its current context.
"""

from contextlib import AsyncExitStack
from pathlib import Path

from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException

from gateway.clock import SystemClock
from gateway.pool.cluster.api import ClusterApi
from gateway.pool.cluster.launcher import KubernetesLauncher
from gateway.pool.cluster.template import ClusterTemplate
from gateway.settings import PoolSettings

__all__ = ["connect"]

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


async def connect(
    stack: AsyncExitStack, template: Path, settings: PoolSettings
) -> tuple[KubernetesLauncher, str]:
    """With the namespace; the client is closed with the stack. Raises ValueError with a sentence for the operator."""
    engines = ClusterTemplate.read(template)
    configuration = client.Configuration()
    try:
        namespace = _own_namespace()
        if namespace is not None:
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(client_configuration=configuration)
            _, active = config.list_kube_config_contexts()
            namespace = active["context"].get("namespace", "default")
    except ConfigException as error:
        raise ValueError(f"no Kubernetes cluster: {error}") from None
    clock = SystemClock()
    api = ClusterApi(configuration, namespace, clock)
    stack.push_async_callback(api.close)
    launcher = KubernetesLauncher(
        api,
        engines,
        ready_timeout_s=settings.ready_timeout_s,
        drain_timeout_s=settings.drain_timeout_s,
        clock=clock,
    )
    return launcher, namespace


def _own_namespace() -> str | None:
    """Of the pod that this is."""
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
