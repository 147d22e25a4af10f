// Markdown -> DOM: rendered by markdown-it, maths by KaTeX, code by highlight.js, and all of it sanitized by DOMPurify.
// A growing text is rendered block by block, so that only its last block is rendered again.

const KATEX_SPAN_LIMIT = 10000;  // longer formulas are shown as text

const engine = window.markdownit({html: false, linkify: true, breaks: false, highlight: highlightCode});
engine.inline.ruler.before("escape", "maths", inlineMaths);
engine.block.ruler.before("fence", "maths_block", blockMaths, {alt: ["paragraph", "reference", "blockquote", "list"]});
engine.renderer.rules.maths = (tokens, i) => formula(tokens[i].content, tokens[i].meta.display);

function highlightCode(code, language) {
  if (!language || !window.hljs?.getLanguage(language)) return "";
  try {
    return window.hljs.highlight(language, code, true).value;  // highlight.js 9's order of arguments, as Debian has it
  } catch {
    return "";
  }
}

function formula(source, display) {
  if (source.length > KATEX_SPAN_LIMIT) return engine.utils.escapeHtml(source);
  const html = window.katex.renderToString(source, {displayMode: display, throwOnError: false, trust: false, maxExpand: 200, maxSize: 50, output: "html"});
  return display ? `<div class="formula">${html}</div>` : html;
}

const PAIRS = [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false], ["$", "$", false]];

function inlineMaths(state, silent) {
  const source = state.src;
  for (const [open, close, display] of PAIRS) {
    if (!source.startsWith(open, state.pos)) continue;
    const from = state.pos + open.length;
    // A dollar is money unless it hugs what it encloses.
    if (open === "$" && /[\s\d$]/.test(source[from] ?? " ")) return false;
    let end = source.indexOf(close, from);
    while (open === "$" && end > 0 && (source[end - 1] === "\\" || /\s/.test(source[end - 1]) || /\d/.test(source[end + 1] ?? ""))) end = source.indexOf(close, end + 1);
    if (end < 0 || end === from) return false;
    if (!silent) {
      const token = state.push("maths", "", 0);
      token.content = source.slice(from, end);
      token.meta = {display};
    }
    state.pos = end + close.length;
    return true;
  }
  return false;
}

function blockMaths(state, startLine, endLine, silent) {
  const start = state.bMarks[startLine] + state.tShift[startLine];
  const pair = PAIRS.find(([open, , display]) => display && state.src.startsWith(open, start));
  if (!pair) return false;
  const [open, close] = pair;
  for (let line = startLine; line < endLine; ++line) {
    const from = line === startLine ? start + open.length : state.bMarks[line];
    const end = state.src.slice(from, state.eMarks[line]).indexOf(close);
    if (end < 0) continue;
    if (state.src.slice(from + end + close.length, state.eMarks[line]).trim()) return false;
    if (silent) return true;
    const token = state.push("maths", "", 0);
    token.block = true;
    token.content = state.src.slice(start + open.length, from + end);
    token.meta = {display: true};
    state.line = line + 1;
    return true;
  }
  return false;
}

window.DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.tagName === "IMG") node.remove();  // a picture's address could tell a stranger what was written
});

// Whatever a library makes of it, the words are shown: as plain text if nothing better works.
function fragment(text) {
  try {
    return rendered(text);
  } catch (error) {
    console.error("markdown:", error);
    const plain = document.createElement("pre");
    plain.textContent = text;
    return plain;
  }
}

function rendered(text) {
  return window.DOMPurify.sanitize(engine.render(text), {
    RETURN_DOM_FRAGMENT: true,
    FORBID_TAGS: ["style", "form", "input", "button", "iframe", "object", "embed"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
  });
}

// Ends of blocks that later text cannot change: blank lines outside code fences and formulas, before unindented text.
function splitBlocks(text) {
  const blocks = [];
  let start = 0, fence = null, maths = null, at = 0, blank = false;
  for (const line of text.split("\n")) {
    const trimmed = line.trim();
    const complete = at + line.length < text.length;
    if (blank && !fence && !maths && trimmed && !/^\s/.test(line) && !/^(?:[-*+>]|\d+[.)]|\|)/.test(line) && complete) {
      blocks.push(text.slice(start, at));
      start = at;
    }
    const mark = /^\s*(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence) {
      if (mark && mark[0] === fence[0] && mark.length >= fence.length && trimmed === mark) fence = null;
    } else if (mark) {
      fence = mark;
    } else if (maths) {
      if (trimmed.endsWith(maths)) maths = null;
    } else if (trimmed === "$$" || trimmed === "\\[") {
      maths = trimmed === "$$" ? "$$" : "\\]";
    }
    blank = !trimmed;
    at += line.length + 1;
  }
  blocks.push(text.slice(start));
  return blocks;
}

// Keeps an element showing a growing text.
export class MarkdownView {
  #blocks = [];  // {text, element}

  constructor(element) {
    this.element = element;
  }

  update(text) {
    const blocks = splitBlocks(text);
    blocks.forEach((block, i) => {
      if (this.#blocks[i]?.text === block) return;
      const element = this.#blocks[i]?.element ?? this.element.appendChild(document.createElement("div"));
      element.replaceChildren(fragment(block));
      addCopyButtons(element);
      this.#blocks[i] = {text: block, element};
    });
    for (const {element} of this.#blocks.splice(blocks.length)) element.remove();
  }
}

function addCopyButtons(element) {
  for (const pre of element.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.className = "copy plain";
    button.textContent = "Copy";
    button.onclick = async () => {
      await navigator.clipboard.writeText(pre.querySelector("code")?.textContent ?? pre.textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    };
    pre.append(button);
  }
}
