# WARNING: this file is generated from src/holdfast/testing/_async/pin_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: pins that are listed, found, changed, and made by a CID.

A provider that lacks a capability, or raises `UnsupportedError`, skips its tests.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast._sync.providers.foreign import as_provider
from holdfast._sync.runtime import now, sleep
from holdfast.errors import NotFoundError
from holdfast.files.sources import Source
from holdfast.records import Pin, PinFilter, PinInfo
from holdfast.testing._sync.provider_calls import ProviderCalls
from holdfast.testing.provider_cases import NOWHERE, check_pins, require, supported, unique_json


class PinTests(ProviderCalls):
    """Names and key-values of pins, and pins by CID."""

    def test_pins_are_listed_by_name(self, provider: Any) -> None:
        require(as_provider(provider), "list_pins")
        salt = secrets.token_hex(8)
        cids = [provider.put_json(unique_json(), name=f"{salt} {n}") for n in range(2)]
        check_pins(provider.list_pins(name=salt), cids, "by a part of the name")
        check_pins(provider.list_pins(name=f"{salt} 1"), cids[1:], "by the name")
        assert len(provider.list_pins(name=salt, limit=1)) == 1
        for cid in cids:
            provider.delete(cid)
        check_pins(provider.list_pins(name=salt), [], "after they were deleted")

    def test_pins_are_found_by_name_and_cid(self, provider: Any) -> None:
        require(as_provider(provider), "find_pins")
        salt = secrets.token_hex(8)
        cids = [provider.put_json(unique_json(), name=f"{salt} {n}") for n in range(2)]
        check_pins(find(provider, name=salt), cids, "by a part of the name")
        check_pins(find(provider, name=f"{salt} 1"), cids[1:], "by the name")
        check_pins(find(provider, cid=cids[0]), cids[:1], "by CID")
        assert len(find(provider, name=salt, limit=1)) == 1, "a limit of 1 was not kept"
        for cid in cids:
            provider.delete(cid)
        check_pins(find(provider, name=salt), [], "after they were deleted")

    def test_pins_are_found_by_key_values(self, provider: Any) -> None:
        require(as_provider(provider), "add", "find_pins")
        salt = secrets.token_hex(8)
        cids = []
        for number in "12":
            info = PinInfo(name=salt, keyvalues={"salt": salt, "number": number})
            with supported():
                cids.append((provider.put(Source.of_json(unique_json()), info)).cid)
        check_pins(find(provider, keyvalues={"salt": salt}), cids, "by a key-value")
        wanted = {"salt": salt, "number": "2"}
        check_pins(find(provider, keyvalues=wanted), cids[1:], "by two key-values")
        for cid in cids:
            provider.delete(cid)

    def test_pins_are_found_by_time(self, provider: Any) -> None:
        require(as_provider(provider), "find_pins")
        salt = secrets.token_hex(8)
        cids = [provider.put_json(unique_json(), name=f"{salt} {n}") for n in range(2)]
        times = [pin.created or 0 for pin in find(provider, name=salt)]
        first, last = min(times), max(times)
        with supported():
            check_pins(find(provider, name=salt, since=first), cids, "since the first")
        check_pins(find(provider, name=salt, until=last), cids, "until the last")
        check_pins(find(provider, name=salt, since=last + 1), [], "since later")
        check_pins(find(provider, name=salt, until=first - 1), [], "until earlier")
        for cid in cids:
            provider.delete(cid)

    def test_known_content_gets_the_name_that_is_given(self, provider: Any) -> None:
        require(as_provider(provider), "add", "find_pins")
        text = unique_json()
        cid = (provider.put(Source.of_json(text), PinInfo(name="first"))).cid
        added = provider.put(Source.of_json(text), PinInfo(name="second"))
        if not self.is_known(provider, cid, added.cid):
            pins = [*find(provider, cid=cid), *find(provider, cid=added.cid)]
            assert [pin.name for pin in pins] == ["first", "second"]
            return
        assert added.duplicate in {True, None}, "known content was added as new"
        (pin,) = find(provider, cid=cid)
        assert pin.name == "first", "nothing was given to change it"
        provider.put(Source.of_json(text), PinInfo(name="third", given=True))
        (pin,) = find(provider, cid=cid)
        assert pin.name == "third"
        provider.delete(cid)

    def test_known_content_gets_the_key_values_that_are_given(self, provider: Any) -> None:
        require(as_provider(provider), "add", "find_pins")
        text = unique_json()
        with supported():
            cid = (provider.put(Source.of_json(text), PinInfo(name="x", keyvalues={"a": "1"}))).cid
        added = provider.put(Source.of_json(text), PinInfo(name="y"))
        known = self.is_known(provider, cid, added.cid)
        (pin,) = find(provider, cid=cid)
        assert pin.keyvalues == {"a": "1"}, "nothing was given to change it"
        if not known:
            return
        provider.put(Source.of_json(text), PinInfo(name="z", keyvalues={"b": "2"}))
        (pin,) = find(provider, cid=cid)
        assert (pin.name, pin.keyvalues) == ("x", {"a": "1", "b": "2"})
        provider.delete(cid)

    def test_the_name_of_a_pin_can_be_changed(self, provider: Any) -> None:
        require(as_provider(provider), "find_pins", "update_pin")
        cid = provider.put_json(unique_json(), name="first")
        pin = provider.update_pin(cid, name="second", keyvalues=None)
        (found,) = find(provider, cid=cid)
        assert (pin.name, found.name) == ("second", "second")
        provider.delete(cid)
        with pytest.raises(NotFoundError):
            provider.update_pin(NOWHERE, name="x", keyvalues=None)

    def test_the_key_values_of_a_pin_can_be_changed(self, provider: Any) -> None:
        require(as_provider(provider), "add", "find_pins", "update_pin")
        info = PinInfo(name="first", keyvalues={"a": "1", "b": "2"}, given=True)
        with supported():
            cid = (provider.put(Source.of_json(unique_json()), info)).cid
        pin = provider.update_pin(cid, name=None, keyvalues={"a": None, "c": "3"})
        assert (pin.name, pin.keyvalues) == ("first", {"b": "2", "c": "3"})
        (found,) = find(provider, cid=cid)
        assert (found.name, found.keyvalues) == (pin.name, pin.keyvalues)
        provider.delete(cid)

    def test_what_is_there_can_be_pinned_by_its_cid(self, provider: Any) -> None:
        require(as_provider(provider), "pin")
        cid = provider.put_json(unique_json(), name="x")
        pin = provider.pin(cid, PinInfo(name="y", given=True))
        end = now() + self.patience
        while pin.state != "pinned":
            assert now() < end, f"the pin is still {pin.state}"
            sleep(0.1)
            pin = provider.check_pin(pin)
        check_pins([pin], [cid], "by its CID")
        provider.delete(cid)


def find(provider: Any, *, limit: int | None = None, **wanted: Any) -> Sequence[Pin]:
    """Return the pins that match the filters."""
    return [pin for pin in provider.find_pins(PinFilter(**wanted), limit=limit)]
