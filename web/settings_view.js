// The settings dialog: system prompt and sampling of the conversation; what is left empty follows the server.

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "dry_multiplier", "max_tokens", "seed"];
const STORED = "troupe.settings";

export const OWN_SYSTEM_PROMPT = "You are a helpful assistant.";

// Settings of new conversations: what was saved last in this browser.
export function initialSettings() {
  try {
    return {system: OWN_SYSTEM_PROMPT, ...JSON.parse(localStorage.getItem(STORED) ?? "{}")};
  } catch {
    return {system: OWN_SYSTEM_PROMPT};
  }
}

export const storedKey = () => localStorage.getItem("troupe.key") ?? "";

export class SettingsView {
  // defaults(): the server's sampling defaults; save(settings): stores them with the conversation; keyChanged().
  constructor(dialog, {defaults, save, keyChanged}) {
    this.dialog = dialog;
    this.field = (name) => dialog.querySelector(`#set-${name}`);
    dialog.addEventListener("close", async () => {
      if (dialog.returnValue !== "save") return;
      const settings = this.#read();
      localStorage.setItem(STORED, JSON.stringify(settings));
      const key = this.field("key").value.trim();
      if (key !== storedKey()) {
        localStorage.setItem("troupe.key", key);
        keyChanged();
      }
      await save(settings);
    });
    this.defaults = defaults;
  }

  async open(settings) {
    this.field("system").value = settings.system ?? "";
    const defaults = await this.defaults();
    for (const name of NUMBERS) {
      this.field(name).value = settings[name] ?? "";
      if (defaults[name] !== undefined && name !== "seed" && name !== "max_tokens") this.field(name).placeholder = `server: ${defaults[name]}`;
    }
    this.field("key").value = storedKey();
    this.dialog.returnValue = "";
    this.dialog.showModal();
  }

  #read() {
    const settings = {system: this.field("system").value};
    for (const name of NUMBERS) if (this.field(name).value !== "") settings[name] = Number(this.field(name).value);
    return settings;
  }
}
