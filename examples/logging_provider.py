"""Log every call of any provider: ``LoggingProvider(KuboProvider(config))``."""

import logging
from typing import Any

from holdfast.provider import AsyncWrappingProvider, WrappingProvider

logger = logging.getLogger(__name__)


def log_call(title: str, name: str, args: tuple[object, ...]) -> None:
    texts = [argument for argument in args if isinstance(argument, str)]  # others may be content
    logger.info("%s: %s", title, " ".join([name, *texts]))


class LoggingProvider(WrappingProvider):
    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        log_call(self.inner.title, name, args)
        return super().forward(name, *args, **options)


class AsyncLoggingProvider(AsyncWrappingProvider):
    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        log_call(self.inner.title, name, args)
        return super().forward(name, *args, **options)
