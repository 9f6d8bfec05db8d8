# WARNING: this file is generated from src/holdfast/_async/pin_waiting.py
# by scripts/generate_sync.py. Change the original instead.
"""Waiting for content that a provider fetches."""

from typing import TYPE_CHECKING, Final

from holdfast._sync.runtime import now, sleep
from holdfast.records import Pin

if TYPE_CHECKING:
    from holdfast._sync.providers.base import BaseProvider

FIRST_PAUSE: Final = 0.25  # seconds before the first look at the state of a new pin
LONGEST_PAUSE: Final = 10.0  # each pause is twice as long as the one before, up to this


def wait_for_pin(provider: "BaseProvider", pin: Pin, seconds: float) -> Pin:
    """Return `pin` when its content is pinned, or as it is after `seconds`."""
    until = now() + seconds
    pause = FIRST_PAUSE
    while pin.state != "pinned" and (left := until - now()) > 0:
        sleep(min(pause, left))
        pin = provider.check_pin(pin)
        pause = min(2 * pause, LONGEST_PAUSE)
    return pin
