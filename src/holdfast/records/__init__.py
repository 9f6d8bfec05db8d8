"""The values that go in and out of clients and providers: records, messages, options and pins.

All are frozen. ``to_dict`` and ``from_dict`` use the spec's camelCase names.
"""

from holdfast.records.copies import Copied, CopyMethod
from holdfast.records.entries import Entry, EntryKind
from holdfast.records.outcomes import Outcome
from holdfast.records.pins import (
    Added,
    Pin,
    PinFilter,
    PinInfo,
    PinState,
    merged_keyvalues,
    same_value,
    value_text,
)
from holdfast.records.written import ClientMessage, ClientRecord, StoreOptions, now_ms

__all__ = [
    "Added",
    "ClientMessage",
    "ClientRecord",
    "Copied",
    "CopyMethod",
    "Entry",
    "EntryKind",
    "Outcome",
    "Pin",
    "PinFilter",
    "PinInfo",
    "PinState",
    "StoreOptions",
    "merged_keyvalues",
    "now_ms",
    "same_value",
    "value_text",
]
