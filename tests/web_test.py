#!/usr/bin/env python3
"""Every kind of page in a browser: clicks, keys, and its numbers against the JSON they come from.

usage: web_test.py TOST [unittest arguments]; needs Debian's chromium and Playwright (make test-web prepares it). Without
them it says so and ends with 77, which ctest reads as skipped.
"""
import base64
import functools
import http.client
import http.server
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium")
TOST = ""
TEXT = "The king was in the garden, and the queen was in the hall.\nHe said to her that the war was over.\n"


def other_python():
    """The environment of make test-web, where this Python has no Playwright."""
    python = ROOT / "build/web/env/bin/python"
    if importlib.util.find_spec("playwright") is None and python.exists() and os.environ.get("TOST_WEB_PYTHON") is None:
        os.environ["TOST_WEB_PYTHON"] = str(python)
        os.execv(python, [str(python), *sys.argv])


def run(*args):
    done = subprocess.run([TOST, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(text):
    """A number as a page writes it: −0.12, 1,234, 99.5 %, 1 − 2.3e-6."""
    text = text.replace("1 − ", "1-").replace("−", "-").replace(",", "")
    if text.startswith("1-"):
        return 1 - float(text[2:])
    return float(text[:-2]) / 100 if text.endswith(" %") else float(text)


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from playwright.sync_api import sync_playwright
        cls.play = sync_playwright().start()
        cls.browser = cls.play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.dir = pathlib.Path(tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.play.stop()
        shutil.rmtree(cls.dir)

    def open(self, address, width=1280, scheme="light", allowed=("data:", "blob:"), quiet=("-",)):
        """A page whose console must stay empty and which may ask for nothing but itself."""
        page = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        page.set_default_timeout(300_000)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        self.addCleanup(lambda: self.assertEqual([text for text in said if not text.startswith(quiet)], []))
        self.addCleanup(lambda: self.assertEqual([url for url in asked if not url.startswith((address, *allowed))], []))
        self.addCleanup(page.close)
        page.goto(address)
        return page

    def until(self, page, condition):
        """Asks again and again: the pages' policy forbids what Playwright's own waiting evaluates."""
        for _ in range(3000):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(100)
        self.fail(condition)

    def near(self, text, value, digits=2):
        self.assertLessEqual(abs(number(text) - value), 0.6 * 10 ** -digits * max(1, abs(value)), text)

    def fits(self, page, width):
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)

    def cells(self, page, table):
        return [[cell.inner_text() for cell in row.query_selector_all("td")] for row in page.query_selector_all(f"#{table} tbody tr")]


class Vision(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("explain", "shapes", "--data", "shapes", "--samples", "6", "--bound", "--out", cls.dir / "r", "--quiet")
        cls.report = json.loads((cls.dir / "r/report.json").read_text())
        cls.address = (cls.dir / "r/index.html").as_uri()

    def test_every_section_light_dark_wide_and_narrow(self):
        for width, scheme in ((1280, "light"), (360, "dark")):
            page = self.open(self.address, width, scheme)
            page.wait_for_selector("#bound")
            ids = page.eval_on_selector_all("main > section", "all => all.map(one => one.id)")
            self.assertEqual(ids, ["model", "pictures", "entropy", "compression", "correlations", "spectra", "norms", "segmentation", "bound"])
            self.assertEqual(page.title(), "Inside " + self.report["model"])
            self.fits(page, width)
            for heading in page.query_selector_all("main > section"):
                self.assertEqual(page.inner_text("#" + heading.get_attribute("aria-labelledby")), heading.query_selector("h2").inner_text())
            self.assertNotRegex(page.inner_text("main"), r"\b(NaN|Infinity|undefined|null|\[object)")
            page.emulate_media(media="print")
            self.fits(page, width)

    def test_patches_layers_and_heads(self):
        page, picture = self.open(self.address), self.report["pictures"][0]
        rows, columns = picture["rows"], picture["columns"]
        canvas = page.locator("#pictures .big canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()

        def check(layer, y, x):
            said, of = page.inner_text("#pictures .readout"), picture["layers"][layer - 1]
            likely = int(of["likeliest_head"][y][x])
            found = re.match(r"Patch in row (\d+), column (\d+), layer (\d+): most likely head (\d+) \((\S+)\), entropy (.+), norm (\S+)\.", said)
            self.assertEqual([int(found[i]) for i in range(1, 5)], [y + 1, x + 1, layer, likely])
            self.near(found[5], of["memberships"][likely - 1][y][x], 4)
            self.near(found[6], of["entropy"][y][x], 3)
            self.near(found[7], of["norms"][y][x], 3)
            bars = page.query_selector_all("#pictures .inspect > div:last-child .bars li > :last-child")
            self.assertEqual(len(bars), len(of["memberships"]))
            for bar, grid in zip(bars, of["memberships"]):
                self.near(bar.inner_text(), grid[y][x], 4)
            lines = page.query_selector_all("#pictures .shaded tbody tr")
            self.assertEqual(len(lines), len(picture["layers"]))
            for line, at in zip(lines, picture["layers"]):
                for cell, grid in zip(line.query_selector_all("td"), at["memberships"]):
                    self.near(cell.inner_text(), grid[y][x], 2)

        last = len(picture["layers"])
        page.mouse.move(box["x"] + box["width"] * 1.5 / columns, box["y"] + box["height"] * 2.5 / rows)
        check(last, 2, 1)
        canvas.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        check(last, 3, 2)
        page.get_by_label("Layer", exact=True).first.focus()
        page.keyboard.press("Home")
        check(1, 3, 2)
        page.get_by_label("Show").select_option("head/1")
        self.assertIn("head 1, layer 1", canvas.get_attribute("aria-label"))
        page.click("#pictures .thumbs button:has-text('head 2')")
        self.assertEqual(page.get_by_label("Show").input_value(), "head/2")
        page.click("#pictures summary:has-text('All layers')")
        page.wait_for_selector("#pictures .grid tbody tr")
        self.assertEqual(page.locator("#pictures .grid tbody tr").count(), last)
        page.click("#pictures [aria-label=Pictures] button >> nth=1")
        picture = self.report["pictures"][1]
        self.assertIn(picture["top"][0]["class"], page.inner_text("#pictures .inspect"))

    def test_a_map_shows_its_numbers_as_colours(self):
        page, layer = self.open(self.address), self.report["pictures"][0]["layers"][-1]
        page.get_by_label("Show").select_option("head/1")
        page.get_by_label("the map alone").check()
        grid = layer["memberships"][0]
        flat = [value for row in grid for value in row]
        at = flat.index(max(flat))
        rows, columns = len(grid), len(grid[0])
        pixel = page.evaluate("""([y, x, rows, columns]) => { const c = document.querySelector("#pictures .big canvas");
            return [...c.getContext("2d").getImageData(Math.floor((x + .5) / columns * c.width), Math.floor((y + .5) / rows * c.height), 1, 1).data]; }""",
                              [at // columns, at % columns, rows, columns])
        self.assertEqual(pixel[:3], [253, 231, 60])

    def test_tables_and_charts(self):
        page, split = self.open(self.address), self.report["splits"][-1]
        for row, layer in zip(self.cells(page, "compression-table"), split["layers"], strict=True):
            self.assertEqual(row[0], str(layer["layer"]))
            after = layer["compression"]["after_residual"]
            self.near(row[6].split(" ± ")[0], after["mean"], 3)
        for row, layer in zip(self.cells(page, "correlation-table"), split["layers"], strict=True):
            self.near(row[1], layer["correlation"]["mean_off_diagonal"])
        for row, layer in zip(self.cells(page, "spectra-table"), self.report["spectra"], strict=True):
            self.assertEqual(number(row[1]), layer["rank"])
        for row, layer in zip(self.cells(page, "bound-table"), split["layers"], strict=True):
            self.near(row[1].split(" ± ")[0], layer["bound"][0]["bound"]["mean"], 3)
        page.click("#norms figure summary")
        self.until(page, "document.querySelectorAll('#norms figure table tr').length > 20")
        drawn = page.evaluate("Object.values(Chart.instances).map(c => c.data.datasets.filter(d => d.label === 'after residual').map(d => d.data.map(p => p.y))).flat()")
        self.assertEqual(drawn[-1], [layer["compression"]["after_residual"]["mean"] for layer in split["layers"]])

    def test_the_numbers_alone(self):
        printed = json.loads(run("explain", "shapes", "--data", "shapes", "--samples", "6", "--bound", "--json", "--quiet"))
        self.assertEqual(printed, self.report)

    def test_names_from_outside_stay_text(self):
        from_outside = self.dir / "<img src=x onerror=alert(1)>.png"
        sample = next(iter(re.findall(r"base64,([^\"]+)", (self.dir / "r/report.json").read_text())))
        from_outside.write_bytes(base64.b64decode(sample))
        run("explain", "shapes", from_outside, "--data", "shapes", "--samples", "2", "--title", "</script><script>alert(2)</script>\u2028", "--out",
            self.dir / "hostile", "--quiet")
        page = self.open((self.dir / "hostile/index.html").as_uri())
        self.assertEqual(page.inner_text("h1"), "</script><script>alert(2)</script>\u2028")
        self.assertIn("<img src=x onerror=alert(1)>", page.inner_text("#pictures"))


class Figures(unittest.TestCase):
    """python -m tost.figures on the JSON of both kinds."""

    def draw(self, numbers, wanted):
        if importlib.util.find_spec("matplotlib") is None:
            self.skipTest("Python has no matplotlib")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "numbers.json"
            file.write_text(numbers)
            done = subprocess.run([sys.executable, "-m", "tost.figures", str(file), "--out", folder + "/f"], cwd=ROOT / "python",
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            made = {path.name for path in pathlib.Path(folder, "f").iterdir()}
            self.assertEqual({name.split(".")[0] for name in made}, wanted)
            for name in made:
                content = pathlib.Path(folder, "f", name).read_bytes()
                if name.endswith(".png"):
                    self.assertEqual(content[:4], b"\x89PNG")
                else:
                    xml.etree.ElementTree.fromstring(content)

    def test_images(self):
        self.draw(run("explain", "shapes", "--data", "shapes", "--samples", "4", "--bound", "--json", "--quiet"),
                  {"compression", "bound", "correlations", "correlations-centered",
                   *(f"{what}-{i}" for what in ("memberships", "class-attention") for i in range(1, 5))})

    def test_texts(self):
        self.draw(run("explain", "words", "--text", TEXT, "--json", "--quiet"),
                  {"surprisal", "entropy-by-position", "influence-by-distance"})

    def test_refuses_what_is_no_report(self):
        done = subprocess.run([sys.executable, "-m", "tost.figures", __file__], cwd=ROOT / "python", capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not JSON", done.stderr)


class Text(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.dir / "text.txt").write_text(TEXT * 30)
        run("explain", "words", "--text", TEXT, "--data", cls.dir / "text.txt", "--samples", "4", "--bound", "--out", cls.dir / "r", "--quiet")
        cls.report = json.loads((cls.dir / "r/report.json").read_text())
        cls.address = (cls.dir / "r/index.html").as_uri()

    def test_every_section_light_dark_wide_and_narrow(self):
        for width, scheme in ((1280, "light"), (360, "dark")):
            page = self.open(self.address, width, scheme)
            page.wait_for_selector("#norms")
            ids = page.eval_on_selector_all("main > section", "all => all.map(one => one.id)")
            for wanted in ("model", "passage", "surprisal", "memberships", "own-effect", "influence", "compression", "bound", "spectra", "norms"):
                self.assertIn(wanted, ids)
            self.fits(page, width)
            self.assertNotRegex(page.inner_text("main"), r"\b(NaN|Infinity|undefined|\[object)")

    def test_tokens_by_mouse_and_keys(self):
        page, passage, layers = self.open(self.address), self.report["passage"], self.report["layers"]
        tokens = page.locator("#passage .token")
        self.assertEqual(tokens.count(), len(passage["tokens"]))

        def check(t):
            said = page.inner_text("#passage .readout")
            self.assertIn(f"Token {t + 1} “{passage['tokens'][t]}”", said)
            self.near(re.search(r"−log p (\S+),", said)[1], passage["token_loss"][t - 1], 3)
            self.near(re.search(r", p ([^;.]+(?:\.\d+)?(?:e-\d+)?)", said)[1].rstrip(". "), math.exp(-passage["token_loss"][t - 1]), 2)
            table = page.query_selector("#passage .shaded")
            for row, layer in zip(table.query_selector_all("tbody tr"), layers, strict=True):
                for cell, head in zip(row.query_selector_all("td"), layer["membership"], strict=True):
                    self.near(cell.inner_text(), head[t], 2)

        tokens.nth(4).hover()
        check(4)
        page.focus("#passage [role=listbox]")
        page.keyboard.press("ArrowRight")
        check(5)
        page.get_by_label("Colour by").select_option("head")
        page.get_by_label("Head", exact=True).select_option("2")
        self.assertIn("Membership of head 2", page.inner_text("#passage"))
        page.get_by_label("Layer", exact=True).first.select_option(str(self.report["chosen_layers"][-1]))
        own = layers[self.report["chosen_layers"][-1] - 1]["own_effect"]
        self.near(re.search(r"own effect (\S+?),", page.inner_text("#passage .readout"))[1], own[5], 3)

    def test_tables(self):
        page, losses = self.open(self.address), self.report["passage"]["token_loss"]
        rows = self.cells(page, "surprisal-table")
        self.assertEqual([row[3] for row in rows], [f"{loss:.2f}" for loss in sorted(losses, reverse=True)[:len(rows)]])
        for row, layer in zip(self.cells(page, "norm-table"), self.report["splits"][-1]["layers"], strict=True):
            self.near(row[1], layer["norms"]["mean"])


class Served(Browser):
    flags = []

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.process = subprocess.Popen([TOST, "serve", *cls.flags, "--port", "0"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        cls.port = int(re.search(r"http://\S+:(\d+)/", cls.process.stdout.readline())[1])
        cls.home = f"http://127.0.0.1:{cls.port}/"

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        cls.process.wait()
        cls.process.stdout.close()
        super().tearDownClass()

    def opened(self, **options):
        page = self.open(self.home, **options)
        page.wait_for_selector("#write:not([hidden])")
        return page


class ServeWithoutExplanations(Served):
    flags = ["words", "shapes", "--no-explain"]

    def test_writes_and_names_pictures_without_layers(self):
        page = self.opened()
        page.fill("#tokens", "12")
        page.press("#prompt", "Control+Enter")
        self.until(page, "document.querySelector('.text .own')?.textContent && !document.querySelector('#more').disabled")
        self.assertFalse(page.locator("#inside").is_visible())
        page.click("#samples button >> nth=0")
        self.until(page, "document.querySelector('#look-status').textContent.endsWith('%')")
        self.assertEqual(page.locator("#seen > *").count(), 0)
        page.click(".text button")


class ServeWithoutTorch(Served):
    flags = ["words"]

    def test_shows_the_layers_of_a_text(self):
        page = self.opened()
        page.fill("#tokens", "12")
        page.press("#prompt", "Control+Enter")
        page.wait_for_selector("#inside:not([hidden])")
        self.assertIn("Size of the group's mean", page.locator("#inside-view").inner_text())
        self.assertNotIn("libtorch", pathlib.Path(f"/proc/{self.process.pid}/maps").read_text())


class Serve(Served):
    flags = ["words", "shapes"]

    def sessions(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/v1/sessions")
        found = json.loads(connection.getresponse().read())["data"]
        connection.close()
        return {session["id"]: session for session in found}

    def written(self, page, text, tokens=12):
        self.until(page, f"document.querySelectorAll('.text').length >= {text} && document.querySelector('#stop').disabled && !document.querySelector('#more').disabled")
        page.wait_for_selector("#inside:not([hidden])")

    def test_writes_forks_and_deletes(self):
        for width, scheme in ((1280, "light"), (360, "dark")):
            before = set(self.sessions())
            page = self.opened(width=width, scheme=scheme)
            page.fill("#prompt", "The king was ")
            page.fill("#tokens", "12")
            page.press("#prompt", "Control+Enter")
            self.written(page, 1)
            page.click("#fork")
            self.written(page, 2)
            box = page.locator(".text").nth(1)
            self.assertIn("a fork of text 1", box.inner_text())
            self.assertIn("parts from text 1 here", box.locator(".part").inner_text())
            self.assertEqual(box.locator(".shared").text_content(), page.locator(".text .own").first.text_content())
            own = box.locator(".own").text_content()
            read, state = number(box.locator(".read").inner_text()), box.locator(".bytes").inner_text()
            self.assertRegex(box.inner_text(), "after token [0-9]+")
            held = self.sessions()
            self.assertIn(int(read), [session["position"] for session in held.values()])
            self.assertIn("tokens a second", box.inner_text())
            page.click("#again")
            self.written(page, 2)
            self.assertNotEqual(box.locator(".own").text_content(), own)
            page.click("#more")
            self.written(page, 2)
            self.assertGreater(number(box.locator(".read").inner_text()), read)
            self.assertLess(number(box.locator(".bytes").inner_text().split()[0]), 1.25 * number(state.split()[0]))
            self.fits(page, width)
            whole = page.locator(".text .body").all_text_contents()
            page.reload()
            page.wait_for_selector(".text:nth-child(2)")
            self.assertEqual(page.locator(".text .body").all_text_contents(), whole)
            page.click("#more")
            self.written(page, 2)
            for _ in range(2):
                page.click(".text button")
            self.until(page, "document.querySelectorAll('.text').length === 0")
            page.wait_for_timeout(500)
            self.assertEqual(set(self.sessions()), before)

    def test_stops_and_goes_on_from_what_is_shown(self):
        page = self.opened()
        page.fill("#tokens", "4000")
        page.click("#start")
        self.until(page, "document.querySelector('.text .own').textContent.length > 200")
        page.click("#stop")
        self.written(page, 1)
        shown = page.locator(".text .own").text_content()
        page.fill("#tokens", "5")
        page.click("#more")
        self.written(page, 1)
        self.assertTrue(page.locator(".text .own").text_content().startswith(shown))
        page.click(".text button")

    def test_a_session_that_is_gone_is_read_again(self):
        page = self.opened(quiet=("Failed to load resource",))  # what the browser says of a 404
        page.fill("#tokens", "5")
        page.click("#start")
        self.written(page, 1)
        for one in self.sessions():
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            connection.request("DELETE", "/v1/sessions/" + one)
            connection.getresponse().read()
            connection.close()
        shown = page.locator(".text .own").text_content()
        page.click("#more")
        self.until(page, f"document.querySelector('.text .own').textContent.length > {len(shown)}")
        self.written(page, 1)
        self.assertTrue(page.locator(".text .own").text_content().startswith(shown))
        page.click(".text button")

    def test_looks_at_samples_and_files(self):
        page = self.opened()
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        for i in range(2):
            page.click(f"#samples button >> nth={i}")
            page.wait_for_selector("#seen .inspect")
            body = base64.b64decode(page.locator("#samples img").nth(i).get_attribute("src").split(",")[1])
            connection.request("POST", "/v1/explain?model=shapes", body, {"Content-Type": "image/png"})
            answer = json.loads(connection.getresponse().read())
            self.near(page.locator("#seen .bars li > :last-child").first.inner_text(), answer["top"][0]["probability"], 3)
            self.assertEqual(page.locator("#samples button").nth(i).get_attribute("aria-pressed"), "true")
        connection.close()
        (self.dir / "same.png").write_bytes(body)
        for _ in range(2):
            page.set_input_files("#file", self.dir / "same.png")
            page.wait_for_selector("#seen .inspect")
            self.assertIn("same.png", page.inner_text("#look-status"))
            page.evaluate("document.querySelector('#file').click()")
        page.evaluate("document.querySelector('#look-model').dispatchEvent(new Event('change'))")
        self.assertEqual(page.locator("#seen > *").count(), 0)
        self.assertNotIn("libtorch", pathlib.Path(f"/proc/{self.process.pid}/maps").read_text())


class InATab(Browser):
    """The folder of scripts/build_try.sh: the engine as WebAssembly, served as plain files."""

    @classmethod
    def setUpClass(cls):
        folder = ROOT / "build/web/try"
        if not (folder / "tost.wasm").exists():
            raise unittest.SkipTest("build/web/try is missing; scripts/build_try.sh makes it")
        super().setUpClass()
        handler = functools.partial(QuietFiles, directory=folder)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.address = f"http://127.0.0.1:{cls.server.server_port}/"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        super().tearDownClass()

    def written(self, page):
        return page.inner_text("#text").replace("\u00a0", " ")

    def test_writes_as_the_program_in_constant_state(self):
        page = self.open(self.address)
        self.until(page, "!document.querySelector('#start').disabled")
        page.fill("#temperature", "0")
        page.click("#start")
        self.until(page, "Number(document.querySelector('#read').textContent.replace(/,/g, '')) > 300")
        early = page.inner_text("#bytes")
        self.until(page, "Number(document.querySelector('#read').textContent.replace(/,/g, '')) > 1500")
        page.click("#stop")
        self.until(page, "!document.querySelector('#start').disabled")
        self.assertEqual(page.inner_text("#bytes"), early)
        native = "The king" + run("generate", "words", "--prompt", "The king", "--max-tokens", "256", "--temperature", "0").rstrip("\n")
        self.assertEqual(self.written(page)[:len(native)], native)
        rows = [[number(cell.inner_text()) for cell in row.query_selector_all("td")] for row in page.query_selector_all("#heads tbody tr")]
        self.assertEqual([len(row) for row in rows], [8] * 4)
        for row in rows:
            self.assertAlmostEqual(sum(row), 1, delta=0.05)
        print("tokens a second in the tab:", page.inner_text("#rate"))

    def test_labels_pictures_as_the_program(self):
        page = self.open(self.address)
        self.until(page, "document.querySelector('#samples button:enabled')")
        source = page.evaluate("kSamples[1].png")
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "ring.png"
            picture.write_bytes(base64.b64decode(source))
            for model in ("shapes", "clothing", "fashion"):
                page.select_option("#look-model", model)
                page.click("#samples button:nth-child(2)")
                self.until(page, "document.querySelector('#look-status').textContent.includes(' ms')")
                native = json.loads(run("predict", model, str(picture), "--json"))["predictions"][0]["top"]
                rows = page.query_selector_all("#seen li")
                self.assertEqual(rows[0].query_selector("span").inner_text(), native[0]["class"])
                for row, wanted in zip(rows, native):
                    found = number(row.query_selector_all("span")[1].inner_text().replace("%", ""))
                    self.assertAlmostEqual(found, 100 * wanted["probability"], delta=1)
                print(model, "in the tab:", page.inner_text("#look-status"))
                page.evaluate("document.querySelector('#look-status').textContent = ''")
            broken = pathlib.Path(folder) / "broken.png"
            broken.write_bytes(base64.b64decode(source)[:300])
            page.set_input_files("#file", str(broken))
            self.until(page, "document.querySelector('#look-status').textContent.includes('no picture')")

    def test_reads_a_megabyte_and_says_what_is_wrong(self):
        page = self.open(self.address, width=360, scheme="dark")
        self.until(page, "!document.querySelector('#start').disabled")
        self.fits(page, 360)
        page.fill("#prompt", "")
        page.click("#start")
        self.until(page, "document.querySelector('#error').textContent !== ''")
        self.assertIn("beginning", page.inner_text("#error"))
        page.evaluate("document.querySelector('#prompt').value = 'the king of the isles '.repeat(50000)")
        page.click("#start")
        self.until(page, "document.querySelector('#status').textContent.startsWith('Reading')")
        page.click("#stop")
        self.until(page, "!document.querySelector('#start').disabled")
        self.assertEqual(page.inner_text("#error"), "")


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


if __name__ == "__main__":
    other_python()
    missing = "Playwright" if importlib.util.find_spec("playwright") is None else "chromium" if CHROMIUM is None else None
    if missing:
        print(f"skipped: {missing} is missing; make test-web prepares it")
        sys.exit(77)
    TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
