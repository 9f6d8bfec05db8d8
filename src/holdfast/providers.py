"""The providers that come with Holdfast.

A client makes the one that its configuration names, so programs seldom need these classes: to wrap
one, to subclass it, or to make it from an object that is no configuration. To write your own, see
`holdfast.provider`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names
from holdfast.registry import BUILT_IN

if TYPE_CHECKING:
    from holdfast._async.providers.cluster import AsyncClusterProvider
    from holdfast._async.providers.kubo import AsyncKuboProvider
    from holdfast._async.providers.local import AsyncLocalProvider
    from holdfast._async.providers.pinata import AsyncPinataProvider
    from holdfast._async.providers.pinning import AsyncPinProvider
    from holdfast._async.providers.psa import AsyncPSAProvider
    from holdfast._sync.providers.cluster import ClusterProvider
    from holdfast._sync.providers.kubo import KuboProvider
    from holdfast._sync.providers.local import LocalProvider
    from holdfast._sync.providers.pinata import PinataProvider
    from holdfast._sync.providers.pinning import PinProvider
    from holdfast._sync.providers.psa import PSAProvider

__all__ = [
    "AsyncClusterProvider",
    "AsyncKuboProvider",
    "AsyncLocalProvider",
    "AsyncPSAProvider",
    "AsyncPinProvider",
    "AsyncPinataProvider",
    "ClusterProvider",
    "KuboProvider",
    "LocalProvider",
    "PSAProvider",
    "PinProvider",
    "PinataProvider",
]

if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__ = lazy_names(
        __name__,
        {f"_async.{row.module}": f"Async{row.class_name}" for row in BUILT_IN.values()},
        __all__,
    )
