// The page in a tab: the engine as WebAssembly, a shipped text model, and what they say of themselves.
"use strict";

const kModel = "words.safetensors";
const kPiece = 4096;  // characters of a long text that are read between two looks at the page
// A module with one vector instruction, which engines without SIMD refuse.
const kSimd = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]);
const pause = () => new Promise((resume) => setTimeout(resume));

let engine, model = 0, text = 0, about, running = false;

const call = (name, result, types = [], values = []) => engine.ccall("tost_" + name, result, types, values);
const failure = () => call("error", "string");

// A pointer to the bytes, for the length of `use`.
function withBytes(bytes, use) {
  const place = engine._malloc(bytes.length + 1);
  try {
    engine.HEAPU8.set(bytes, place);
    engine.HEAPU8[place + bytes.length] = 0;
    return use(place, bytes.length);
  } finally {
    engine._free(place);
  }
}

function show() {
  const tokens = call("tokens_number", "number", ["number"], [text]);
  $("read").textContent = whole(tokens);
  $("bytes").textContent = tokens > 0 ? whole(call("state_bytes_number", "number", ["number"], [text])) : "–";
  const { depth, heads } = about.config, place = engine._malloc(4 * depth * heads);
  const count = call("memberships_number", "number", ["number", "number", "number"], [text, place, depth * heads]);
  const values = Array.from(engine.HEAPF32.subarray(place / 4, place / 4 + count));
  engine._free(place);
  if (count === 0) return $("heads").replaceChildren();
  const rows = range(depth).map((layer) => values.slice(layer * heads, (layer + 1) * heads));
  $("heads").replaceChildren(shadedTable({
    rows: range(depth).map((i) => "layer " + (i + 1)), columns: range(heads).map((i) => "head " + (i + 1)), values: rows,
    color: (x) => colorAt(kSequential, x), text: (x) => fixed(x, 2) }));
}

function begin() {
  if (text) call("end", null, ["number"], [text]);
  text = call("begin_simple", "number", ["number", "number", "number"],
    [model, Number($("temperature").value), Number($("seed").value)]);
  if (!text) throw new Error(failure());
  $("text").replaceChildren();
  show();
}

async function read(given) {
  for (let at = 0; at < given.length && running;) {
    let end = Math.min(given.length, at + kPiece);
    // Between words, so that pieces are cut into the same tokens as the whole.
    if (end < given.length) end = Math.max(given.lastIndexOf(" ", end), given.lastIndexOf("\n", end), at + 1);
    const part = given.slice(at, end);
    const tokens = withBytes(new TextEncoder().encode(part), (place, count) =>
      call("read_number", "number", ["number", "number", "number"], [text, place, count]));
    if (tokens < 0) throw new Error(failure());
    at = end;
    if (at < given.length) {
      $("status").textContent = "Reading: " + percent(at / given.length, 0);
      show();
      await pause();
    }
  }
  $("text").append(el("span.given", given.length > 2000 ? given.slice(0, 1000) + " … " + given.slice(-1000) : given));
}

async function write() {
  const out = el("span"), start = performance.now();
  let written = 0, shown = start;
  $("text").append(out);
  while (running) {
    const piece = call("write", "string", ["number"], [text]);
    if (piece === null || piece === undefined) {
      if (failure()) throw new Error(failure());
      break;
    }
    out.append(piece);
    ++written;
    const now = performance.now();
    if (now - shown < 50) continue;
    shown = now;
    $("rate").textContent = whole(Math.round(1000 * written / (now - start)));
    $("text").scrollTop = $("text").scrollHeight;
    show();
    await pause();
  }
}

async function run() {
  running = true;
  $("error").textContent = "";
  $("start").disabled = $("again").disabled = true;
  $("stop").disabled = false;
  try {
    if (!text) begin();
    const given = $("prompt").value;
    if (!given && call("tokens_number", "number", ["number"], [text]) === 0) throw new Error("Give the text a beginning.");
    await read(given);
    $("prompt").value = "";
    $("status").textContent = "Writing …";
    await write();
  } catch (error) {
    $("error").textContent = error.message;
  }
  running = false;
  $("start").disabled = $("again").disabled = false;
  $("stop").disabled = true;
  $("status").textContent = about.config.name + ", in this tab";
  show();
}

