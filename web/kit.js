// What every page is made of: elements, numbers, tables, charts and maps. Text is set as text only.
"use strict";

const $ = (id) => document.getElementById(id);

// el("td.n", "12", {title: "…"}, child): a string is text, an object attributes and listeners.
function el(spec, ...parts) {
  const [name, ...classes] = spec.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const part of parts.flat()) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node) element.append(part);
    else if (typeof part === "object") setAll(element, part);
    else element.append(String(part));
  }
  return element;
}

function setAll(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (["hidden", "disabled", "value", "checked", "tabIndex", "src", "open"].includes(key)) element[key] = value;
    else if (value !== undefined) element.setAttribute(key, String(value));
  }
}

// --- numbers -----------------------------------------------------------------------------------

const finite = (x) => typeof x === "number" && Number.isFinite(x);

// `digits` significant digits, all those before the point below a million; "–" for what is missing.
function num(x, digits = 3) {
  if (!finite(x)) return "–";
  if (Math.abs(x) < 1e6 && Math.abs(x) >= 10 ** digits - 0.5) return x.toFixed(0);
  const text = String(Number(x.toPrecision(digits)));
  return text.replace("-", "−");
}
const fixed = (x, digits) => finite(x) ? x.toFixed(digits).replace("-", "−") : "–";
const percent = (x, digits = 1) => finite(x) ? (100 * x).toFixed(digits) + " %" : "–";
// "0.64 ± 0.11", without the deviation of fewer than two values.
const spread = (s, digits = 3) => !s ? "–" : num(s.mean, digits) + (s.count > 1 && finite(s.std) ? " ± " + num(s.std, 2) : "");
const nearOne = (x) => x < 1 && x > 1 - 1e-3 ? "1 − " + num(1 - x, 2) : num(x, 4);
const whole = (n) => finite(n) ? n.toLocaleString("en") : "–";
function bytes(n) {
  if (n < 1024) return n + " B";
  const power = Math.min(3, Math.floor(Math.log2(n) / 10)), size = n / 1024 ** power;
  return size.toFixed(size < 100 ? 1 : 0) + " " + ["", "KiB", "MiB", "GiB"][power];
}
const mean = (values) => {
  const known = values.filter(finite);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : NaN;
};
const range = (count) => Array.from({ length: count }, (_, i) => i);
function extremes(values) {
  let low = Infinity, high = -Infinity;
  for (const x of values.flat(9)) if (finite(x)) { low = Math.min(low, x); high = Math.max(high, x); }
  return low <= high ? [low, high] : [0, 1];
}

// --- colours -----------------------------------------------------------------------------------

// Even steps of lightness, so that they are told apart in grey as well; NaN is neutral.
const kSequential = [[38, 21, 71], [61, 59, 128], [43, 103, 145], [31, 144, 141], [74, 184, 117], [167, 216, 70], [253, 231, 60]];
const kDiverging = [[23, 78, 150], [88, 146, 200], [170, 200, 224], [236, 234, 229], [240, 184, 146], [217, 110, 66], [160, 42, 20]];
const kGroups = ["#3b7dd8", "#e0752d", "#3f9e4d", "#c73e4a", "#8a63c9", "#8c6239", "#d868ad", "#6f7378", "#a8a820", "#23a9b8",
  "#1d4f91", "#f2b134", "#1f6b3a", "#f08a8a", "#5b2a86", "#b8d67a"];
const groupColor = (group) => kGroups[group % kGroups.length];
const rgbOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function colorAt(stops, t) {
  if (!finite(t)) return [128, 128, 128];
  const at = Math.min(1, Math.max(0, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
  return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)));
}
const part = (x, low, high) => finite(x) ? (high > low ? (x - low) / (high - low) : 0.5) : NaN;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function shade(cell, color) {
  cell.style.backgroundColor = "rgb(" + color.join(",") + ")";
  cell.style.color = color[0] * 0.3 + color[1] * 0.59 + color[2] * 0.11 > 128 ? "#111" : "#fff";
  return cell;
}

// --- text blocks -------------------------------------------------------------------------------

// A section of the page with its line in the contents.
function section(id, title, lead) {
  const made = el("section", { id, "aria-labelledby": id + "-title" }, el("h2", title, { id: id + "-title" }), lead && el("p.lead", lead));
  $("main").append(made);
  $("contents")?.append(el("a", title, { href: "#" + id }));
  return made;
}

const facts = (rows) => el("dl", rows.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) =>
  el("div", el("dt", name), el("dd", value))));

