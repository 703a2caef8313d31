"use strict";

const $ = (id) => document.getElementById(id);
const make = (name, text, type) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (type) element.className = type;
  return element;
};
let key = sessionStorage.getItem("key") || "";

// --- the server --------------------------------------------------------------------------------

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = "Bearer " + key;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  if (answer.status === 401) $("key-form").hidden = false;
  let message = "The server answered " + answer.status + ".";
  try { message = (await answer.json()).error.message; } catch { /* not JSON: the status says it */ }
  throw new Error(message);
}

async function post(path, body, options = {}) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
}

function say(place, message, wrong) {
  place.textContent = message;
  place.classList.toggle("error", Boolean(wrong));
}

// --- writing -----------------------------------------------------------------------------------

const texts = [];       // { box, words, session, prompt, content, tokens, trace }
let chosen = null, abort = null;

// A text's column. `from`: the text that it is a fork of.
function addText(prompt, from) {
  const text = { prompt, content: from ? from.content : "", session: null, trace: null };
  text.box = make("div", undefined, "text");
  text.box.append(make("h3", "Text " + (texts.length + 1)));
  text.box.append(make("span", prompt, "prompt"));
  text.words = make("span", text.content);
  text.box.append(text.words);
  text.box.addEventListener("click", () => choose(text));
  $("texts").append(text.box);
  texts.push(text);
  choose(text);
  return text;
}

function choose(text) {
  chosen = text;
  for (const other of texts) other.box.classList.toggle("chosen", other === text);
  const idle = !abort && text.session;
  $("more").disabled = $("fork").disabled = !idle;
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

// Lets the model continue a text's session, token by token.
async function goOn(text) {
  abort = new AbortController();
  $("stop").disabled = false;
  $("start").disabled = true;
  choose(text);
  text.words.textContent = text.content;
  try {
    const answer = await post("/v1/completions", {
      model: $("write-model").value, session: text.session, stream: true,
      max_tokens: Number($("tokens").value), temperature: Number($("temperature").value),
      seed: Number($("seed").value) + texts.indexOf(text),
    }, { signal: abort.signal });
    for await (const event of events(answer)) {
      if (event.error) throw new Error(event.error.message);
      text.content += event.choices[0]?.text ?? "";
      text.words.textContent = text.content;
    }
    say($("status"), "Text " + (texts.indexOf(text) + 1) + " is written.");
  } catch (error) {
    if (error.name !== "AbortError") say($("status"), error.message, true);
  }
  abort = null;
  $("stop").disabled = true;
  $("start").disabled = false;
  choose(text);
  await lookInside(text);
}

$("write-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  texts.length = 0;
  $("texts").replaceChildren();
  $("inside").hidden = true;
  const text = addText($("prompt").value);
  try {
    text.session = (await (await post("/v1/sessions", { model: $("write-model").value, prompt: text.prompt })).json()).id;
    await goOn(text);
  } catch (error) {
    say($("status"), error.message, true);
  }
});
$("stop").addEventListener("click", () => abort?.abort());
$("more").addEventListener("click", () => goOn(chosen));
$("fork").addEventListener("click", async () => {
  try {
    const from = chosen;
    const fork = await (await post("/v1/sessions/" + from.session + "/fork", {})).json();
    const text = addText(from.prompt, from);
    text.session = fork.id;
    await goOn(text);
  } catch (error) {
    say($("status"), error.message, true);
  }
});

// Shows the text's tokens, each of which opens what the layers made of it.
async function lookInside(text) {
  const whole = [...(text.prompt + text.content)].slice(0, 300).join("");
  try {
    text.trace = await (await post("/v1/explain", { model: $("write-model").value, text: whole })).json();
  } catch { return; }
  text.words.replaceChildren();
  text.box.querySelector(".prompt").textContent = "";
  const list = make("span");
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Tokens of text " + (texts.indexOf(text) + 1));
  list.tabIndex = 0;
  text.trace.tokens.forEach((token, i) => {
    const span = make("span", token, "token");
    span.setAttribute("role", "option");
    span.addEventListener("mouseenter", () => showToken(text, i));
    list.append(span);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    showToken(text, Math.min(text.trace.tokens.length - 1, Math.max(0, (text.at ?? -1) + step)));
  });
  text.list = list;
  text.words.append(list, (text.prompt + text.content).slice(whole.length));
}

