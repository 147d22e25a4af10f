"""Real Chromium draws what a model says: hostile Markdown is tame, maths and code look right, a phone's width is enough."""
import unittest

from browser import PageTest, wait_until


class Rendering(PageTest):
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

    def test_text_is_shown_even_if_a_library_fails(self):
        self.browser.execute_script("window.kept = DOMPurify.sanitize; DOMPurify.sanitize = () => { throw new Error('broken') }")
        try:
            self.assertIn("**a &lt; b**", self.html("**a < b**"))
        finally:
            self.browser.execute_script("DOMPurify.sanitize = window.kept")

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
