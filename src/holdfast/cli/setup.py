"""What is configured, and where it came from."""

from typing import Any

from holdfast.cli.run import CONNECTED, Run, command, group

commands = group()


@command(commands, *CONNECTED)
def config(run: Run) -> None:
    """Show each setting, and where it came from."""
    from holdfast.cli.settings import Setting
    from holdfast.config import CHECKS, ClientConfig
    from holdfast.locations import cache_folder, data_folder

    default = {**ClientConfig().to_dict(), "cache_path": cache_folder()}
    if "path" not in run.settings:
        default["path"] = data_folder()
    shown = {
        name: run.settings.get(name, Setting(default[name], "default"))
        for name in CHECKS
        if name not in {"on_event", "ssl_context"}  # not for the command line
    }
    rows = [(name, _plain(name, each.value), each.source) for name, each in shown.items()]
    width = max(len(_text(value)) for _, value, _ in rows)
    run.emit(
        {name: {"value": value, "source": source} for name, value, source in rows},
        "\n".join(f"{name:<17} {_text(value):<{width}}  {source}" for name, value, source in rows),
    )
    run.config()  # what is wrong only together is said below the table


def _plain(name: str, value: Any) -> Any:
    """`value` as JSON has it; secrets, and what only one provider can judge, are masked."""
    from dataclasses import asdict, is_dataclass

    from holdfast.secret import MASK, Secret

    if isinstance(value, Secret) or (name == "provider_options" and value):
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