// Cells that begin with a digit, a sign or a dash are numbers.
function table({ caption, head, rows, id }) {
  const cell = (text) => text instanceof Node ? el("td", text) : el(/^([−–]?[\d.]|–$)/.test(text) ? "td.n" : "td", text);
  const numeric = head.map((_, i) => rows.length > 0 && rows.every((row) => cell(row[i]).className === "n"));
  return labelled(caption, el("table.list", { id, "aria-label": caption ?? head.join(", ") },
      el("thead", el("tr", head.map((text, i) => el(numeric[i] ? "th.n" : "th", text, { scope: "col" })))),
      el("tbody", rows.map((row) => el("tr", row.map(cell))))));
}

// The words above a table stay in place where the table scrolls sideways.
const labelled = (caption, made) => el("div.labelled", caption && el("p.note", caption),
  el("div.scroll", { tabIndex: 0, role: "region", "aria-label": made.getAttribute("aria-label") }, made));

// Numbers [row][column] as shaded cells. `color` gives the colour of a number.
function shadedTable({ caption, rows, columns, values, color, text = (x) => fixed(x, 2), chosen }) {
  return labelled(caption, el("table.shaded", { "aria-label": caption },
    columns && el("thead", el("tr", el("td"), columns.map((name) => el("th", name, { scope: "col" })))),
    el("tbody", values.map((line, r) => el(r === chosen ? "tr.chosen" : "tr", el("th", rows[r], { scope: "row" }),
      (line ?? []).map((x) => shade(el("td", text(x)), color(x, r)))))))); 
}

const bars = (items) => el("ol.bars", items.map(({ name, value, most = 1, text }) =>
  el("li", el("span", name), el("meter", { value: finite(value) ? value / most : 0, "aria-label": name + " " + text }), el("span", text))));

const folded = (summary, ...inside) => el("details", el("summary", summary), inside);

// A labelled choice; `options` are [value, text]. `changed` gets the value as a text.
function choice(label, options, value, changed) {
  const id = "choice-" + (choice.count = (choice.count ?? 0) + 1);
  const select = el("select", { id, change: () => changed(select.value) }, options.map(([v, text]) => el("option", text, { value: v })));
  select.value = String(value);
  return el("span", el("label", label, { for: id }), select);
}

// --- maps on canvas ----------------------------------------------------------------------------

// colors(row, column) gives each pixel; with `picture` (an image) the colours lie over it in grey.
function drawMap(canvas, rows, columns, colors, picture, strength = 0.62) {
  const pixels = new ImageData(columns, rows);
  for (let y = 0; y < rows; ++y) {
    for (let x = 0; x < columns; ++x) pixels.data.set([...colors(y, x), 255], 4 * (y * columns + x));
  }
  const context = canvas.getContext("2d");
  if (!picture) {
    [canvas.width, canvas.height] = [columns, rows];
    context.putImageData(pixels, 0, 0);
    return;
  }
  const small = el("canvas", { width: columns, height: rows });
  small.getContext("2d").putImageData(pixels, 0, 0);
  const scale = Math.max(1, Math.ceil(320 / picture.naturalWidth));
  [canvas.width, canvas.height] = [picture.naturalWidth * scale, picture.naturalHeight * scale];
  context.imageSmoothingEnabled = false;
  context.filter = strength < 1 && strength > 0 ? "grayscale(1)" : "none";
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  context.filter = "none";
  context.globalAlpha = strength;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  context.globalAlpha = 1;
}

function mapCanvas(values, label, { low, high, stops = kSequential } = {}) {
  const [least, most] = extremes(values);
  const canvas = el("canvas.map", { role: "img", "aria-label": label });
  drawMap(canvas, values.length, values[0].length, (y, x) => colorAt(stops, part(values[y][x], low ?? least, high ?? most)));
  return canvas;
}

// --- charts ------------------------------------------------------------------------------------

const kSeries = [["#1668a8", "#6db8f2"], ["#c2560c", "#ff9d5c"], ["#2b7f3f", "#74c98a"], ["#8a3fa8", "#cf92ea"], ["#a5303f", "#ff8f9c"],
  ["#5d5a52", "#b9b6ad"], ["#0d7f86", "#5fd0d6"], ["#7d6608", "#e0c24d"]];
const charts = [];
let printing = false;
const darkNow = () => !printing && matchMedia("(prefers-color-scheme: dark)").matches;

