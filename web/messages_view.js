// Shows the messages of a conversation: one element a message, kept over updates, text rendered at most once a frame.

import {MarkdownView} from "./markdown.js";

const el = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};

export class MessagesView {
  #rows = new Map();  // message id -> row
  #frame = 0;

  // actions: {regenerate(id), edit(id, text), show(id), retry()}
  constructor(element, actions) {
    this.element = element;
    this.actions = actions;
    this.conversation = null;
  }

  show(conversation) {
    this.conversation = conversation;
    this.#rows.clear();
    this.element.replaceChildren();
    this.refresh();
  }

  refresh() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    const c = this.conversation;
    const stick = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 60;
    const path = c ? c.path().filter((m) => m.role !== "system") : [];
    const shown = new Set(path.map((m) => m.id));
    for (const [id, row] of this.#rows) {
      if (shown.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    path.forEach((message, i) => {
      const row = this.#rows.get(message.id) ?? this.#makeRow(message);
      if (this.element.children[i] !== row.element) this.element.insertBefore(row.element, this.element.children[i] ?? null);
      this.#update(row, message);
    });
    if (!path.length) this.element.replaceChildren(el("p", {className: "empty muted", textContent: "Ask something."}));
    else this.element.querySelector(":scope > .empty")?.remove();
    if (stick) this.element.scrollTop = this.element.scrollHeight;
  }

  #makeRow(message) {
    const text = el("div", {className: "text"});
    const status = el("div", {className: "status muted"});
    const tools = el("div", {className: "tools"});
    const element = el("article", {className: `message ${message.role}`}, text, status, tools);
    element.dataset.id = message.id;
    element.setAttribute("aria-label", message.role === "user" ? "You" : "Answer");
    const row = {element, text, status, tools, markdown: message.role === "assistant" ? new MarkdownView(text) : null, drawn: null};
    this.#rows.set(message.id, row);
    return row;
  }

  #update(row, message) {
    const running = this.conversation.generating?.message === message.id ? this.conversation.generating : null;
    if (row.drawn !== message.content && !row.editing) {
      if (row.markdown) row.markdown.update(message.content);
      else row.text.textContent = message.content;
      row.drawn = message.content;
    }
    row.element.classList.toggle("running", !!running);
    row.status.textContent = running ? runningText(running) : this.#restingText(message);
    row.status.classList.toggle("error", !!message.error);
    row.element.dataset.state = running ? (running.paused ? "paused" : "running") : message.error ? "error" : "done";
    const key = `${!!running}|${this.conversation.siblings(message).length}|${!!message.error}|${!!this.conversation.generating}`;
    if (row.toolsKey !== key) {
      row.toolsKey = key;
      row.tools.replaceChildren(...this.#tools(row, message));
    }
  }

  #restingText(message) {
    if (message.error) return message.error.message;
    const stats = this.conversation.stats.get(message.id);
    const parts = [];
    if (message.finish_reason === "length") parts.push("The answer reached its length limit.");
    if (stats?.stopped) parts.push("Stopped.");
    if (stats?.rate) parts.push(`${stats.rate.toFixed(1)} tokens/s`);
    if (stats?.usage) parts.push(`${stats.usage.completion_tokens} tokens`);
    return parts.join(" · ");
  }

  *#tools(row, message) {
    const siblings = this.conversation.siblings(message);
    if (siblings.length > 1) {
      const at = siblings.findIndex((m) => m.id === message.id);
      const step = (by, label, text) => el("button", {className: "plain", textContent: text, ariaLabel: label, disabled: !siblings[at + by],
        onclick: () => this.actions.show(siblings[at + by].id)});
      yield step(-1, "Previous version", "‹");
      yield el("span", {className: "muted", textContent: `${at + 1}/${siblings.length}`});
      yield step(1, "Next version", "›");
    }
    if (this.conversation.generating) return;
    yield el("button", {className: "plain", textContent: "Copy", onclick: () => navigator.clipboard.writeText(message.content)});
    if (message.role === "user") yield el("button", {className: "plain edit", textContent: "Edit", onclick: () => this.#edit(row, message)});
    else yield el("button", {className: "plain regenerate", textContent: message.error ? "Try again" : "Regenerate", onclick: () => this.actions.regenerate(message.id)});
  }

  #edit(row, message) {
    row.editing = true;
    const box = el("textarea", {value: message.content, rows: Math.min(12, message.content.split("\n").length + 1), ariaLabel: "Edit message"});
    const leave = () => {
      row.editing = false;
      row.drawn = null;
      this.refresh();
    };
    const save = async () => {
      const text = box.value.trim();
      if (text && (await this.actions.edit(message.id, text))) leave();
    };
    box.onkeydown = (e) => {
      if (e.key === "Escape") leave();
      if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        save();
      }
    };
    row.text.replaceChildren(box, el("div", {className: "tools"}, el("button", {textContent: "Send", onclick: save}), el("button", {className: "plain", textContent: "Cancel", onclick: leave})));
    box.focus();
  }
}

function runningText(g) {
  if (g.paused === "executor_restart") return "The engine is restarting; your answer continues.";
  if (g.paused) return "Paused; your answer continues.";
  if (g.queued) return `Waiting: position ${g.queued}`;
  if (g.progress) return `Reading the prompt: ${g.progress.processed} of ${g.progress.total} tokens`;
  if (!g.started) return "Thinking…";
  const seconds = (performance.now() - g.started) / 1000;
  return seconds > 0.5 ? `${(g.tokens / seconds).toFixed(1)} tokens/s` : "";
}
