"""The viewer of the page in a real browser: each kind of content, folders, previous and next."""

import pytest
from playwright.sync_api import expect

from tests.browser import PNG
from tests.page.conftest import tone

pytestmark = pytest.mark.slow


@pytest.fixture
def look(visit, client):
    """Uploads content and opens it; gives what is shown."""

    def look(content, name):
        client.upload(content, name=name)
        tab = visit.open()
        tab.get_by_role("button", name=name, exact=True).click()
        return tab.locator("#content")

    return look


# JSON


def test_json_has_colours_and_folds(look):
    text = '{"name":"a","list":[1.50,true,{"deep":null}],"none":{},"text":"x:[1]"}'
    content = look(text.encode(), "a.json")
    indented = content.locator("pre")
    expect(indented).to_have_text(
        '{ "name": "a", "list": [ 1.50, true, { "deep": null } ], "none": {}, "text": "x:[1]" }'
    )
    colours = {
        kind: content.locator(f".{kind}").first.evaluate("part => getComputedStyle(part).color")
        for kind in ("key", "string", "number", "word")
    }
    assert len(set(colours.values())) == 4
    assert content.locator(".number").all_inner_texts() == ["1.50"]
    folds = content.get_by_role("button", expanded=True)
    labels = [fold.get_attribute("aria-label") for fold in folds.all()]
    assert labels == ["4 members", "3 items", "1 member"]
    content.get_by_role("button", name="3 items").click()
    expect(content.get_by_text("true")).to_be_hidden()
    assert indented.inner_text() == (
        '{\n  "name": "a",\n  "list": […],\n  "none": {},\n  "text": "x:[1]"\n}'
    )
    content.get_by_role("button", name="3 items").press("Enter")
    expect(content.get_by_text("true")).to_be_visible()
    content.get_by_role("button", name="Show source").click()
    expect(content.locator("pre")).to_have_text(text)
    content.get_by_role("button", name="Show rendered").click()
    expect(content.locator("pre.json")).to_be_visible()


def test_large_json_is_indented_without_colours(look):
    content = look(b"[" + b"1," * 30_000 + b"2]", "large.json")
    expect(content.locator("pre")).to_be_visible()
    assert content.locator("pre").evaluate("part => part.textContent").startswith("[\n  1,\n")
    expect(content.locator(".number")).to_have_count(0)


# Markdown

MARKDOWN = """# Title <script>document.title = 'owned'</script>

Some *em*, **strong**, ~~gone~~, `co<b>de`, \\*plain\\* and snake_case_name.
Second line with [a link](https://example.com/x), [mail](mailto:a@example.com),
[bad](javascript:alert(1)), [data](data:text/html,x), [page](/#token=x) and <https://example.com/y>.

![pinned](picture.png) ![elsewhere](https://example.com/x.png)

- one
- two
  1. inner
  2. second

> quoted
> text

```python
print("<b>")
```

| a | b |
|---|---|
| 1 | **2** |

---
<img src=x onerror="document.title='owned'">
"""


def test_markdown_is_rendered_safely(visit, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "readme.md").write_text(MARKDOWN)
    (folder / "picture.png").write_bytes(PNG)
    tab = visit.open()
    tab.set_input_files("#folder", folder)
    tab.get_by_role("button", name="notes", exact=True).click()
    content = tab.locator("#content")
    content.get_by_role("button", name="readme.md").click()
    article = content.locator("article")
    expect(article.get_by_role("heading", level=3)).to_have_text(
        "Title <script>document.title = 'owned'</script>"
    )
    for tag, text in {"em": "em", "strong": "strong", "del": "gone", "code": "co<b>de"}.items():
        expect(article.locator(tag).first).to_have_text(text)
    expect(article).to_contain_text("*plain* and snake_case_name")
    links = {link.inner_text(): link.get_attribute("href") for link in article.locator("a").all()}
    assert links == {
        "a link": "https://example.com/x",
        "mail": "mailto:a@example.com",
        "https://example.com/y": "https://example.com/y",
        "elsewhere": "https://example.com/x.png",  # an image that is not loaded
    }
    for link in article.locator("a").all():
        assert link.get_attribute("rel") == "noopener noreferrer"
    image = article.get_by_role("img", name="pinned")
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth }") == 1
    expect(article.locator("ul > li").nth(1).locator("ol > li")).to_have_text(["inner", "second"])
    expect(article.locator("blockquote")).to_have_text("quoted text")
    expect(article.locator("pre code")).to_have_text('print("<b>")')
    expect(article.locator("td")).to_have_text(["1", "2"])
    expect(article.locator("hr")).to_have_count(1)
    expect(article).to_contain_text("<img src=x onerror=")
    expect(article.locator("img")).to_have_count(1)
    assert tab.title() == "readme.md - Holdfast"
    assert {request.url.split("/")[2] for request in visit.requests} == {visit.node.api_url[7:]}
    content.get_by_role("button", name="Show source").click()
    assert content.locator("pre").evaluate("part => part.textContent") == MARKDOWN


