"""The table of configuration fields, and the declarations beside it that type checkers read."""

import inspect
import ssl
import typing
from collections.abc import Mapping
from dataclasses import fields
from types import UnionType

import pytest

from holdfast import AsyncClient, Client, ClientConfig
from holdfast.config import ConfigFields
from holdfast.config.fields import FIELDS, read_environment
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError

STORED = typing.get_type_hints(ClientConfig)
ACCEPTED = typing.get_type_hints(ConfigFields)
DEFAULTS = ClientConfig().to_dict()


def members(hint):
    """The types of which a value of type `hint` has one."""
    is_union = typing.get_origin(hint) in {typing.Union, UnionType}
    return set(typing.get_args(hint)) if is_union else {hint}


def test_the_fields_are_the_same_in_all_three_places():
    names = [field.name for field in fields(ClientConfig)]
    assert names == list(FIELDS) == list(ConfigFields.__annotations__)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_and_its_default_are_as_its_check_returns_them(name):
    assert typing.get_type_hints(FIELDS[name].check, localns={"ssl": ssl})["return"] == STORED[name]
    # What is stored can be given again: with_options does so.
    assert members(STORED[name]) <= members(ACCEPTED[name])
    assert FIELDS[name].check(name, DEFAULTS[name]) == DEFAULTS[name]


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.read])
def test_what_a_variable_gives_is_a_value_that_the_field_accepts(name):
    read = typing.get_type_hints(FIELDS[name].read)["return"]
    if typing.get_origin(read) is dict:
        assert Mapping[str, typing.Any] in members(ACCEPTED[name])
    else:
        assert read in members(ACCEPTED[name])


@pytest.mark.parametrize("name", FIELDS)
def test_secrets_are_marked_and_no_project_can_set_them_or_a_folder(name):
    field = FIELDS[name]
    assert field.secret == (Secret in members(STORED[name]) or name == "provider_options")
    assert field.secret or field.sent_to is None
    assert field.sent_to is None or field.sent_to in FIELDS
    # A connection has its own value of a secret, and of what decides where that is sent.
    assert field.sent_to is None or (field.endpoint and FIELDS[field.sent_to].endpoint)
    assert field.file != "project" or not (field.secret or field.is_folder)
    assert field.file != "none" or (field.read is None and field.option is None)


def test_a_secret_in_a_variable_comes_wrapped(monkeypatch):
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", "https://a.example, https://me:pass-word@b.example")
    monkeypatch.setenv("HOLDFAST_PROFILE", "x" * 100)
    values = read_environment(FIELDS)
    assert values["gateway_url"] == ("https://a.example", Secret("https://me:pass-word@b.example"))
    assert isinstance(values["gateway_url"][1], Secret)
    assert isinstance(values["profile"], Secret)


@pytest.mark.parametrize("before", ["", "Bearer ", " bearer\t "])
def test_a_token_may_be_copied_with_the_word_before_it(before):
    tokens = {"provider_token": f"{before}one\n", "gateway_token": f"{before}two"}
    with Client.init(provider="pinning", gateway_url="https://gw.example", **tokens) as client:
        assert (client.config.provider_token, client.config.gateway_token) == ("one", "two")


def test_the_word_bearer_alone_is_no_token():  # "Bearer $UNSET", for example
    with pytest.raises(ConfigError, match="provider_token is blank"):
        Client.init(provider="pinning", provider_token="bearer")


def test_help_of_the_class_explains_every_field():
    shown = " ".join(inspect.getdoc(ClientConfig).split())
    for name, field in FIELDS.items():
        assert f" {name}: {field.help}" in shown
        assert field.help.endswith(".")


@pytest.mark.parametrize("kind", [ClientConfig, Client, AsyncClient])
def test_every_method_that_takes_fields_wraps_their_secrets(kind):
    takes_fields = {
        name
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("__") or name == "__init__"
        if "ConfigFields" in str(inspect.signature(member))
    }
    assert takes_fields >= {"with_options"}
    for name in takes_fields:
        function = getattr(kind, name)
        if function.__code__.co_filename.endswith("opening.py"):  # it only makes the coroutine
            function = function.__wrapped__
        assert function.__code__.co_filename.endswith("config/fields.py")
