"""The command ``config``: each setting, and where it came from."""

from typing import Any, Final

from holdfast.cli.change_config import config_commands
from holdfast.cli.options import CONNECTED
from holdfast.cli.run import Run, command, group
from holdfast.config.layers import USE, Setting
from holdfast.errors import ConfigError
from holdfast.hints import advise

commands: Final = group()
commands.add_typer(config_commands, name="config")
WRONG = "(wrong)"


@command(config_commands, *CONNECTED, is_group=True)
def config(run: Run) -> None:
    """Show each setting and where it came from; change yours."""
    from holdfast.config import ClientConfig
    from holdfast.config.fields import FIELDS
    from holdfast.config.locations import cache_folder, data_folder
    from holdfast.registry import BUILT_IN, DEFAULT, usual_gateways

    default = {**ClientConfig().to_dict(), "cache_path": cache_folder()}
    provider = run.settings["provider"].value if "provider" in run.settings else DEFAULT
    if provider in BUILT_IN:
        default["gateway_url"] = usual_gateways(provider) or None
        default["pin_api_url"] = BUILT_IN[provider].api_url
    if "path" not in run.settings:
        default["path"] = data_folder()
    fields = [name for name, field in FIELDS.items() if field.file != "none"]
    names = [*([USE] if USE in run.settings else []), *fields, *run.settings]
    shown = {
        name: run.settings[name] if name in run.settings else Setting(default[name], "default")
        for name in names
    }
    rows = {name: _plain(name, each.value) for name, each in shown.items()}
    texts = {name: WRONG if shown[name].error else _text(value) for name, value in rows.items()}
    first, second = max(map(len, texts)), max(map(len, texts.values()))
    run.emit(
        {
            name: {
                "value": rows[name],
                "source": each.source,
                **({"error": each.error} if each.error else {}),
            }
            for name, each in shown.items()
        },
        *(
            f"{name:<{first}}  {texts[name]:<{second}}  {each.source}"
            for name, each in shown.items()
        ),
    )
    try:
        run.config()  # the errors are written below the table
    except ConfigError as error:
        raise advise(error, "change it in the place that the table names") from None


def _plain(name: str, value: Any) -> Any:
    """Return `value` in a form that JSON can hold, masked if it is secret."""
    from dataclasses import asdict, is_dataclass

    from holdfast.config.fields import FIELDS
    from holdfast.config.secret import MASK

    if name in FIELDS and FIELDS[name].secret and value:
        return MASK
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if value is None or isinstance(value, bool | int | float | dict):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_text(each)}" for key, each in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)