@pytest.mark.parametrize(
    "text",
    [
        "*" * 250_000,
        "**a " * 60_000,
        "[" * 250_000,
        "`" * 250_000,
        "_a" * 120_000,
        "![](" * 60_000,
        "> " * 120_000,
        "- " * 120_000,
        "# " + " " * 250_000 + "x",
        "a|b\n" + " " * 250_000 + "x",
        ("- a\n" * 60_000),
        "\n".join("  " * depth + "- a" for depth in range(500)),
        ("**bold** " * 1000 + "\n\n") * 25,
    ],
    ids=range(13),
)
def test_no_markdown_takes_long(visit, text):
    milliseconds = visit.open().evaluate(
        """async (text) => {
            const { markdownView } = await import("/page/markdown.js");
            const start = performance.now();
            const [article] = markdownView(text, "/ipfs/x");
            document.body.append(article);
            article.getBoundingClientRect(); // it is laid out, too
            return performance.now() - start;
        }""",
        text,
    )
    # One second; more on a busy machine, and minutes if patterns backtrack.
    assert milliseconds < 15_000


# Tables


def test_csv_is_a_table(look, visit):
    quoted = 'name,"a, b",\n"say ""hi""",2,"two\nlines"\r\n<b>x</b>,"open'
    for name, text, cells in (
        ("quoted.csv", quoted, ['say "hi"', "2", "two lines", "<b>x</b>", "open", ""]),
        ("semicolons.csv", "\ufeffa;b\n1,5;2\n", ["1,5", "2"]),
        ("tabs.csv", "a\tb\n1, 2\t3\n", ["1, 2", "3"]),
        ("commas.csv", "a,b\n\n1,2\n\n", ["1", "2"]),
    ):
        content = look(text.encode(), name)
        expect(content.locator("tbody td")).to_have_text(cells)
        if name == "quoted.csv":
            expect(content.get_by_role("columnheader")).to_have_text(["name", "a, b", ""])
            expect(content.locator("tbody tr")).to_have_count(2)
        visit.tab.keyboard.press("Escape")


def test_long_and_plain_tables(look, visit, client):
    content = look(b"a,b\n" + b"1,2\n" * 5000, "long.csv")
    expect(content.locator("tbody tr")).to_have_count(1000)
    expect(content.locator(".note")).to_have_text("Only the first 1,000 rows are shown.")
    visit.tab.keyboard.press("Escape")
    client.upload(b"no columns\nat all\n", name="plain.csv")
    visit.tab.get_by_role("button", name="plain.csv", exact=True).click()
    expect(content.locator("pre")).to_have_text("no columns at all")


# Sound, video and the rest


SEEK = """async (player) => {
    if (player.readyState < 1)
        await new Promise((done) => player.addEventListener("loadedmetadata", done));
    const end = player.seekable.end(player.seekable.length - 1);
    player.currentTime = end * 0.9;
    await new Promise((done) => player.addEventListener("seeked", done));
    return [end, player.currentTime];
}"""


@pytest.mark.parametrize(("name", "tag"), [("long.wav", "audio"), ("film.webm", "video")])
def test_sound_and_video_are_played_from_anywhere(look, name, tag):
    """What is played in the video is the sound, too: browsers look at the bytes."""
    player = look(tone(120), name).locator(tag)
    expect(player).to_be_visible()
    end, now = player.evaluate(SEEK)
    assert end == pytest.approx(120, abs=0.1)
    assert now == pytest.approx(108, abs=0.5)
    player.evaluate("player => { player.muted = true; return player.play() }")
    assert player.evaluate("player => !player.paused")


def test_a_pdf_is_named_and_downloaded(look, visit):
    content = look(b"%PDF-1.7\n" + bytes(5000), "paper.pdf")
    expect(content.locator("use")).to_have_attribute("href", "#i-pdf")
    expect(content).to_contain_text("PDF document")
    with visit.tab.expect_download() as download:
        content.get_by_role("link", name="Download the PDF").click()
    assert download.value.suggested_filename == "paper.pdf"
    assert download.value.path().read_bytes().startswith(b"%PDF-1.7")


