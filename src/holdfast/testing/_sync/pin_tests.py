# WARNING: this file is generated from src/holdfast/testing/_async/pin_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: pins that are listed, found, changed, and made by a CID.

A provider that lacks a capability skips its tests.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast._sync.runtime import now, sleep
from holdfast.errors import ProviderError
from holdfast.provider import (
    Annotating,
    Finding,
    Listing,
    Pinning,
    Updating,
)
from holdfast.records import Pin, PinFilter, PinInfo
from holdfast.testing._sync.provider_calls import ProviderCalls
from holdfast.testing.provider_cases import NOWHERE, check_pins, require, unique_json


class PinTests(ProviderCalls):
    """Names and key-values of pins, and pins by CID."""

    def test_pins_are_listed_by_name(self, provider: Any) -> None:
        require(provider, Listing)
        salt = secrets.token_hex(8)
        cids = [provider.put_json(unique_json(), name=f"{salt} {n}") for n in range(2)]
        check_pins(provider.list_pins(name=salt), cids, "by a part of the name")
        check_pins(provider.list_pins(name=f"{salt} 1"), cids[1:], "by the name")
        assert len(provider.list_pins(name=salt, limit=1)) == 1
        for cid in cids:
            provider.delete(cid)
        check_pins(provider.list_pins(name=salt), [], "after they were deleted")

    def test_pins_are_found_by_each_filter(self, provider: Any) -> None:
        require(provider, Annotating, Finding)
        salt = secrets.token_hex(8)
        cids = []
        for number in "12":
            keyvalues = {"salt": salt, "number": number}
            info = PinInfo(name=f"{salt} {number}", keyvalues=keyvalues, given=True)
            cids.append((provider.pin_json(unique_json(), info)).cid)
        pins = find(provider, name=salt)
        check_pins(pins, cids, "by a part of the name")
        check_pins(find(provider, name=f"{salt} 2"), cids[1:], "by the name")
        check_pins(find(provider, cid=cids[0]), cids[:1], "by CID")
        check_pins(find(provider, keyvalues={"salt": salt}), cids, "by a key-value")
        wanted = {"salt": salt, "number": "2"}
        check_pins(find(provider, keyvalues=wanted), cids[1:], "by two key-values")
        assert len(find(provider, name=salt, limit=1)) == 1, "a limit of 1 was not kept"
        times = [pin.created for pin in pins if pin.created is not None]
        if len(times) == len(pins):
            first, last = min(times), max(times)
            check_pins(find(provider, name=salt, since=first), cids, "since the first")
            check_pins(find(provider, name=salt, until=last), cids, "until the last")
            check_pins(find(provider, name=salt, since=last + 1), [], "since later")
            check_pins(find(provider, name=salt, until=first - 1), [], "until earlier")
        for cid in cids:
            provider.delete(cid)
        check_pins(find(provider, name=salt), [], "after they were deleted")

    def test_known_content_gets_what_is_given(self, provider: Any) -> None:
        require(provider, Annotating, Finding)
        text = unique_json()
        cid = (provider.pin_json(text, PinInfo(name="first", keyvalues={"a": "1"}))).cid
        added = provider.pin_json(text, PinInfo(name="second"))
        assert added.duplicate in {True, None}, "known content was added as new"
        (pin,) = find(provider, cid=cid)
        assert (pin.name, pin.keyvalues) == ("first", {"a": "1"}), "nothing was given to change it"
        provider.pin_json(text, PinInfo(name="third", keyvalues={"b": "2"}, given=True))
        (pin,) = find(provider, cid=cid)
        assert (pin.name, pin.keyvalues) == ("third", {"a": "1", "b": "2"})
        provider.delete(cid)

    def test_a_pin_can_be_changed(self, provider: Any) -> None:
        require(provider, Annotating, Finding, Updating)
        info = PinInfo(name="first", keyvalues={"a": "1", "b": "2"}, given=True)
        cid = (provider.pin_json(unique_json(), info)).cid
        pin = provider.update_pin(cid, name="second", keyvalues=None)
        assert (pin.name, pin.keyvalues) == ("second", {"a": "1", "b": "2"})
        pin = provider.update_pin(cid, name=None, keyvalues={"a": None, "c": "3"})
        assert (pin.name, pin.keyvalues) == ("second", {"b": "2", "c": "3"})
        (found,) = find(provider, cid=cid)
        assert (found.name, found.keyvalues) == (pin.name, pin.keyvalues)
        provider.delete(cid)
        with pytest.raises(ProviderError):
            provider.update_pin(NOWHERE, name="x", keyvalues=None)

    def test_what_is_there_can_be_pinned_by_its_cid(self, provider: Any) -> None:
        require(provider, Pinning)
        cid = provider.put_json(unique_json(), name="x")
        pin = provider.pin(cid, PinInfo(name="y", given=True))
        end = now() + self.patience
        while pin.state != "pinned":
            assert now() < end, f"the pin is still {pin.state}"
            sleep(0.1)
            pin = provider.check_pin(pin)
        check_pins([pin], [cid], "by its CID")
        provider.delete(cid)


def find(provider: Finding, *, limit: int | None = None, **wanted: Any) -> Sequence[Pin]:
    """Return the pins that match the filters."""
    return [pin for pin in provider.find_pins(PinFilter(**wanted), limit=limit)]
