"""Real Chromium drives the chat page: an answer streams, survives a reload and the executor's death; hostile Markdown is tame."""
import os
import sys
import time
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "black_box"))
from support import Server, wait_until  # noqa: E402

SCREENSHOT = os.environ.get("TROUPE_SCREENSHOT")  # where the README's picture goes; unset in CI


def open_browser(width=1100, height=760, dark=False):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},{height}",
                 "--force-dark-mode" if dark else "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--temperature", "0")
        cls.url = f"http://{cls.server.host}:{cls.server.port}/"
        cls.browser = open_browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.server.close()

    def setUp(self):
        self.browser.get("about:blank")
        self.browser.get(self.url)
        wait_until(lambda: self.browser.execute_script("return document.body?.dataset.connected === 'yes'"), what="a connected page")

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def ask(self, text):
        before = len(self.all(".message.assistant"))
        self.find("#input").send_keys(text, Keys.ENTER)
        wait_until(lambda: len(self.all(".message.assistant")) > before, what="an answer's element")

    def answer(self):
        """(state, text) of the last answer; the page may redraw while it is read."""
        return self.browser.execute_script(
            "const m = [...document.querySelectorAll('.message.assistant')].at(-1); return m ? [m.dataset.state, m.querySelector('.text').innerText] : ['none', '']")

    def finished(self, seconds=60):
        wait_until(lambda: self.answer()[0] == "done", seconds, what="the answer to finish")
        return self.answer()[1]

    def test_question_and_answer(self):
        self.ask("What is the capital of Germany?")
        self.assertIn("Berlin", self.finished())
        if SCREENSHOT:
            self.ask("Write a Python function that adds two numbers, and explain it in one sentence.")
            self.finished()
            time.sleep(0.5)
            self.browser.save_screenshot(SCREENSHOT)

    def test_reload_and_executor_death_in_the_middle(self):
        question = "Write a long story about a lighthouse keeper."
        self.browser.execute_script("localStorage.setItem('troupe.settings', JSON.stringify({max_tokens: 160}))")
        self.ask(question)
        undisturbed = self.finished()
        self.find("#new-chat").click()
        self.ask(question)
        wait_until(lambda: len(self.answer()[1]) > 40, what="text that streams")
        self.browser.refresh()
        wait_until(lambda: len(self.answer()[1]) > 40, what="the text after the reload")
        self.assertNotEqual(self.answer()[0], "done")
        self.server.kill_executor()
        self.assertEqual(self.finished(), undisturbed)
        self.assertGreaterEqual(self.server.health()[1]["executor"]["restarts"], 1)

    def test_stop_regenerate_edit(self):
        self.ask("Write a long story about a river.")
        wait_until(lambda: len(self.answer()[1]) > 20, what="text that streams")
        self.find("#stop").click()
        self.finished(10)
        self.find(".message.assistant .regenerate").click()
        wait_until(lambda: self.answer()[0] == "running", what="a new answer")
        self.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        self.finished(10)
        wait_until(lambda: "2/2" in self.find(".message.assistant .tools").text, what="two versions")
        self.find(".message.user .edit").click()
        box = self.find(".message.user textarea")
        box.clear()
        box.send_keys("Say hi.", Keys.ENTER)
        wait_until(lambda: self.all(".message.user .text") and self.find(".message.user .text").text == "Say hi.", what="the edited message")
        self.finished()
        self.assertIn("2/2", self.find(".message.user .tools").text)

    def test_session_list(self):
        self.ask("Say one word.")
        self.finished()
        wait_until(lambda: "Say one word." in self.find("#sessions").text, what="the title in the list")
        item = self.find("#sessions li.current")
        self.browser.execute_script("arguments[0].querySelector('.rename').click()", item)
        box = self.find("#sessions input")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys("Renamed by hand", Keys.ENTER)
        wait_until(lambda: "Renamed by hand" in self.find("#sessions").text, what="the new title")
        self.find("#search").send_keys("by hand")
        wait_until(lambda: len(self.all("#sessions li")) == 1, what="one hit")
        self.browser.execute_script("window.confirm = () => true; document.querySelector('#sessions .delete').click()")
        wait_until(lambda: len(self.all("#sessions li")) == 0, what="an empty list")
        self.assertEqual(len(self.all(".message")), 0)

    def test_settings(self):
        self.find("#open-settings").click()
        self.assertEqual(self.find("#set-system").get_attribute("value"), "You are a helpful assistant.")
        wait_until(lambda: "server" in (self.find("#set-temperature").get_attribute("placeholder") or ""), what="the server's defaults")
        self.find("#set-max_tokens").send_keys("3")
        self.find("#settings .primary").click()
        self.find("#new-chat").click()
        self.ask("Tell me everything about bread.")
        self.finished()
        self.assertIn("3 tokens", self.find(".message.assistant .status").text)
        self.browser.execute_script("localStorage.clear()")

    def test_reconnecting_is_visible(self):
        """The server goes and comes back on the same port: the page says so, then goes on with the same conversation."""
        server = Server()
        browser = open_browser()
        try:
            browser.get(f"http://{server.host}:{server.port}/")
            hidden = lambda: browser.execute_script("return document.body?.dataset.connected === 'yes'")
            wait_until(hidden, what="a connected page")
            server.stop()
            wait_until(lambda: "Reconnecting" in browser.execute_script("return document.querySelector('#banner').textContent"), what="the banner")
            server = Server(port=server.port, data_dir=server.folder)
            wait_until(hidden, what="a connected page again")
        finally:
            browser.quit()
            server.close()

    def render(self, text):
        return self.browser.execute_async_script(
            """const [text, done] = arguments;
               import('/web/markdown.js').then(({MarkdownView}) => {
                 const e = document.createElement('div'); document.body.append(e);
                 new MarkdownView(e).update(text);
                 setTimeout(() => {
                   const found = [...e.querySelectorAll('*')].flatMap((n) => [n.tagName.toLowerCase(),
                     ...[...n.attributes].map((a) => a.name.startsWith('on') || /^\\s*(javascript|data|vbscript):/i.test(a.value) ? `attribute ${a.name}=${a.value}` : '')]);
                   const html = e.innerHTML; e.remove(); done([html, found]);
                 }, 50);
               });""", text)

    def html(self, text):
        return self.render(text)[0]

    def test_hostile_markdown(self):
        self.browser.execute_script("window.harmed = 0; window.alert = () => ++window.harmed")
        payloads = [
            "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "[x](  JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)", "![x](javascript:alert(1))", "![x](http://tracker.example/a.png)", "<svg onload=alert(1)>",
            "<iframe src=javascript:alert(1)></iframe>", "<a href=\"javascript:alert(1)\">x</a>", "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
            "```html\n<script>alert(1)</script>\n```", "`<img src=x onerror=alert(1)>`", "$\\href{javascript:alert(1)}{x}$", "$$\\url{javascript:alert(1)}$$",
            "<details open ontoggle=alert(1)>", "<style>*{display:none}</style>", "<form action=javascript:alert(1)><button>x", "[a]: javascript:alert(1)\n\n[a]",
            "<object data=javascript:alert(1)>", "\\(\\htmlData{onclick=alert(1)}{x}\\)", "<vbscript:alert(1)>",
        ]
        for text in payloads:
            _, found = self.render(text)
            for bad in ("script", "img", "iframe", "object", "embed", "form", "style", "details"):
                self.assertNotIn(bad, found, text)
            self.assertEqual([f for f in found if f.startswith("attribute")], [], text)
        self.assertEqual(self.browser.execute_script("return window.harmed"), 0)

    def test_markdown_and_maths(self):
        self.assertIn("<strong>bold</strong>", self.html("**bold**"))
        self.assertIn("<table>", self.html("| a | b |\n|---|---|\n| 1 | 2 |\n"))
        for text in ("$x^2$", "\\(x^2\\)", "$$\nx^2\n$$", "\\[\nx^2\n+ y\n\\]", "so \\[ x^2 \\] it is"):
            self.assertIn("katex", self.html(text), text)
        self.assertNotIn("katex", self.html("It costs $5 and $6."))
        self.assertIn("hljs-", self.html("```python\ndef f(x):\n    return x\n```"))

    def test_phone_width(self):
        self.browser.set_window_size(390, 800)
        try:
            self.assertFalse(self.find("#sidebar").is_displayed())
            self.find("#open-sidebar").click()
            wait_until(lambda: self.find("#sidebar").is_displayed(), what="the list")
            overflow = self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
            self.assertLessEqual(overflow, 0)
        finally:
            self.browser.set_window_size(1100, 760)


if __name__ == "__main__":
    unittest.main()
