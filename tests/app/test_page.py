"""Whole visits to the page, in a real browser, on a desk and on a phone."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from photos import photo, write_photos
from unicorn_maml import FewShotClassifier

pytest.importorskip("gradio")
httpx = pytest.importorskip("httpx")
sync_api = pytest.importorskip("playwright.sync_api")
sync_api.expect.set_options(timeout=30_000)
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium")

DESK, PHONE = (1280, 900), (390, 844)

# Runs at the start of the server's Python and notes every address that is not this machine's.
WATCH = """
import sys

def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        host = arguments[1][0] if event == "socket.connect" else arguments[0]
        if host not in ("127.0.0.1", "localhost", "::1", None):
            with open({file!r}, "a") as file:
                print(event, host, file=file)

sys.addaudithook(note)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page of a server of its own, which leaves nothing behind and calls nobody."""
    folder = tmp_path_factory.mktemp("server")
    temporary, calls = folder / "temporary", folder / "calls"
    temporary.mkdir()
    (folder / "sitecustomize.py").write_text(WATCH.format(file=str(calls)))
    words = "app --port 0 --model miniimagenet-convnet4-pretrained --device cpu"
    server = subprocess.Popen(
        [sys.executable, "-c", "from unicorn_maml.cli.main import main; main()", *words.split()],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(folder)},
    )
    try:
        first_line = server.stdout.readline()
        yield re.search(r"http://127\.0\.0\.1:\d+", first_line)[0]
        assert list(temporary.iterdir())  # so that it means something that it is empty at the end
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()
        server.wait()
    assert not list(temporary.iterdir())
    assert not calls.exists(), calls.read_text()


class Visit:
    """A tab of the browser in which a person would do things."""

    def __init__(self, browser, address, size):
        width, height = size
        self.width = width
        self.tab = browser.new_page(viewport={"width": width, "height": height})
        self.trouble = []
        self.tab.on("console", self._note_console)
        self.tab.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.tab.on("request", lambda request: self._note_request(request.url, address))
        self.tab.goto(address)
        self.sees("Classify your own photos")

    def _note_console(self, message):
        if message.type == "error":
            self.trouble.append(message.text)

    def _note_request(self, url, address):
        if not url.startswith((f"{address}/", "data:", "blob:")):
            self.trouble.append(f"outside request: {url}")

    def sees(self, text):
        self.tab.get_by_text(text).first.wait_for(timeout=30_000)

    def presses(self, name):
        self.tab.get_by_role("button", name=name, exact=True).click()

    def field(self, label):
        return self.tab.locator(".photo-field", has=self.tab.get_by_text(label, exact=True))

    def adds(self, label, photos, *, kept=None):
        field = self.field(label)
        field.locator("input[type=file]").set_input_files(photos)
        thumbnails = field.locator(".thumbnail-item")
        sync_api.expect(thumbnails).to_have_count(len(photos) if kept is None else kept)

    def names(self, number, name):
        self.tab.get_by_label(f"Class {number}", exact=True).fill(name)

    def ends(self):
        assert self.trouble == []
        assert self.tab.evaluate("document.documentElement.scrollWidth") <= self.width


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            args=[
                "--no-sandbox",
                "--use-fake-device-for-media-stream",
                "--use-fake-ui-for-media-stream",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    visits = []

    def begin(size=DESK) -> Visit:
        visits.append(Visit(browser, address, size))
        return visits[-1]

    yield begin
    for each in visits:
        each.tab.close()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_whole_visit_from_the_empty_page_to_a_classifier_in_hand(visit, size, tmp_path):
    folder = write_photos(tmp_path / "photos", 3)
    person = visit(size)
    person.presses("Add a class")
    for number, colour in enumerate(("red", "green", "blue"), 1):
        person.names(number, colour)
        person.adds(f"Photos of class {number}", [folder / colour / f"{n}.jpg" for n in (0, 1)])
    person.presses("Adapt")
    person.sees("adapted to 6 photos of 3 classes in 100 inner steps; all of them are right.")
    person.tab.locator(".vega-embed").wait_for()  # the curve
    query = folder / "green" / "2.jpg"
    person.adds("Photos to classify", [query])
    person.sees("Nearest support photo: green")
    shown = person.tab.get_by_test_id("label-output-value").inner_text()
    assert shown.strip() == "green"
    with person.tab.expect_download() as download:
        person.presses("Download the classifier")
    assert download.value.suggested_filename == "my-classifier.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(tmp_path)
    classifier = FewShotClassifier.load(tmp_path / "my-classifier", device="cpu")
    assert classifier.predict([query]).tolist() == ["green"]
    person.ends()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_one_click_shows_it_all_on_the_example(visit, size):
    person = visit(size)
    person.presses("Try the example")
    for kind in ("leaf", "flower", "mushroom"):
        person.sees(f"Nearest support photo: {kind}")
    person.ends()


def test_a_photo_of_the_camera_counts_and_a_class_can_be_removed(visit, tmp_path):
    folder = write_photos(tmp_path / "photos", 1)
    person = visit(PHONE)
    person.names(1, "red")
    person.adds("Photos of class 1", [folder / "red" / "0.jpg"])
    person.names(2, "camera")
    field = person.field("Photos of class 2")
    field.get_by_label("Capture from camera").click()
    field.get_by_text("Click to Access Webcam").click()
    picture = field.locator("video").element_handle()
    person.tab.wait_for_function("video => video.readyState == 4", arg=picture)
    field.get_by_label("capture photo").click()
    sync_api.expect(field.locator(".thumbnail-item")).to_have_count(1)
    person.presses("Adapt")
    person.sees("adapted to 2 photos of 2 classes")
    person.tab.get_by_role("button", name="Remove this class").first.click()
    sync_api.expect(person.tab.get_by_label("Class 1", exact=True)).to_have_value("camera")
    person.ends()


def test_what_cannot_be_used_is_answered_with_a_sentence(visit, tmp_path):
    person = visit()
    person.presses("Adapt")
    person.sees("Give photos of two or more classes, or try the example.")
    (tmp_path / "text.jpg").write_text("milk")
    photo("red", 0).save(tmp_path / "good.jpg")
    person.adds("Photos of class 1", [tmp_path / "good.jpg", tmp_path / "text.jpg"], kept=1)
    person.sees("text.jpg cannot be decoded")
    person.names(1, "one")
    person.names(2, "two")
    person.adds("Photos of class 2", [tmp_path / "good.jpg"])
    person.presses("Adapt")
    person.sees("The same photo is in two classes (photos 0 and 1: good.jpg and good.jpg)")
    sync_api.expect(person.tab.get_by_text("Adapting ...")).to_have_count(0)
    many = [tmp_path / f"{number}.png" for number in range(51)]
    for number, path in enumerate(many):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    person.adds("Photos to classify", many[:21], kept=20)
    person.sees("At most 20 photos are taken here")
    person.presses("Add a class")
    person.adds("Photos of class 3", many, kept=50)
    person.sees("At most 50 photos are taken here")
    (tmp_path / "large.jpg").write_bytes(bytes((20 << 20) + 1))
    person.presses("Add a class")
    field = person.field("Photos of class 4")
    field.locator("input[type=file]").set_input_files(tmp_path / "large.jpg")
    person.sees('exceed the maximum allowed size of 20.0 Mb: "large.jpg"')


def test_the_server_itself_refuses_large_files_and_files_of_its_machine(address, tmp_path):
    """Whoever speaks to it without the page gets no further."""
    large = bytes((20 << 20) + 1)
    with httpx.Client(base_url=f"{address}/gradio_api", trust_env=False, timeout=60) as client:
        assert client.post("/upload", files={"files": ("a.jpg", large)}).status_code == 413
        secret = tmp_path / "secret.jpg"
        photo("red", 0).save(secret)
        assert client.get(f"/file={secret}").status_code == 403
        config = httpx.get(f"{address}/config", trust_env=False, timeout=60).json()
        takes_photos = next(
            each["id"]
            for each in config["dependencies"]
            if len(each["inputs"]) == 1 and each["inputs"] == each["outputs"]
        )
        for number, path in enumerate([str(secret), "http://192.0.2.1/a.jpg"] * 2):
            meta = {"meta": {"_type": "gradio.FileData"}} if number < 2 else {}
            value = [{"image": {"path": path, **meta}, "caption": None}]
            call = {"data": [value], "fn_index": takes_photos, "session_hash": f"tab{number}"}
            assert client.post("/queue/join", json=call).status_code == 200
            with client.stream("GET", f"/queue/data?session_hash=tab{number}") as answer:
                last = next(line for line in answer.iter_lines() if "process_completed" in line)
            assert json.loads(last.removeprefix("data: "))["success"] is False
