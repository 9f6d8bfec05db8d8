"""Log every call of any provider: ``LoggingProvider(KuboProvider(config))``."""

import logging
from typing import Any

from holdfast.provider import AsyncWrappingProvider, WrappingProvider

logger = logging.getLogger(__name__)


class LoggingProvider(WrappingProvider):
    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        texts = [each for each in args if isinstance(each, str)]  # other arguments may be content
        logger.info("%s: %s", self.inner.title, " ".join([name, *texts]))
        return getattr(self.inner, name)(*args, **options)


class AsyncLoggingProvider(AsyncWrappingProvider):
    forward = LoggingProvider.forward
