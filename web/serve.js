// The server's page: texts with their sessions, pictures, and the server's load.
"use strict";

let key = sessionStorage.getItem("key") || "";

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = "Bearer " + key;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  if (answer.status === 401) $("key-form").hidden = false;
  let message = "The server answered " + answer.status + ".";
  try { message = (await answer.json()).error.message; } catch { /* not JSON: the status says it */ }
  throw Object.assign(new Error(message), { status: answer.status });
}

const post = (path, body, options = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
const postForJson = async (path, body) => (await post(path, body)).json();

function say(place, message, wrong) {
  place.textContent = message;
  place.classList.toggle("error", Boolean(wrong));
}

// --- sessions, which this page deletes when it needs them no more -------------------------------

const sessions = {
  read: (model, prompt) => postForJson("/v1/sessions", { model, prompt }),
  fork: (id) => postForJson("/v1/sessions/" + id + "/fork", {}),
  info: async (id) => (await ask("/v1/sessions/" + id)).json(),
  drop: (...ids) => { for (const id of ids) if (id) ask("/v1/sessions/" + id, { method: "DELETE", keepalive: true }).catch(() => {}); },
};

// --- texts -------------------------------------------------------------------------------------

// { name, model, prompt, content, kept, shared, of, base, session, position, begin, bytes, first, seed, rate, stopped }: `kept` is the
// length of the content at `base`, the session before the last answer; `shared` that of the part that text `of` has too;
// `position` counts the tokens that this page has seen of `session`, `begin` those of the prompt.
const texts = [];
let chosen = null, abort = null, made = 0;
const explains = new Set();  // the models that /v1/explain knows
const stored = ["name", "model", "prompt", "content", "kept", "shared", "of", "base", "session", "position", "begin", "bytes", "first",
    "seed", "rate", "keptPosition", "counted"];

function remember() {
  const plain = texts.map((text) => Object.fromEntries(stored.map((name) => [name, text[name]])));
  try {
    sessionStorage.setItem("texts", JSON.stringify({ plain, made, prompt: $("prompt").value }));
  } catch { /* no room: the texts last as long as the page */ }
}

function restore() {
  try {
    const saved = JSON.parse(sessionStorage.getItem("texts") ?? "{}");
    if (saved.prompt) $("prompt").value = saved.prompt;
    for (const plain of saved.plain ?? []) addText(plain);
    made = saved.made ?? texts.length;
    if (texts.length) lookInside(texts.at(-1));
  } catch { sessionStorage.removeItem("texts"); }
}

function addText(fields) {
  const text = { content: "", kept: 0, shared: 0, position: 0, begin: 0, ...fields };
  text.body = el("div.body");
  text.numbers = el("dl.meter");
  const remove = el("button", "Remove", { type: "button", "aria-label": "Remove text " + text.name,
      click: (event) => { event.stopPropagation(); dropText(text); } });
  text.box = el("div.text", el("h3", "Text " + text.name + (text.of ? ", a fork of text " + text.of : ""), remove), text.body, text.numbers,
    { tabIndex: 0, role: "group", "aria-label": "Text " + text.name, click: () => choose(text), focus: () => choose(text) });
  $("texts").append(text.box);
  texts.push(text);
  show(text);
  choose(text);
  return text;
}

function dropText(text) {
  if (text === chosen) abort?.abort();
  sessions.drop(text.base, text.session);
  text.gone = true;
  text.box.remove();
  texts.splice(texts.indexOf(text), 1);
  chosen = null;
  $("inside").hidden = true;
  if (texts.length) choose(texts.at(-1));
  else buttons();
  remember();
}

// The parts of a text: the prompt, what a fork shares, where it parts, what it has of its own.
function show(text) {
  const { shared } = text;
  text.body.replaceChildren(el("span.prompt", text.prompt), el("span.shared", text.content.slice(0, shared)),
    ...(text.of ? [el("span.part", " ↳ parts from text " + text.of + " here ", { role: "note" })] : []), el("span.own",
        text.content.slice(shared)));
  // A session is the state, of constant size but for softmax, and the ids seen, for repetition_penalty: at most the vocabulary.
  text.numbers.replaceChildren(
    el("div", el("dt", "tokens read"), el("dd.read", whole(text.position)),
      el("small", text.rate ? num(text.rate, 3) + " tokens a second" : "\u00A0")),
    el("div", el("dt", "bytes of its session"), el("dd.bytes", text.bytes ? bytes(text.bytes) : "–"),
      el("small", !text.bytes ? "\u00A0" : text.bytes === text.first ? "as after token " + whole(text.begin) + ": it does not grow" :
        bytes(text.first) + " after token " + whole(text.begin) + "; ids seen are added")));
}

function buttons() {
  const idle = !abort && chosen;
  $("more").disabled = $("fork").disabled = !idle;
  $("again").disabled = !idle || chosen.kept === chosen.content.length;
  $("stop").disabled = !abort;
  $("start").disabled = Boolean(abort);
}

function choose(text) {
  const other = chosen !== text;
  chosen = text;
  for (const one of texts) one.box.classList.toggle("chosen", one === text);
  buttons();
  if (other && !abort && text.trace) showInside(text);
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const line = rest.slice(0, end).replace(/^data: /, "");
      rest = rest.slice(end + 2);
      if (line !== "[DONE]") yield JSON.parse(line);
    }
  }
}

