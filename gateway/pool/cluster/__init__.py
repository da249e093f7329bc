"""Engine replicas in a Kubernetes namespace: manifests, the API behind them, and the launcher over both.

The client is imported with this package; only `tollway pool --kubernetes` does.
"""

from gateway.pool.cluster.api import ClusterApi, ClusterUnavailable
from gateway.pool.cluster.launcher import KubernetesLauncher
from gateway.pool.cluster.template import ClusterTemplate

__all__ = ["ClusterApi", "ClusterTemplate", "ClusterUnavailable", "KubernetesLauncher"]
