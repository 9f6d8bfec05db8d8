"""Log every call of any provider: ``LoggingProvider(KuboProvider(config))``."""

import logging
from typing import Any

from holdfast.provider import AsyncWrappingProvider, WrappingProvider

logger = logging.getLogger(__name__)


class LoggingProvider(WrappingProvider):
    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        logger.info("%s: %s %s", self.inner.title, name, args[0] if args else "")
        return super().forward(name, *args, **options)


class AsyncLoggingProvider(AsyncWrappingProvider):
    forward = LoggingProvider.forward
