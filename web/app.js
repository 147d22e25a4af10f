// The chat page: wires the socket, the conversation shown, the lists and the composer together.

import {Connection} from "./connection.js";
import {Conversation} from "./conversation.js";
import {MessagesView} from "./messages_view.js";
import {SessionsView} from "./sessions_view.js";
import {SettingsView, initialSettings, storedKey} from "./settings_view.js";

const $ = (id) => document.getElementById(id);
let conversation = null;     // the one shown
let degraded = null;         // {level, reason} while the engine says so
const levels = {
  no_run_ahead: "The engine runs with less (step by step)",
  small_batch: "The engine runs with less (small steps)",
  recovering: "The engine is restarting",
  persistence: "Conversations are not saved right now",
};
let problem = "";            // the last error worth showing

async function api(method, path, body) {
  const headers = {"Content-Type": "application/json"};
  if (storedKey()) headers.Authorization = `Bearer ${storedKey()}`;
  const response = await fetch(path, {method, headers, body: body && JSON.stringify(body)});
  const json = await response.json();
  if (!response.ok) throw json.error;
  return json;
}

const connection = new Connection(storedKey);
const messages = new MessagesView($("messages"), {regenerate, edit, show});
const sessions = new SessionsView($("sessions"), $("search"), api, {
  open: (id) => (location.hash = id),
  deleted: (id) => conversation?.id === id && (location.hash = ""),
});
const settings = new SettingsView($("settings"), {
  defaults: async () => (await api("GET", "/props").catch(() => ({})))?.default_generation_settings ?? {},
  save: async (values) => {
    if (conversation) await attempt(api("PATCH", `/v1/sessions/${conversation.id}`, {settings: values}));
  },
  keyChanged: () => connection.reconnect(),
});

// Shows what went wrong; true if nothing did.
async function attempt(promise) {
  try {
    problem = "";
    await promise;
    return true;
  } catch (error) {
    problem = error?.message ?? String(error);
    return false;
  } finally {
    drawBanner();
  }
}

function newMessageId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return "u" + [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// -- the conversation shown -------------------------------------------------------------------------------------------

function openConversation(id) {
  if (conversation?.id === id) return;
  const before = conversation;
  conversation = id ? new Conversation(id) : null;
  sessions.select(id);
  messages.show(conversation);
  draw();
  document.body.classList.remove("sidebar-open");
  if (before && connection.open) connection.request({type: "unsubscribe", session: before.id}).catch(() => {});
  if (conversation) subscribe();
}

// Goes on after the last event seen; without one the server sends a snapshot.
async function subscribe() {
  const c = conversation;
  if (!c || !connection.open) return;
  const frame = {type: "subscribe", session: c.id};
  if (c.seq !== null) frame.from = c.seq;
  try {
    await connection.request(frame);
  } catch (error) {
    if (error.code === "not_found" && conversation === c) location.hash = "";
    else if (error.code !== "disconnected") attempt(Promise.reject(error));
  }
}

async function send(content) {
  if (!conversation) {
    const created = await connection.request({type: "session.create", settings: initialSettings()});
    conversation = new Conversation(created.session);
    history.replaceState(null, "", `#${created.session}`);
    messages.show(conversation);
    await subscribe();
    sessions.current = created.session;
  }
  const frame = {type: "message", session: conversation.id, id: newMessageId(), content};
  if (conversation.leaf) frame.parent = conversation.leaf;
  await connection.request(frame);
  sessions.reload();
}

function regenerate(message) {
  return attempt(connection.request({type: "regenerate", session: conversation.id, message}));
}

function edit(message, content) {
  return attempt(connection.request({type: "edit", session: conversation.id, message, content}));
}

function stop() {
  if (conversation?.generating) attempt(connection.request({type: "stop", session: conversation.id}));
}

function show(id) {
  conversation.show(id);
  draw();
}

// -- events ------------------------------------------------------------------------------------------------------------

connection.addEventListener("event", ({detail: event}) => {
  if (event.type === "degraded") degraded = event;
  if (event.type === "restored") degraded = null;
  if (event.session && event.session === conversation?.id) {
    if (conversation.apply(event) === "gap") {
      conversation.seq = null;  // a snapshot repairs it
      subscribe();
    }
    if (conversation.deleted) location.hash = "";
    if (event.type === "session.updated" || event.type === "snapshot") sessions.update(event.session_info);
  }
  draw();
});
connection.addEventListener("open", () => {
  subscribe();
  sessions.reload();
  loadModel();
  drawBanner();
});
connection.addEventListener("close", () => {
  degraded = null;  // the next server says anew how it is
  draw();
});
connection.addEventListener("problem", ({detail}) => attempt(Promise.reject(detail)));
connection.addEventListener("refused", ({detail}) => {
  attempt(Promise.reject(detail));
  openSettings();
});

async function loadModel() {
  const models = await api("GET", "/v1/models").catch(() => null);
  $("model").textContent = models?.data?.[0]?.id ?? "";
}

// -- drawing -----------------------------------------------------------------------------------------------------------

function draw() {
  messages.refresh();
  $("title").textContent = conversation?.info?.title || "Troupe";
  document.title = conversation?.info?.title ? `${conversation.info.title} · Troupe` : "Troupe";
  const running = !!conversation?.generating;
  $("stop").hidden = !running;
  $("send").hidden = running;
  drawBanner();
}

function drawBanner() {
  let text = problem;
  if (degraded) text = `${levels[degraded.level] ?? `The engine is ${degraded.level}`}: ${degraded.reason}`;
  if (conversation?.generating?.paused === "executor_restart") text = "The engine is restarting; your answer continues.";
  if (!connection.open) text = "Reconnecting…";
  document.body.dataset.connected = connection.open ? "yes" : "no";
  $("banner").hidden = !text;
  $("banner").textContent = text;
}

// The rate of a running answer is a figure of time, not only of events.
setInterval(() => conversation?.generating?.started && !document.hidden && messages.refresh(), 1000);

// -- input -------------------------------------------------------------------------------------------------------------

function openSettings() {
  settings.open(conversation?.info?.settings ?? initialSettings());
}

$("composer").addEventListener("submit", async (e) => {
  e.preventDefault();
  const text = $("input").value.trim();
  if (!text || conversation?.generating) return;
  if (await attempt(send(text))) {
    $("input").value = "";
    fitInput();
  }
});
function fitInput() {
  $("input").style.height = "auto";
  $("input").style.height = `${Math.min($("input").scrollHeight, innerHeight * 0.4)}px`;
}
$("input").addEventListener("input", fitInput);
$("input").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  $("composer").requestSubmit();
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && !$("settings").open) stop();
  if (e.key.toLowerCase() === "o" && e.ctrlKey && e.shiftKey) {
    e.preventDefault();
    location.hash = "";
    $("input").focus();
  }
});
$("stop").onclick = stop;
$("new-chat").onclick = () => {
  location.hash = "";
  document.body.classList.remove("sidebar-open");
  $("input").focus();
};
$("open-settings").onclick = openSettings;
$("open-sidebar").onclick = () => document.body.classList.add("sidebar-open");
$("close-sidebar").onclick = () => document.body.classList.remove("sidebar-open");
addEventListener("hashchange", () => openConversation(location.hash.slice(1) || null));

connection.connect();
openConversation(location.hash.slice(1) || null);
draw();
$("input").focus();
