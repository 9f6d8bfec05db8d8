"""The documentation site: built strictly, complete, and without requests to anybody."""

import re
import sys
import tomllib
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from scripts.build_docs import typed_lines

import holdfast
import holdfast.content
import holdfast.providers
import holdfast.testing
from tests.browser import running_browser
from tests.commands import run_python

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
# What is only followed when somebody clicks, or by machines that look for pages.
HARMLESS = {"canonical", "prev", "next", "alternate"}


# The site is built once, which takes three seconds, and much longer on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("docs") / "site"
    result = run_python(ROOT / "scripts/build_docs.py", target)
    assert (result.returncode, result.stderr) == (0, "")
    return target


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "keep").write_text("mine")
    result = run_python(ROOT / "scripts/build_docs.py", tmp_path)
    assert (result.returncode, "holds something else" in result.stderr) == (1, True)
    assert (tmp_path / "keep").read_text() == "mine"


def test_every_page_can_be_reached_from_the_navigation(site):
    def pages(entries):
        for entry in entries:
            page = entry if isinstance(entry, str) else next(iter(entry.values()))
            yield from [page] if isinstance(page, str) else pages(page)

    listed = [*pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])]
    pages_on_disk = {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert sorted(listed) == sorted(pages_on_disk | ROOT_PAGES)
    for page in listed:
        assert (site / page).with_suffix(".html").exists()


def exported_names():
    yield from (f"holdfast.{name}" for name in holdfast.__all__)
    yield from (f"holdfast.content.{name}" for name in holdfast.content.__all__)
    yield from (f"holdfast.testing.{name}" for name in holdfast.testing.__all__)
    elsewhere = set(holdfast.providers.__all__) - set(holdfast.__all__)
    yield from (f"holdfast.providers.{name}" for name in elsewhere)
    for name, value in vars(holdfast.errors).items():
        if isinstance(value, type) and value.__module__ == "holdfast.errors":
            yield f"holdfast.errors.{name}"


def test_every_public_name_is_in_the_reference(site):
    text = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    anchors = set(re.findall(r'id="(holdfast[\w.]*)"', text))
    assert set(exported_names()) - anchors == set()


def test_each_class_of_the_client_has_a_page(site):
    for name, title in {
        "client": "Client",
        "async-client": "AsyncClient",
        "content-file": "ContentFile",
        "async-content-file": "AsyncContentFile",
    }.items():
        anchors = re.findall(r'id="(holdfast\.\w+)"', (site / f"reference/{name}.html").read_text())
        assert set(anchors) == {f"holdfast.{title}"}


def test_every_page_shows_the_version_and_all_sections(site):
    for path in (site / "index.html", site / "quick-start.html", site / "guides/files.html"):
        text = path.read_text()
        assert f"Holdfast {holdfast.__version__}</title>" in text
        navigation = text[text.index('class="md-sidebar md-sidebar--primary"') :]
        for page in ("guides/json.html", "reference/cli.html", "CHANGELOG.html"):
            assert re.search(rf'href="\.[^"]*{Path(page).name}"', navigation), page


def test_a_copied_session_is_what_one_types():
    console = "$ echo a \\\n    b\na b\n$ cat <<X\n> <&>\n> X\n<&>\n"
    assert typed_lines(console, "console") == "echo a \\\n    b\ncat <<X\n<&>\nX"
    session = ">>> for x in y:\n...     x\n...\n1\n>>> x\n"
    assert typed_lines(session, "pycon") == "for x in y:\n    x\n\nx"


@pytest.fixture(scope="module")
def tab(site):
    """A tab of a browser, and the address of the site."""
    handler = partial(QuietHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, running_browser() as browser:
        Thread(target=server.serve_forever).start()
        try:
            context = browser.new_context()
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            yield context.new_page(), f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_the_copy_button_copies_commands_without_prompts_and_output(tab):
    page, address = tab
    page.goto(f"{address}/quick-start.html")
    page.locator(".language-console", has_text="holdfast retrieve").locator("button").click()
    page.wait_for_function("navigator.clipboard.readText()")
    cid = "bafkreic3ve2yeilynkmoa3zhoqwwq6bajh7n4bq7mgmiaywcvlkm5sccma"
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == [
        """holdfast store '{"title":"Kelp","depth":12}'""",
        f"holdfast retrieve {cid}",
        f"holdfast retrieve {cid} --json",
    ]


# The results are in a shadow root; more of them come when one scrolls.
RESULTS = """() => {
    const host = [...document.querySelectorAll("*")].find((element) => element.shadowRoot);
    const links = host ? [...host.shadowRoot.querySelectorAll("a")] : [];
    return links.length > 2 && links.map((link) => new URL(link.href).pathname);
}"""


@pytest.mark.parametrize("word", ["encrypt", "retry", "gateway"])
def test_the_search_shows_guides_first_and_decisions_last(tab, word):
    page, address = tab
    page.goto(f"{address}/index.html")
    page.locator(".md-search__button").click()
    page.keyboard.type(word)
    paths = page.wait_for_function(RESULTS).json_value()
    ranks = [rank_of(path) for path in paths]
    assert ranks[0] == 0
    assert ranks == sorted(ranks)


def rank_of(path):
    folder = path.split("/")[1]
    first = {"index.html", "quick-start.html", "examples.html", "guides"}
    names = {"reference": 1, "platforms.html": 1, "decisions": 3}
    return 0 if folder in first else names.get(folder, 2)


class Loads(HTMLParser):
    """What a browser fetches for a page without being asked to."""

    def __init__(self):
        super().__init__()
        self.addresses = []
        self._in_style = False

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self._in_style = tag == "style"
        if tag == "link" and not set((attributes.get("rel") or "").split()) <= HARMLESS:
            self.addresses.append(attributes.get("href"))
        if tag == "object":
            self.addresses.append(attributes.get("data"))
        self.addresses += [
            attributes[name] for name in ("src", "srcset", "poster") if name in attributes
        ]
        self.addresses += addresses_in(attributes.get("style") or "")

    def handle_data(self, data):
        if self._in_style:
            self.addresses += addresses_in(data)


def addresses_in(style):
    """What a style sheet fetches."""
    pattern = r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)"""
    return [first or second for first, second in re.findall(pattern, style)]


def outside(addresses):
    return [url for url in addresses if re.match(r"(https?:)?//", (url or "").strip())]


def loads_of(path):
    text = path.read_text()
    if path.suffix == ".css":
        return addresses_in(text)
    loads = Loads()
    loads.feed(text)
    return loads.addresses


# What has the theme's own script load something: drawings, galleries, editors, a repository.
LOADING = re.compile(r'class="[^"]*(mermaid|glightbox|pyodide)|data-md-component="source"')


def test_the_site_loads_nothing_from_elsewhere(site):
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    loaded = {path: loads_of(path) for path in files}
    assert all(any(addresses) for path, addresses in loaded.items() if path.suffix == ".html")
    assert {path: bad for path, addresses in loaded.items() if (bad := outside(addresses))} == {}
    assert [path for path in site.rglob("*.html") if LOADING.search(path.read_text())] == []


def test_a_load_from_elsewhere_would_be_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("""
        <a href="https://fine.example">x</a><link rel="canonical" href="https://x.example">
        <script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/x">
        <link rel="preconnect" href="https://c.example"><img srcset="https://d.example/x.png 2x">
        <p style="background: url(https://e.example)"><style>@import "https://f.example";</style>
    """)
    assert re.findall(r"//(\w)\.", " ".join(outside(loads_of(page)))) == [*"abcdef"]


def test_nothing_names_the_place_where_it_was_built(site):
    for path in site.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert str(ROOT).encode() not in content, path
            assert sys.prefix.encode() not in content, path


BROKEN = {
    "index.md": ["[a link](nowhere.md)", "[an anchor](quick-start.md#not-there)"],
    "quick-start.md": ["# A page that is there"],
    "reference/cids.md": ["::: holdfast.nothing"],
}


def test_a_broken_link_fails_the_build(tmp_path):
    """In a small site of our settings. Every warning alone fails the build."""
    for name in ("scripts/build_docs.py", *ROOT_PAGES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    settings, count = re.subn(
        r"(?ms)^nav = \[$.*?^\]$", f"nav = {[*BROKEN]}", (ROOT / "zensical.toml").read_text()
    )
    assert count == 1
    (tmp_path / "zensical.toml").write_text(settings)
    (tmp_path / "src").symlink_to(ROOT / "src")
    for page, lines in BROKEN.items():
        path = tmp_path / "docs" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(lines) + "\n")
    result = run_python(tmp_path / "scripts/build_docs.py")
    assert result.returncode == 1
    assert not (tmp_path / "site").exists()
    messages = re.sub(r"\x1b\[[0-9;]*m", "", result.stderr)
    assert "Warning: page does not exist" in messages
    assert "Warning: anchor does not exist" in messages
    assert "PluginError: Could not collect 'holdfast.nothing'" in messages
