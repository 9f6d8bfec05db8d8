"""Reading with a reader alone, without a provider."""

from holdfast.calls import Call
from holdfast.records import Entry


async def list_entries(reader, reference, *, total=None, details=False):
    """The entries of a directory, all pages in one list."""
    pages = reader.pages(reference, details=details)
    entries = []
    while (page := await pages.next_page(Call("entries", total=total))) is not None:
        entries += page
    assert all(isinstance(entry, Entry) for entry in entries)
    return entries
