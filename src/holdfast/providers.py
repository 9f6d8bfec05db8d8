"""The providers that come with Holdfast.

A client makes the one that its configuration names, so programs seldom need these classes: to wrap
one, to subclass it, or to make it from an object that is no configuration. To write your own, see
`holdfast.provider`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names
from holdfast.registry import BUILT_IN

if TYPE_CHECKING:
    from holdfast._async.providers.car import AsyncCarProvider as AsyncCarProvider
    from holdfast._async.providers.cluster import AsyncClusterProvider as AsyncClusterProvider
    from holdfast._async.providers.copies import AsyncCopiesProvider as AsyncCopiesProvider
    from holdfast._async.providers.gateway import AsyncGatewayProvider as AsyncGatewayProvider
    from holdfast._async.providers.kubo import AsyncKuboProvider as AsyncKuboProvider
    from holdfast._async.providers.local import AsyncLocalProvider as AsyncLocalProvider
    from holdfast._async.providers.pinata import AsyncPinataProvider as AsyncPinataProvider
    from holdfast._async.providers.pinning import AsyncPinProvider as AsyncPinProvider
    from holdfast._async.providers.psa import AsyncPSAProvider as AsyncPSAProvider
    from holdfast._sync.providers.car import CarProvider as CarProvider
    from holdfast._sync.providers.cluster import ClusterProvider as ClusterProvider
    from holdfast._sync.providers.copies import CopiesProvider as CopiesProvider
    from holdfast._sync.providers.gateway import GatewayProvider as GatewayProvider
    from holdfast._sync.providers.kubo import KuboProvider as KuboProvider
    from holdfast._sync.providers.local import LocalProvider as LocalProvider
    from holdfast._sync.providers.pinata import PinataProvider as PinataProvider
    from holdfast._sync.providers.pinning import PinProvider as PinProvider
    from holdfast._sync.providers.psa import PSAProvider as PSAProvider

if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            f"_async.providers.{row.stands_for or name}": f"Async{row.class_name}"
            for name, row in BUILT_IN.items()
        },
    )