function shade(cell, value) {
  const style = getComputedStyle(document.documentElement);
  const mix = (name) => style.getPropertyValue(name).split(",").map(Number);
  const low = mix("--low"), high = mix("--high"), t = Math.min(1, Math.max(0, value));
  const color = low.map((l, i) => Math.round(l + (high[i] - l) * t));
  cell.style.backgroundColor = "rgb(" + color.join(",") + ")";
  cell.style.color = color[0] * 0.3 + color[1] * 0.6 + color[2] * 0.1 > 128 ? "#111" : "#fff";
}

function showToken(text, i) {
  text.at = i;
  const { tokens, surprisal } = text.trace;
  [...text.list.children].forEach((span, k) => span.setAttribute("aria-selected", String(k === i)));
  $("inside").hidden = false;
  $("inside-token").textContent = "“" + tokens[i] + "”, token " + (i + 1);
  $("inside-surprisal").textContent = i > 0 ? "Its surprisal is " + surprisal[i - 1].toFixed(2) + " nats." : "";
  showHeads(text, "inside-table", (layer) => layer.memberships, (value) => value);
  showHeads(text, "mean-sizes", (layer) => layer.group_means?.norm, (value, most) => value / most);
  showHeads(text, "mean-cosines", (layer) => layer.group_means?.cosine, (value) => (1 + value) / 2);
  for (const part of document.querySelectorAll(".means")) part.hidden = !text.trace.layers.some((l) => l.group_means);
}

// A table of the numbers that a layer's heads have for the chosen token, [head][token]. `shown` gives the shade, from the
// number and the largest one of the layer.
function showHeads(text, table, numbers, shown) {
  const rows = text.trace.layers.map((layer, l) => {
    const row = make("tr"), heads = numbers(layer), name = make("th", "layer " + (l + 1));
    name.scope = "row";
    row.append(name);
    const most = heads ? Math.max(...heads.flat()) || 1 : 1;
    for (const head of heads ?? []) {
      const cell = make("td", head[text.at].toFixed(2));
      shade(cell, shown(head[text.at], most));
      row.append(cell);
    }
    if (!heads) row.append(make("td", "–"));
    return row;
  });
  $(table).tBodies[0].replaceChildren(...rows);
}

// --- pictures ----------------------------------------------------------------------------------

let seen = null;

function bar(label, value, shown) {
  const item = make("li", undefined, "bar"), meter = make("meter");
  meter.value = value;
  meter.setAttribute("aria-label", label + " " + shown);
  item.append(make("span", label), meter, make("span", shown));
  return item;
}

async function explain(file) {
  if (!file) return;
  say($("look-status"), "Looking at " + file.name + " …");
  try {
    const path = "/v1/explain?model=" + encodeURIComponent($("look-model").value);
    seen = await (await ask(path, { method: "POST", headers: { "Content-Type": file.type || "image/png" }, body: file })).json();
  } catch (error) {
    say($("look-status"), error.message, true);
    return;
  }
  say($("look-status"), file.name + ": " + seen.top[0].class + ", " + (100 * seen.top[0].probability).toFixed(1) + " %");
  $("picture").src = seen.images.seen;
  $("picture").alt = "The picture as the model gets it";
  $("classes").replaceChildren(...seen.top.map((c) => bar(c.class, c.probability, (100 * c.probability).toFixed(1) + " %")));
  $("entropy").replaceChildren(...seen.layers.filter((l) => l.entropy_mean !== null).map((l) => bar("layer " + l.layer, l.entropy_mean, l.entropy_mean.toFixed(3))));
  const rates = seen.layers.filter((l) => l.compression.before !== null);
  const most = Math.max(...rates.flatMap((l) => [l.compression.before, l.compression.after]));
  $("compression").replaceChildren(...rates.map(({ layer, compression: c }) =>
    bar("layer " + layer, c.after / most, c.before.toFixed(1) + " → " + c.after.toFixed(1))));
  $("rates").hidden = rates.length === 0;
  $("seen").hidden = $("maps").hidden = false;
  $("layer").max = seen.layers.length;
  showLayer();
  const attention = seen.images.class_attention.flat().filter(Boolean);
  $("attention-title").hidden = attention.length === 0;
  $("attention").replaceChildren(...attention.map((src, i) => mapImage(src, "attention map " + (i + 1))));
}

