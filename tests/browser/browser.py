"""Chromium and a server for the page's tests."""
import os
import sys
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "black_box"))
from support import Server, wait_until  # noqa: E402, F401


def open_browser(width=1100, height=760, dark=False):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},{height}",
                 "--force-dark-mode" if dark else "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


class PageTest(unittest.TestCase):
    """One server and one browser for all cases of a file."""

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
