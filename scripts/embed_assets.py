#!/usr/bin/env python3
"""Write assets.S (.incbin of every file of the page) and assets.cpp (their table): embed_assets.py WEB OUT.

The page is WEB plus the libraries named below, which come from Debian's packages and are not copied into the repository.
"""
import hashlib
import os
import sys

VENDOR = {  # name under /web/vendor/: candidates on disk
    "markdown-it.js": ["/usr/share/javascript/markdown-it/markdown-it.js"],
    "purify.js": ["/usr/share/nodejs/dompurify/dist/purify.js"],
    "highlight.js": ["/usr/share/javascript/highlight.js/highlight.min.js", "/usr/share/javascript/highlight.js/highlight.js"],
    "katex.js": ["/usr/share/javascript/katex/katex.min.js", "/usr/share/javascript/katex/katex.js"],
    "katex.css": ["/usr/share/javascript/katex/katex.min.css", "/usr/share/javascript/katex/katex.css"],
}
KATEX_FONTS = ["/usr/share/fonts/truetype/katex", "/usr/share/javascript/katex/fonts", "/usr/share/fonts/woff/katex"]
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".json": "application/json", ".webmanifest": "application/manifest+json", ".png": "image/png",
         ".woff2": "font/woff2", ".woff": "font/woff", ".ttf": "font/ttf"}

# Debian 12 without its security archive has node-dompurify 2.4.1+deb12u1, whose guard against tampered depths stands in the wrong
# function: sanitize() then throws on any markup. deb12u2 moved it; the same move is made here.
MISPLACED = """      if (shadowNode.__depth >= MAX_NESTING_DEPTH || numberIsNaN(shadowNode.__depth)) {
        _forceRemove(body.firstChild);
      }"""
PLACED = """      if (body && FORCE_BODY) {
        _forceRemove(body.firstChild);
      }"""
UNGUARDED = "if (shadowNode.__depth >= MAX_NESTING_DEPTH) {"
GUARDED = "if (shadowNode.__depth >= MAX_NESTING_DEPTH || numberIsNaN(shadowNode.__depth)) {"


def repair_dompurify(source):
    """The library's text, with deb12u1's mistake undone; any other version comes back as it is."""
    if MISPLACED not in source:
        return source
    if source.count(UNGUARDED) != 1:
        sys.exit("embed_assets: node-dompurify is neither deb12u1 nor a version without its mistake; install the one of Debian's security archive")
    return source.replace(MISPLACED, PLACED).replace(UNGUARDED, GUARDED)


def repaired(name, path, out):
    """Path of what to embed: the package's file itself, or a corrected copy in the build folder."""
    if name != "purify.js":
        return path
    source = open(path, encoding="utf-8").read()
    if repair_dompurify(source) == source:
        return path
    copy = os.path.join(os.path.abspath(out), name)
    with open(copy, "w", encoding="utf-8") as f:
        f.write(repair_dompurify(source))
    return copy


def page_files(web, out):
    for folder, _, names in sorted(os.walk(web)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            url = "/" + os.path.relpath(path, web).replace(os.sep, "/")
            yield ("/index.html" if url == "/index.html" else "/web" + url), path
    for name, candidates in VENDOR.items():
        found = next((c for c in candidates if os.path.exists(c)), None)
        if not found:
            sys.exit(f"embed_assets: none of {candidates} exists; install the packages of scripts/packages.txt")
        yield f"/web/vendor/{name}", repaired(name, os.path.realpath(found), out)
    for folder in KATEX_FONTS:
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".woff2"):
                    yield f"/web/vendor/fonts/{name}", os.path.realpath(os.path.join(folder, name))
            break


def main():
    web, out = sys.argv[1:3]
    assembly = ["    .section .rodata", ""]
    table = ['#include "net/assets.hpp"', "", "#include <cstddef>", "", "extern \"C\" {"]
    rows = []
    for i, (url, path) in enumerate(page_files(web, out)):
        data = open(path, "rb").read()
        kind = TYPES.get(os.path.splitext(path)[1])
        if kind is None:
            sys.exit(f"embed_assets: {path}: no content type for this ending")
        etag = hashlib.sha256(data).hexdigest()[:16]
        assembly += [f"    .global asset_{i}", f"asset_{i}:", f'    .incbin "{path}"', ""]
        table.append(f"extern const char asset_{i}[];")
        rows.append(f'    {{"{url}", "{kind}", {{asset_{i}, {len(data)}}}, "\\"{etag}\\""}},')
    assembly.append('    .section .note.GNU-stack,"",@progbits')
    table += ["}", "", "namespace troupe::net {", "", "const asset* find_asset(std::string_view path) {",
              "    static const asset table[] = {"] + ["    " + r for r in rows] + [
              "    };", "    for (const auto& a : table)", "        if (a.path == path) return &a;", "    return nullptr;", "}", "",
              "}  // namespace troupe::net", ""]
    for name, lines in (("assets.S", assembly), ("assets.cpp", table)):
        with open(os.path.join(out, name), "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