function mapImage(src, caption, values) {
  const figure = make("figure"), image = make("img");
  image.src = src;
  image.alt = caption;
  figure.append(image, make("figcaption", caption));
  if (values) {
    image.addEventListener("mousemove", (event) => {
      const y = Math.min(values.length - 1, Math.floor(event.offsetY / image.clientHeight * values.length));
      const x = Math.min(values[0].length - 1, Math.floor(event.offsetX / image.clientWidth * values[0].length));
      if (y >= 0 && x >= 0) $("map-value").textContent = caption + ", patch " + (y + 1) + "/" + (x + 1) + ": membership " + values[y][x].toFixed(3);
    });
  }
  return figure;
}

function showLayer() {
  const index = Number($("layer").value) - 1;
  $("layer-value").textContent = String(index + 1);
  const images = seen.images.layers[index].memberships ?? [];
  const values = seen.layers[index].memberships;
  $("heads").replaceChildren(...images.map((src, h) => mapImage(src, "head " + (h + 1), values?.[h])));
  if (images.length === 0) $("heads").replaceChildren(make("p", "This layer has no memberships.", "note"));
}

$("layer").addEventListener("input", showLayer);
$("file").addEventListener("change", () => explain($("file").files[0]));
for (const name of ["dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(name, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", name === "dragover");
    if (name === "drop") explain(event.dataTransfer.files[0]);
  });
}

// --- load --------------------------------------------------------------------------------------

let last = null;
async function showLoad() {
  if (document.hidden) return;
  let metrics;
  try { metrics = await (await ask("/metrics")).text(); } catch { return; }
  const value = (name) => Number(metrics.match(new RegExp("^" + name + " (.*)$", "m"))?.[1] ?? 0);
  const now = { time: performance.now(), tokens: value("tost_new_tokens_total"), steps: value("tost_steps_total") };
  const rate = last ? (now.tokens - last.tokens) / (now.time - last.time) * 1000 : 0;
  const bytes = (n) => (n / 2 ** 20).toFixed(n < 2 ** 27 ? 1 : 0) + " MiB";
  const hits = value("tost_prefix_hits_total"), all = hits + value("tost_prefix_misses_total");
  const numbers = [
    ["Tokens a second", rate.toFixed(1)], ["Tokens written", now.tokens], ["Texts running", value("tost_running_texts")],
    ["Texts waiting", value("tost_waiting_texts")], ["Sessions", value("tost_sessions")],
    ["Session memory", bytes(value("tost_session_bytes"))], ["Known beginnings", all ? Math.round(100 * hits / all) + " %" : "–"],
    ["Connections", value("tost_connections")], ["Memory", bytes(value("tost_resident_bytes"))],
  ];
  $("numbers").replaceChildren(...numbers.map(([name, shown]) => {
    const box = make("div");
    box.append(make("dt", name), make("dd", String(shown)));
    return box;
  }));
  last = now;
}

async function start() {
  try {
    const models = (await (await ask("/v1/models")).json()).data;
    for (const [kind, section, select] of [["language", "write", "write-model"], ["vision", "look", "look-model"]]) {
      const ids = models.filter((m) => m.kind === kind).map((m) => m.id);
      $(section).hidden = ids.length === 0;
      $(select).replaceChildren(...ids.map((id) => make("option", id)));
    }
    say($("status"), models.map((m) => m.id + " (" + m.kind + ", " + m.precision + ")").join(", "));
    $("key-form").hidden = true;
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
