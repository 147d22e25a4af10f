// The list of conversations: newest first, search, rename, delete.

export class SessionsView {
  #sessions = [];
  #search = "";
  #timer = null;

  // api(method, path, body) -> JSON; actions: {open(id), deleted(id)}
  constructor(list, search, api, actions) {
    this.list = list;
    this.api = api;
    this.actions = actions;
    this.current = null;
    search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => {
        this.#search = search.value.trim();
        this.reload();
      }, 200);
    });
  }

  async reload() {
    const query = new URLSearchParams({limit: "200"});
    if (this.#search) query.set("search", this.#search);
    try {
      this.#sessions = (await this.api("GET", `/v1/sessions?${query}`)).data;
    } catch {
      return;  // the banner tells that the server is away; the list stays as it is
    }
    this.draw();
  }

  select(id) {
    this.current = id;
    this.draw();
  }

  update(info) {
    const known = this.#sessions.find((s) => s.id === info.id);
    if (known) Object.assign(known, info);
    else this.#sessions.unshift(info);
    this.draw();
  }

  draw() {
    this.list.replaceChildren(...this.#sessions.map((s) => this.#row(s)));
  }

  #row(session) {
    const item = document.createElement("li");
    item.classList.toggle("current", session.id === this.current);
    item.dataset.id = session.id;
    const open = Object.assign(document.createElement("button"), {className: "plain open", textContent: session.title || "New conversation"});
    open.onclick = () => this.actions.open(session.id);
    const rename = Object.assign(document.createElement("button"), {className: "plain small rename", textContent: "Rename", ariaLabel: "Rename"});
    rename.onclick = () => this.#rename(item, session);
    const remove = Object.assign(document.createElement("button"), {className: "plain small delete", textContent: "Delete", ariaLabel: "Delete"});
    remove.onclick = () => this.#remove(session);
    item.append(open, rename, remove);
    return item;
  }

  #rename(item, session) {
    const box = Object.assign(document.createElement("input"), {value: session.title, ariaLabel: "Title"});
    let ended = false;
    const end = async (save) => {
      if (ended) return;
      ended = true;
      if (save && box.value.trim()) this.update(await this.api("PATCH", `/v1/sessions/${session.id}`, {title: box.value.trim()}));
      this.draw();
    };
    box.onkeydown = (e) => {
      if (e.key === "Enter") end(true);
      if (e.key === "Escape") end(false);
    };
    box.onblur = () => end(true);
    item.replaceChildren(box);
    box.select();
  }

  async #remove(session) {
    if (!confirm(`Delete "${session.title || "New conversation"}"?`)) return;
    await this.api("DELETE", `/v1/sessions/${session.id}`);
    this.#sessions = this.#sessions.filter((s) => s.id !== session.id);
    this.actions.deleted(session.id);
    this.draw();
  }
}