// The state after what the page shows of a text, where the server's is missing or further.
async function readAgain(text) {
  sessions.drop(text.base, text.session);
  text.base = text.session = null;
  const info = await sessions.read(text.model, text.prompt + text.content);
  Object.assign(text, { session: info.id, position: info.position, bytes: info.bytes, first: text.first ?? info.bytes, begin: text.begin ||
      info.position });
}

// A fork of the text's state to write into; the state before stays as `base`.
async function prepare(text, again) {
  if (again) {
    sessions.drop(text.session);
    text.content = text.content.slice(0, text.kept);
    text.position = text.keptPosition ?? text.position;
    text.session = null;
  } else {
    if (!text.session) await readAgain(text);
    sessions.drop(text.base);
    [text.base, text.session] = [text.session, null];
    text.kept = text.content.length;
    text.keptPosition = text.position;
  }
  const fork = await sessions.fork(text.base);
  text.session = fork.id;
  if (fork.position !== null && text.counted && fork.position !== text.position) throw Object.assign(new Error("another position"),
      { status: 409 });
}

// Lets the model continue a text, token by token.
async function goOn(text, again = false) {
  abort = new AbortController();
  choose(text);
  const { signal } = abort;
  let stopped = false;
  try {
    try {
      await prepare(text, again);
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) throw error;
      if (again) text.content = text.content.slice(0, text.kept);
      await readAgain(text);
      await prepare(text);
    }
    show(text);
    const answer = await post("/v1/completions", {
      model: text.model, session: text.session, stream: true, max_tokens: Number($("tokens").value),
      temperature: Number($("temperature").value), seed: text.seed, ...(text.counted ? { from_position: text.position } : {}),
    }, { signal });
    let pieces = 0, began = 0, ended = 0;
    for await (const event of events(answer)) {
      if (event.error) throw new Error(event.error.message);
      const piece = event.choices[0]?.text ?? "";
      if (piece) {
        ended = performance.now();
        if (pieces++ === 0) began = ended;
        text.content += piece;
      }
      text.counted = finite(event.position);
      text.position = event.position ?? text.position + (piece ? 1 : 0);
      if (pieces > 1) text.rate = (pieces - 1) / (ended - began) * 1000;
      show(text);
    }
    say($("status"), "Text " + text.name + " is written.");
  } catch (error) {
    stopped = error.name === "AbortError";
    say($("status"), stopped ? "Text " + text.name + " is stopped." : error.message, !stopped);
  }
  abort = null;
  if (text.gone) return sessions.drop(text.base, text.session);
  if (text.session) await settle(text, stopped);
  show(text);
  remember();
  choose(text);
  await lookInside(text);
}

// The server ends a step or two after a Stop; where it has read more than is shown, the text is read again before it continues.
async function settle(text, stopped) {
  try {
    let info = await sessions.info(text.session);
    for (let tries = 0; info.busy && tries < 50; ++tries) {
      await new Promise((done) => setTimeout(done, 100));
      info = await sessions.info(text.session);
    }
    text.bytes = info.bytes;
    text.first ??= info.bytes;
    if (stopped && finite(info.position) && info.position !== text.position) {
      sessions.drop(text.session);
      text.session = null;
      say($("status"), "Text " + text.name + " is stopped at token " + whole(text.position) + "; the model had written " +
          whole(info.position - text.position) + " more, which are dropped.");
    } else if (finite(info.position)) text.position = info.position;
  } catch (error) {
    if (error.status === 404) text.session = null;
  }
}

$("write-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (abort) return;
  for (const text of texts) sessions.drop(text.base, text.session);
  texts.length = made = 0;
  $("texts").replaceChildren();
  $("inside").hidden = true;
  const text = addText({ name: ++made, model: $("write-model").value, prompt: $("prompt").value, seed: Number($("seed").value) });
  try {
    await readAgain(text);
    await goOn(text);
  } catch (error) {
    say($("status"), error.message, true);
    buttons();
  }
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("write-form").requestSubmit(); }
});
$("prompt").addEventListener("input", remember);
$("stop").addEventListener("click", () => abort?.abort());
$("more").addEventListener("click", () => goOn(chosen));
$("again").addEventListener("click", () => { chosen.seed += 1000; goOn(chosen, true); });
$("fork").addEventListener("click", async () => {
  const from = chosen;
  try {
    if (!from.session) await readAgain(from);
    const fork = await sessions.fork(from.session);
    await goOn(addText({ name: ++made, of: from.name, model: from.model, prompt: from.prompt, content: from.content,
        shared: from.content.length, session: fork.id,
      position: from.position, begin: from.begin, bytes: from.bytes, first: from.first, seed: from.seed + made, counted: from.counted }));
  } catch (error) {
    say($("status"), error.message, true);
    buttons();
  }
});
$("write-model").addEventListener("change", () => { $("inside").hidden = true; });

