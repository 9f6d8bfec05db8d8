"""The examples in docstrings, run as a reader would type them.

Each docstring has an empty folder of its own with some photos, two connections, and an open
`client`. `await` works at the top level, as in ``python -m asyncio`` and in notebooks.
"""

import ast
import asyncio
import doctest
import inspect
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import holdfast
from holdfast.testing import running_node

SETTINGS = """\
[connections.archive]
provider = "kubo"
[connections.disk]
provider = "local"
"""


def failures_in(module, folder, patch):
    """How many examples of `module` did not do what they show; the report is printed."""
    runner = doctest.DocTestRunner()
    for number, test in enumerate(doctest.DocTestFinder().find(module)):
        if not test.examples:
            continue
        own = folder / str(number)
        (own / "photos").mkdir(parents=True)
        (own / "photos/kelp.png").write_bytes(b"\x89PNG...")
        patch.chdir(own)
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(own / name))
        settings = own / "XDG_CONFIG_HOME/holdfast/holdfast.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        patch.setattr(tempfile, "tempdir", str(own))
        with asyncio.Runner() as loop, names(test, module.__name__, loop) as namespace:
            patch.setattr(doctest, "exec", awaiting(loop), raising=False)
            test.globs.update(namespace)
            runner.run(test, compileflags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return runner.failures


def awaiting(loop):
    """An `exec` that runs on `loop` what awaits."""

    def execute(code, names):
        result = eval(code, names)  # noqa: S307 - what our docstrings say
        if inspect.iscoroutine(result):
            loop.run(result)

    return execute


@contextmanager
def names(test, module, loop):
    """The names that an example may use without making them."""
    namespace = {"AsyncClient": holdfast.AsyncClient, "Client": holdfast.Client}
    with ExitStack() as stack:
        if any("client." in example.source for example in test.examples):
            config = holdfast.ClientConfig(path=Path("client-store"))
            if "signed" in test.name:  # what only the service has
                config = stack.enter_context(running_node()).config.with_options(
                    provider="pinata", provider_options={"network": "private"}
                )
            if "_async" in module:
                client = loop.run(opened(config))
                stack.callback(lambda: loop.run(client.aclose()))
            else:
                client = stack.enter_context(holdfast.Client.init(config))
            namespace["client"] = client
        yield namespace


async def opened(config):
    return await holdfast.AsyncClient.init(config)
