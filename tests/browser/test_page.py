"""Real Chromium drives the chat page: an answer streams, survives a reload and the executor's death."""
import os
import time
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import PageTest, Server, open_browser, wait_until

SCREENSHOT = os.environ.get("TROUPE_SCREENSHOT")  # where the README's picture goes; unset in CI


class Page(PageTest):
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


if __name__ == "__main__":
    unittest.main()