// series: {name, x, y, spread, dashed, color}; lines: {at, name}. Its numbers are a table below it.
function chart({ title, x, y, series, lines = [], caption, height }) {
  const canvas = el("canvas", { role: "img", "aria-label": title + ": " + series.map((s) => s.name).join(", ") + " by " + x.label +
      "; the numbers are in the table below." });
  const places = [...new Set(series.flatMap((s) => s.x))].sort((a, b) => a - b);
  const at = series.map((s) => new Map(s.x.map((place, i) => [place, i])));
  const rows = () => places.map((place) => [num(place, 6), ...series.map((s, k) => {
    const i = at[k].get(place);
    return i === undefined || !finite(s.y[i]) ? "–" : num(s.y[i], 4) + (s.spread && finite(s.spread[i]) ? " ± " + num(s.spread[i], 2) : "");
  })]);
  const box = el("details", el("summary", "Numbers"), { toggle: () => {
    if (box.open && !box.querySelector("table")) box.append(table({ head: [x.label, ...series.map((s) => s.name)], rows: rows() }));
  } });
  const figure = el("figure", el("h3", title), el("div.plot", canvas), caption && el("figcaption", caption), box);
  if (height) figure.querySelector(".plot").style.height = height;
  const made = { canvas, spec: { x, y, series, lines }, chart: null };
  charts.push(made);
  requestAnimationFrame(() => drawChart(made));
  return figure;
}

function datasetsOf({ series, lines }, places) {
  const dark = darkNow() ? 1 : 0, sets = [];
  series.forEach((s, i) => {
    const color = kSeries[(s.color ?? i) % kSeries.length][dark];
    const points = (value) => s.x.map((px, k) => ({ x: px, y: finite(s.y[k]) ? value(s.y[k], k) : null }));
    if (s.spread?.some((d) => finite(d) && d > 0)) {
      const edge = { borderWidth: 0, pointRadius: 0, backgroundColor: color + "2e", band: true };
      sets.push({ ...edge, data: points((v, k) => v - (s.spread[k] || 0)), fill: false });
      sets.push({ ...edge, data: points((v, k) => v + (s.spread[k] || 0)), fill: "-1" });
    }
    sets.push({ label: s.name, data: points((v) => v), borderColor: color, backgroundColor: color, borderWidth: 2,
      borderDash: s.dashed ? [6, 4] : [], pointRadius: s.x.length > 40 ? 0 : 3, fill: false, spanGaps: false });
  });
  for (const line of lines) {
    sets.push({ label: line.name, data: [places[0], places.at(-1)].map((px) => ({ x: px, y: line.at })), borderColor: css("--soft"),
      borderWidth: 1.5, borderDash: [2, 3], pointRadius: 0, fill: false });
  }
  return sets;
}

function drawChart(made) {
  if (!made.canvas.isConnected) return;
  made.chart?.destroy();
  const { x, y, series, lines } = made.spec;
  const places = series.flatMap((s) => s.x).sort((a, b) => a - b);
  const axis = (of) => ({ type: of.log ? "logarithmic" : "linear", title: { display: true, text: of.label, color: css("--soft") },
    min: of.min, max: of.max, ticks: { color: css("--soft"), precision: of.integer ? 0 : undefined, maxTicksLimit: 12 },
        grid: { color: css("--line") } });
  made.chart = new Chart(made.canvas, { type: "line", data: { datasets: datasetsOf({ series, lines }, places) }, options: {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: true, interaction: { mode: "nearest", intersect: false },
    scales: { x: axis(x), y: axis(y) },
    plugins: { legend: { position: "bottom", labels: { color: css("--ink"), boxWidth: 22, boxHeight: 2, filter: (item,
        data) => !data.datasets[item.datasetIndex].band } },
      tooltip: { filter: (item) => !item.dataset.band, callbacks: { label: (item) => item.dataset.label + ": " + num(item.parsed.y,
          4) } } },
  } });
}

// Charts that left the page are forgotten.
function redraw() {
  for (let i = charts.length; i-- > 0;) {
    if (charts[i].canvas.isConnected) drawChart(charts[i]);
    else { charts[i].chart?.destroy(); charts.splice(i, 1); }
  }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", () => {
  printing = true;
  for (const box of document.querySelectorAll("details:not([open])")) { box.open = true; box.dataset.folded = "1"; }
  redraw();
});
addEventListener("afterprint", () => {
  printing = false;
  for (const box of document.querySelectorAll("details[data-folded]")) { box.open = false; delete box.dataset.folded; }
  redraw();
});

// --- choosing among many by mouse and keys -----------------------------------------------------

// Arrow keys, Home and End move within rows x columns of places; `moved` gets the new place.
function moveKeys(event, place, columns, count, moved) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  const to = event.key === "Home" ? 0 : event.key === "End" ? count - 1 : step === undefined ? undefined : place + step;
  if (to === undefined) return;
  event.preventDefault();
  moved(Math.min(count - 1, Math.max(0, to)));
}
