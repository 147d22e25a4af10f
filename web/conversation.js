// The state of one conversation: a tree of messages built from a snapshot and the events after it. No DOM here.

export class Conversation {
  constructor(id) {
    this.id = id;
    this.seq = null;          // last event applied; null before the first snapshot
    this.info = null;         // {title, settings, ...}
    this.messages = new Map();
    this.leaf = null;         // end of the branch shown
    this.generating = null;   // {message, progress?, queued?, paused?, started, tokens}
    this.stats = new Map();   // message id -> {rate, usage}
  }

  // Applies an event; returns false for one that was seen already, "gap" when something is missing.
  apply(event) {
    if (event.type === "snapshot") return this.#snapshot(event);
    if (this.seq === null) return false;
    if (event.seq <= this.seq) return false;
    const first = event.from_seq ?? event.seq;
    if (first > this.seq + 1) return "gap";
    this.seq = event.seq;
    this.#handlers[event.type]?.(event);
    return true;
  }

  // Messages from the root to the leaf.
  path() {
    const path = [];
    for (let id = this.leaf; id && this.messages.has(id); id = this.messages.get(id).parent) path.unshift(this.messages.get(id));
    return path;
  }

  // Messages with the same parent and role: the branches one can switch between.
  siblings(message) {
    return [...this.messages.values()].filter((m) => m.parent === message.parent && m.role === message.role);
  }

  // Shows the branch through this message: down to its newest end.
  show(id) {
    this.leaf = id;
    for (;;) {
      const children = [...this.messages.values()].filter((m) => m.parent === this.leaf);
      if (!children.length) return;
      this.leaf = children.at(-1).id;
    }
  }

  #snapshot(event) {
    this.seq = event.seq;
    this.info = event.session_info;
    this.messages = new Map(event.messages.map((m) => [m.id, {...m}]));
    this.leaf = event.leaf ?? event.messages.at(-1)?.id ?? null;
    this.generating = null;
    if (event.generating) {
      const message = this.messages.get(event.generating.message);
      if (message) message.content = event.generating.text;
      this.#begin(event.generating.message);
    }
    return true;
  }

  #begin(message) {
    if (this.generating?.message !== message) this.generating = {message, started: null, tokens: 0};
  }

  #handlers = {
    "message.created": ({message}) => {
      this.messages.set(message.id, {...message});
      this.leaf = message.id;
      if (message.role === "assistant") this.#begin(message.id);
    },
    "generation.queued": (e) => {
      this.#begin(e.message);
      this.generating.queued = e.position;
    },
    "generation.progress": (e) => {
      this.#begin(e.message);
      this.generating.queued = null;
      this.generating.progress = {processed: e.processed, total: e.total};
    },
    delta: (e) => {
      this.#begin(e.message);
      const g = this.generating;
      const message = this.messages.get(e.message);
      message.content += e.text;
      g.queued = g.progress = null;
      g.started ??= performance.now();
      g.tokens += 1;
    },
    "generation.paused": (e) => {
      this.#begin(e.message);
      this.generating.paused = e.reason;
    },
    "generation.resumed": (e) => {
      this.#begin(e.message);
      this.generating.paused = null;
    },
    "generation.done": (e) => {
      const message = this.messages.get(e.message);
      if (message) message.finish_reason = e.finish_reason;
      this.stats.set(e.message, {rate: e.timings?.predicted_per_second, usage: e.usage, stopped: e.stopped_by});
      this.generating = null;
    },
    "generation.error": (e) => {
      const message = this.messages.get(e.message);
      if (message) message.error = e.error;
      this.generating = null;
    },
    "session.updated": (e) => {
      this.info = e.session_info;
    },
    "session.deleted": () => {
      this.deleted = true;
    },
  };
}
