"""The command ``cache``: what the cache folder holds, and how it is cleared."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import output
from holdfast.cli.options import cache_options
from holdfast.cli.run import Run, command, group
from holdfast.errors import ConfigError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast.disk.block_cache import Amount

commands: Final = group()


@command(commands, cache_options)
def cache(
    run: Run,
    *,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the blocks and the interrupted downloads.")
    ] = False,
) -> None:
    """Show or clear the cache folder.

    It has verified blocks (see --cache-bytes), and the verified parts of interrupted downloads.
    """
    from holdfast.config.locations import cache_folder
    from holdfast.disk.block_cache import cache_content

    config = run.config()
    given = cache_folder() if config.cache_path is None else config.cache_path
    if given is None:
        raise advise(
            ConfigError("this user has no home directory for a cache"),
            "name a folder with --cache-path",
        )
    folder = Path(given)
    content = cache_content(folder, clear=clear)
    limit = config.cache_bytes
    room = f"of {output.size_text(limit)}" if limit else "(cache_bytes is 0: none are added)"
    verb = "removed " if clear else ""
    run.emit(
        {
            "folder": str(folder),
            "cleared": clear,
            "limit": limit,
            "blocks": content.blocks._asdict(),
            "downloads": content.downloads._asdict(),
        },
        str(folder),
        f"{verb}blocks: {_text(content.blocks)}{'' if clear else f' {room}'}",
        f"{verb}interrupted downloads: {_text(content.downloads)}",
    )


def _text(amount: "Amount") -> str:
    return f"{output.count_text(amount.files, 'file')}, {output.size_text(amount.size)}"
