// The WebSocket of the page: one socket, requests with direct answers, reconnection with back-off.

const SILENT_RETRY_MS = [200, 500, 1000, 2000, 4000, 8000];

export class Connection extends EventTarget {
  #socket = null;
  #waiting = new Map();  // request_id -> {resolve, reject}
  #next = 1;
  #attempt = 0;
  #timer = null;

  constructor(keyOf) {
    super();
    this.keyOf = keyOf;
    this.open = false;
    // Coming back to a sleeping tab should not wait for the back-off.
    for (const name of ["online", "focus"]) window.addEventListener(name, () => this.retryNow());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.retryNow());
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws`, "troupe.v1");
    this.#socket = socket;
    socket.onopen = async () => {
      const key = this.keyOf();
      if (key) {
        try {
          await this.request({type: "auth", key}, true);
        } catch (error) {
          this.#emit("refused", error);
        }
      }
      this.#attempt = 0;
      this.open = true;
      this.#emit("open");
    };
    socket.onmessage = (message) => this.#receive(JSON.parse(message.data));
    socket.onclose = () => {
      if (socket !== this.#socket) return;
      this.open = false;
      for (const {reject} of this.#waiting.values()) reject({code: "disconnected", message: "The connection was lost."});
      this.#waiting.clear();
      this.#emit("close");
      this.#timer = setTimeout(() => this.connect(), SILENT_RETRY_MS[Math.min(this.#attempt++, SILENT_RETRY_MS.length - 1)]);
    };
  }

  retryNow() {
    if (this.open || this.#socket?.readyState === WebSocket.CONNECTING) return;
    clearTimeout(this.#timer);
    this.connect();
  }

  reconnect() {
    this.#socket?.close();
  }

  // Resolves with the direct answer, rejects with {code, message}.
  request(frame, early = false) {
    if (!this.open && !early) return Promise.reject({code: "disconnected", message: "Not connected; trying again."});
    const request_id = `r${this.#next++}`;
    return new Promise((resolve, reject) => {
      this.#waiting.set(request_id, {resolve, reject});
      this.#socket.send(JSON.stringify({...frame, request_id}));
    });
  }

  #receive(frame) {
    const waiting = frame.request_id && this.#waiting.get(frame.request_id);
    if (waiting) {
      this.#waiting.delete(frame.request_id);
      if (frame.type === "error") waiting.reject(frame.error);
      else waiting.resolve(frame);
    } else if (frame.type === "error") {
      this.#emit("problem", frame.error);
    }
    if (frame.session && frame.seq !== undefined || frame.type === "degraded" || frame.type === "restored") this.#emit("event", frame);
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, {detail}));
  }
}