# Neighbours and folders


def test_previous_and_next(visit, client):
    for name in ("ant.txt", "bee.txt", "cat.txt"):
        client.upload(name.encode(), name=name, keyvalues={"kind": "animal"})
    tab = visit.open()
    tab.get_by_role("button", name="cat.txt", exact=True).click()
    title, position = tab.locator("#preview-title"), tab.locator("#position")
    expect(position).to_have_text("1 of 3")
    expect(tab.get_by_role("button", name="Previous")).to_be_disabled()
    tab.get_by_role("button", name="Next").click()
    expect(title).to_have_text("bee.txt")
    expect(tab.locator("#content pre")).to_have_text("bee.txt")
    expect(tab.locator("#facts")).to_contain_text("animal")
    tab.keyboard.press("ArrowRight")
    expect(title).to_have_text("ant.txt")
    expect(tab.get_by_role("button", name="Next")).to_be_disabled()
    tab.keyboard.press("ArrowRight")
    expect(title).to_have_text("ant.txt")
    tab.keyboard.press("ArrowLeft")
    expect(title).to_have_text("bee.txt")
    tab.keyboard.press("Escape")
    expect(visit.row("cat.txt").get_by_role("button", name="cat.txt", exact=True)).to_be_focused()


def test_previous_and_next_go_through_all_pages(visit, client):
    for number in range(101):
        client.upload(str(number).encode(), name=f"{number}.txt")
    tab = visit.open()
    tab.get_by_role("button", name="51.txt", exact=True).click()
    title, position = tab.locator("#preview-title"), tab.locator("#position")
    expect(position).to_have_text("50 of 101")
    for key, name, number in (
        ("ArrowRight", "50.txt", 51),
        ("ArrowLeft", "51.txt", 50),
        ("ArrowRight", "50.txt", 51),
        ("ArrowRight", "49.txt", 52),
    ):
        tab.keyboard.press(key)
        expect(title).to_have_text(name)
        expect(position).to_have_text(f"{number} of 101")
    tab.keyboard.press("Escape")
    expect(tab.locator("#where")).to_have_text("51 to 100 of 101")
    expect(tab.get_by_role("button", name="49.txt", exact=True)).to_be_visible()
    tab.get_by_role("button", name="Last").click()
    tab.get_by_role("button", name="0.txt", exact=True).click()
    expect(position).to_have_text("101 of 101")
    expect(tab.locator("#after")).to_be_disabled()


def test_a_folder_is_browsed_in_place_with_thumbnails(visit, tmp_path):
    folder = tmp_path / "album"
    (folder / "in%2Fner").mkdir(parents=True)
    (folder / "in%2Fner" / "deep #1?.txt").write_text("deep")
    (folder / "a.png").write_bytes(PNG)
    (folder / "b.json").write_text("[1]")
    tab = visit.open()
    tab.set_input_files("#folder", folder)
    tab.get_by_role("button", name="album", exact=True).click()
    tiles = tab.locator("#content .entry")
    expect(tiles).to_have_count(3)
    image = tiles.first.locator("img")
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth }") == 1
    tiles.first.click()
    expect(tab.locator("#content > img")).to_be_visible()
    expect(tab.locator("#position")).to_have_text("1 of 3")
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#content pre")).to_have_text("[ 1 ]")
    tab.keyboard.press("ArrowRight")
    expect(tiles).to_have_count(1)
    tiles.first.click()
    expect(tab.locator("#crumbs")).to_have_text("album / in%2Fner / deep #1?.txt")
    expect(tab.locator("#content pre")).to_have_text("deep")
    tab.locator("#crumbs").get_by_role("button", name="in%2Fner").click()
    expect(tiles).to_have_count(1)
    tab.locator("#crumbs").get_by_role("button", name="album").click()
    expect(tiles).to_have_count(3)
    assert visit.complaints == []


def test_a_large_folder_is_shown_in_parts(visit, client, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1200):
        (folder / f"{number:04}.txt").write_text(str(number))
    client.upload(folder)
    tab = visit.open()
    tab.get_by_role("button", name="many", exact=True).click()
    tiles = tab.locator("#content .entry")
    expect(tiles).to_have_count(500)
    tab.get_by_role("button", name="Show more").click()
    expect(tiles).to_have_count(1000)
    expect(tiles.nth(500)).to_be_focused()
    tab.get_by_role("button", name="Show more").press("Enter")  # the list moves under a mouse
    expect(tiles).to_have_count(1200)
    expect(tab.get_by_role("button", name="Show more")).to_be_hidden()
