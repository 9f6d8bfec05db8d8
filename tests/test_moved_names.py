"""Public names that moved to another module still come from the old one, with a warning."""

import importlib

import pytest

from holdfast import ClientConfig
from holdfast.calls import NEVER, Call, Deadline
from holdfast.content.unixfs import file_nodes, walks
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.errors import ConfigError

EVENTS = "holdfast.events"
WALKS = "holdfast.content.unixfs.walks"


@pytest.mark.parametrize(
    ("module", "name", "found"),
    [
        (EVENTS, "Call", Call),
        (EVENTS, "Deadline", Deadline),
        (EVENTS, "NEVER", NEVER),
        (WALKS, "Entry", DirectoryEntry),
        (WALKS, "MAX_DEPTH", file_nodes.MAX_DEPTH),
        (WALKS, "MAX_FILE", file_nodes.MAX_FILE),
        (WALKS, "check_codec", file_nodes.check_codec),
        (WALKS, "kind_of", file_nodes.kind_of),
        (WALKS, "not_a_file", file_nodes.not_a_file),
        (WALKS, "not_unixfs", file_nodes.not_unixfs),
    ],
)
def test_a_moved_name_warns_and_works(module, name, found):
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} is now holdfast") as caught:
        assert getattr(importlib.import_module(module), name) is found
    assert caught[0].filename == __file__


def test_an_import_of_a_moved_name_warns_where_it_is_written():
    with pytest.warns(DeprecationWarning, match=r"is now holdfast\.provider\.Call"):
        exec("from holdfast.events import Call", {})  # noqa: S102 - an import as a user writes it


@pytest.mark.parametrize("module", [EVENTS, WALKS])
def test_a_name_that_never_was_is_an_attribute_error(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'bogus'"):
        getattr(importlib.import_module(module), "bogus")  # noqa: B009


def test_the_nodes_of_files_are_found_beside_the_walks():
    assert (walks.file_node, walks.FileNode) == (file_nodes.file_node, file_nodes.FileNode)


def test_a_wrong_provider_is_told_the_one_on_this_machine_too():
    with pytest.raises(ConfigError, match="such as 'pinning' or 'local'"):
        ClientConfig(provider="")