// What the layers make of the text's beginning, where the server can tell.
async function lookInside(text) {
  if (!explains.has(text.model)) return;
  const whole = [...(text.prompt + text.content)].slice(0, 400).join("");
  try {
    text.trace = await postForJson("/v1/explain", { model: text.model, text: whole });
    if (chosen === text) showInside(text);
  } catch { $("inside").hidden = true; }
}

function showInside(text) {
  const { tokens, surprisal, layers } = text.trace;
  $("inside-name").textContent = "text " + text.name;
  $("inside-view").replaceChildren(passageView({ tokens, loss: surprisal, layers: layers.map((l, i) =>
    ({ layer: i + 1, mixer: l.mixer, memberships: l.memberships, effect: l.effect, entropy: l.entropy, means: l.group_means })) }));
  $("inside").hidden = false;
}

// --- pictures ----------------------------------------------------------------------------------

let looking = 0;

async function look(blob, name) {
  if (!blob) return;
  const turn = ++looking;
  $("seen").replaceChildren();
  say($("look-status"), "Looking at " + name + " …");
  try {
    const model = $("look-model").value, inside = explains.has(model);
    const path = (inside ? "/v1/explain?model=" : "/v1/classify?model=") + encodeURIComponent(model);
    const seen = await (await ask(path, { method: "POST", headers: { "Content-Type": blob.type || "image/png" }, body: blob })).json();
    if (turn !== looking) return;
    const [best] = inside ? seen.top : seen.data[0].top;
    say($("look-status"), name + ": " + best.class + ", " + percent(best.probability));
    if (inside) $("seen").replaceChildren(pictureView({ ...seen, name }));
  } catch (error) {
    if (turn === looking) say($("look-status"), error.message, true);
  }
}

function forget() {
  ++looking;
  $("seen").replaceChildren();
  say($("look-status"), "");
  for (const button of $("samples").children) button.setAttribute("aria-pressed", "false");
}

$("samples").append(...kSamples.map(({ name, png }) => {
  const src = "data:image/png;base64," + png;
  return el("button", el("img", { src, alt: "" }), name, { type: "button", "aria-pressed": "false", click: (event) => {
    forget();
    event.currentTarget.setAttribute("aria-pressed", "true");
    look(new Blob([Uint8Array.from(atob(png), (c) => c.charCodeAt(0))], { type: "image/png" }), name);
  } });
}));
$("look-model").addEventListener("change", forget);
// The same file may be chosen again.
$("file").addEventListener("click", () => { $("file").value = ""; });
$("file").addEventListener("change", () => { const [file] = $("file").files; if (file) { forget(); look(file, file.name); } });
for (const name of ["dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(name, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", name === "dragover");
    const file = name === "drop" && event.dataTransfer.files[0];
    if (file) { forget(); look(file, file.name); }
  });
}

// --- load --------------------------------------------------------------------------------------

let last = null;
async function showLoad() {
  if (document.hidden) return;
  let metrics;
  try { metrics = await (await ask("/metrics")).text(); } catch { return; }
  const value = (name) => Number(metrics.match(new RegExp("^" + name + " (.*)$", "m"))?.[1] ?? 0);
  const now = { time: performance.now(), tokens: value("tost_new_tokens_total") };
  const rate = last ? (now.tokens - last.tokens) / (now.time - last.time) * 1000 : 0;
  const hits = value("tost_prefix_hits_total"), all = hits + value("tost_prefix_misses_total");
  $("numbers").replaceChildren(...[
    ["Tokens a second", rate.toFixed(1)], ["Tokens written", whole(now.tokens)], ["Texts running", value("tost_running_texts")],
    ["Texts waiting", value("tost_waiting_texts")], ["Sessions", value("tost_sessions")], ["Session memory",
        bytes(value("tost_session_bytes"))],
    ["Known beginnings", all ? percent(hits / all, 0) : "–"], ["Connections", value("tost_connections")], ["Memory",
        bytes(value("tost_resident_bytes"))],
  ].map(([name, shown]) => el("div", el("dt", name), el("dd", shown))));
  last = now;
}

async function start() {
  try {
    const models = (await (await ask("/v1/models")).json()).data;
    for (const [kind, place, select] of [["language", "write", "write-model"], ["vision", "look", "look-model"]]) {
      const ids = models.filter((m) => m.kind === kind).map((m) => m.id);
      $(place).hidden = ids.length === 0;
      $(select).replaceChildren(...ids.map((id) => el("option", id)));
    }
    for (const model of models) if (model.explains) explains.add(model.id);
    say($("status"), models.map((m) => m.id + " (" + m.kind + ", " + m.precision + ")").join(", "));
    $("key-form").hidden = true;
    if (texts.length === 0) restore();
  } catch (error) {
    say($("status"), error.message, true);
    return;
  }
  showLoad();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value;
  sessionStorage.setItem("key", key);
  start();
});
start();
setInterval(showLoad, 2000);