const kMostSide = 4096;  // of a picture: a larger one is made smaller before the model sees it
let looking = 0, pictureModels = new Map();

async function loaded(file) {
  const answer = await fetch(file);
  if (!answer.ok) throw new Error("The model " + file + " is not in the folder of this page (" + answer.status + ").");
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const opened = withBytes(bytes, (place, count) => call("open_bytes", "number", ["number", "number"], [place, count]));
  if (!opened) throw new Error(failure());
  return { opened, about: JSON.parse(call("about", "string", ["number"], [opened])) };
}

// The pixels of a picture, three bytes each.
async function pixelsOf(blob, name) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { imageOrientation: "none", colorSpaceConversion: "none" });
  } catch {
    throw new Error(name + " is no picture that this browser can read.");
  }
  const scale = Math.min(1, kMostSide / Math.max(bitmap.width, bitmap.height));
  const width = Math.max(1, Math.round(scale * bitmap.width)), height = Math.max(1, Math.round(scale * bitmap.height));
  const canvas = new OffscreenCanvas(width, height), area = canvas.getContext("2d");
  area.drawImage(bitmap, 0, 0, width, height);
  const rgba = area.getImageData(0, 0, width, height).data, rgb = new Uint8Array(3 * width * height);
  for (let i = 0, to = 0; i < rgba.length; i += 4) {
    for (let c = 0; c < 3; ++c) rgb[to++] = rgba[i + c];
  }
  return { width, height, rgb };
}

async function look(blob, name) {
  const turn = ++looking, chosen = $("look-model").value;
  $("seen").replaceChildren();
  $("look-status").textContent = "Looking at " + name + " …";
  try {
    if (!pictureModels.has(chosen)) pictureModels.set(chosen, await loaded(chosen + ".safetensors"));
    const { opened, about: { classes } } = pictureModels.get(chosen), { width, height, rgb } = await pixelsOf(blob, name);
    const start = performance.now(), place = engine._malloc(4 * classes.length);
    const count = withBytes(rgb, (pixels) =>
      call("predict_number", "number", Array(6).fill("number"), [opened, pixels, width, height, place, classes.length]));
    const taken = performance.now() - start, shares = Array.from(engine.HEAPF32.subarray(place / 4, place / 4 + classes.length));
    engine._free(place);
    if (count < 0) throw new Error(failure());
    if (turn !== looking) return;
    const best = range(classes.length).sort((a, b) => shares[b] - shares[a]).slice(0, 5);
    $("look-status").textContent = name + ": " + classes[best[0]] + ", " + percent(shares[best[0]]) + ", in " + fixed(taken, 1) + " ms";
    $("seen").replaceChildren(bars(best.map((i) => ({ name: classes[i], value: shares[i], text: percent(shares[i]) }))));
  } catch (error) {
    if (turn === looking) $("look-status").textContent = error.message;
  }
}

$("samples").append(...kSamples.map(({ name, png }) => el("button",
  el("img", { src: "data:image/png;base64," + png, alt: "" }), name, { type: "button", disabled: true, click: () =>
    look(new Blob([Uint8Array.from(atob(png), (c) => c.charCodeAt(0))], { type: "image/png" }), name) })));
$("file").addEventListener("click", () => { $("file").value = ""; });  // the same file may be chosen again
$("file").addEventListener("change", () => { const [file] = $("file").files; if (file) look(file, file.name); });
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (engine && event.dataTransfer.files[0]) look(event.dataTransfer.files[0], event.dataTransfer.files[0].name);
});

async function open() {
  if (!WebAssembly.validate(kSimd)) throw new Error("This browser has no SIMD in WebAssembly; use one from 2021 or later.");
  engine = await TostEngine();
  ({ opened: model, about } = await loaded(kModel));
  for (const button of $("samples").children) button.disabled = false;
  $("status").textContent = about.config.name + ", in this tab";
  $("start").disabled = false;
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); if (!running) run(); });
$("prompt").addEventListener("keydown", (event) => { if (event.key === "Enter" && event.ctrlKey && !running) run(); });
$("stop").addEventListener("click", () => { running = false; });
$("again").addEventListener("click", () => { if (!running) begin(); });
open().catch((error) => { $("status").textContent = ""; $("error").textContent = error.message; });
