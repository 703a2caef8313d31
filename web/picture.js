// One picture inside an image model: a layer and a head to choose, a patch to point at. Used by reports and by the server.
"use strict";

// `data` is a picture of the JSON of `tost explain` (docs/explain.md); `heads` those with maps of their own, from 1.
function pictureView(data, heads) {
  const { rows, columns, layers, class_attention: blocks } = data;
  const hasHeads = layers.some((l) => l.memberships);
  const all = layers.find((l) => l.memberships)?.memberships.length ?? 0;
  const shown = heads ?? range(all).map((h) => h + 1);
  const state = { layer: layers.length, map: hasHeads ? "likeliest" : "norm", patch: Math.floor(rows / 2) * columns +
      Math.floor(columns / 2) };
  const picture = el("img", { src: data.image, alt: "" });
  const big = el("canvas.map", { tabIndex: 0, role: "application", "aria-roledescription": "map of patches" });
  const mark = el("div.mark", { "aria-hidden": "true" });
  const readout = el("p", { role: "status", "aria-live": "polite", class: "readout" });
  const values = el("div"), path = el("div"), strip = el("div.thumbs"), overview = el("div"), legend = el("p.note");
  const bare = el("input", { type: "checkbox", id: "bare-" + (pictureView.count = (pictureView.count ?? 0) + 1), change: () => show() });

  const layerOf = () => layers[state.layer - 1];
  const at = (grid, patch = state.patch) => grid?.[Math.floor(patch / columns)][patch % columns];

  // What a map shows: its numbers, their colours and a sentence.
  function mapOf(kind, layer) {
    const [what, first, second] = kind.split("/");
    if (what === "likeliest") {
      return { grid: layer.likeliest_head, colors: (v) => rgbOf(groupColor(v - 1)),
          text: "The head with the largest membership, in its colour." };
    }
    if (what === "attention") {
      const block = blocks[first - 1];
      return sequential(block.attention[second - 1], "Share of the class token's attention in block " + first + ", head " + second +
        "; " + percent(block.on_itself[second - 1], 0) + " stays with the class token.");
    }
    if (what === "head") return sequential(layer.memberships[first - 1], "Membership in head " + first +
        "; heads without influence would show " + num(1 / all) + " everywhere.");
    if (what === "entropy") return sequential(layer.entropy, "Entropy over heads divided by log H: 0 decided, 1 undecided.");
    return sequential(layer.norms, "Length of the tokens after the layer.", 0);
  }
  function sequential(grid, text, from) {
    const [least, high] = extremes(grid), low = from ?? least;
    const digits = high > low && high > 0 ? Math.min(9, 2 + Math.max(0, Math.ceil(-Math.log10(1 - low / high)))) : 2;
    return { grid, colors: (v) => colorAt(kSequential, part(v, low, high)), text: text + " From " + num(low, digits) + " (dark) to " +
        num(high, digits) + " (bright)." };
  }

  const kinds = [...(hasHeads ? [["likeliest", "most likely head"], ...shown.map((h) => ["head/" + h, "head " + h]), ["entropy",
      "entropy"]] : []),
    ["norm", "token norm"], ...blocks.flatMap((b) => (heads ?? range(b.attention.length).map((h) => h + 1)).map((h) =>
      ["attention/" + b.block + "/" + h, "class attention, block " + b.block + ", head " + h]))];

  const slider = el("input", { type: "range", min: 1, max: layers.length, id: bare.id + "-layer", "aria-label": "Layer",
      input: () => show({ layer: Number(slider.value) }) });
  const layerText = el("output", { for: slider.id });
  const mapChoice = choice("Show", kinds, state.map, (map) => show({ map }));
  const select = mapChoice.querySelector("select");

  function show(change = {}) {
    Object.assign(state, change);
    const layer = layerOf();
    const map = mapOf(state.map, layer.memberships || !/likeliest|head|entropy/.test(state.map) || state.map.startsWith("attention") ?
        layer : layers.find((l) => l.memberships));
    slider.value = state.layer;
    layerText.textContent = " " + state.layer + " of " + layers.length;
    select.value = state.map;
    drawMap(big, rows, columns, (y, x) => map.colors(map.grid[y][x]), picture, bare.checked ? 1 : 0.62);
    big.setAttribute("aria-label", select.selectedOptions[0].textContent + ", layer " + state.layer + ", over " + data.name +
        ". Arrow keys choose a patch.");
    legend.replaceChildren(map.text);
    if (hasHeads && state.map === "likeliest") {
      legend.append(...range(all).flatMap((h) => [el("span.key", { style: undefined, "aria-hidden": "true" }), "head " + (h + 1)]));
      legend.querySelectorAll(".key").forEach((key, h) => { key.style.background = groupColor(h); });
    }
    if (change.patch === undefined) showThumbs();
    showPatch();
  }

  function showThumbs() {
    const layer = layerOf();
    const thumb = (kind, name) => {
      const map = mapOf(kind, layer), canvas = el("canvas.map", { "aria-hidden": "true" });
      drawMap(canvas, rows, columns, (y, x) => map.colors(map.grid[y][x]));
      return el("button", canvas, name, { type: "button", "aria-pressed": state.map === kind, click: () => show({ map: kind }) });
    };
    strip.replaceChildren(...kinds.filter(([kind]) => kind.startsWith("attention") || kind === "norm" || layer.memberships).map(([kind,
        name]) => thumb(kind, name)));
  }

  function showPatch() {
    const layer = layerOf(), y = Math.floor(state.patch / columns), x = state.patch % columns;
    mark.style.left = 100 * x / columns + "%";
    mark.style.top = 100 * y / rows + "%";
    mark.style.width = 100 / columns + "%";
    mark.style.height = 100 / rows + "%";
    const likely = at(layer.likeliest_head);
    readout.textContent = "Patch in row " + (y + 1) + ", column " + (x + 1) + ", layer " + state.layer + ": " +
      (likely ? "most likely head " + likely + " (" + fixed(at(layer.memberships[likely - 1]), 4) + "), entropy " +
          nearOne(at(layer.entropy)) + ", " : "") +
      "norm " + num(at(layer.norms), 4) + ".";
    const most = layer.memberships ? Math.max(...layer.memberships.map((g) => at(g) ?? 0)) : 1;
    values.replaceChildren(layer.memberships ? el("div", el("h3", "Memberships of this patch, layer " + state.layer),
        bars(layer.memberships.map((grid, h) =>
      ({ name: "head " + (h + 1), value: at(grid), most, text: fixed(at(grid), 4) })))) : el("p.note", "This layer has no memberships."));
    if (!hasHeads) return path.replaceChildren();
    const scale = layers.map((l) => l.memberships ? Math.max(...l.memberships.map((g) => at(g) ?? 0)) : 1);
    path.replaceChildren(shadedTable({ caption: "The patch through the layers: its membership in each head, shaded up to the row's largest",
      rows: layers.map((l) => "layer " + l.layer), columns: range(all).map((h) => "head " + (h + 1)), chosen: state.layer - 1,
      values: layers.map((l) => l.memberships?.map((g) => at(g))), color: (v, r) => colorAt(kSequential, v / scale[r]) }));
  }

  // Every layer and head; memberships of a layer around 1/H at one scale.
  function showAll() {
    const cell = (layer, kind, colors, grid) => {
      const canvas = el("canvas.map", { role: "img", "aria-label": kind + ", layer " + layer.layer });
      drawMap(canvas, rows, columns, (y, x) => colors(grid[y][x]));
      return el("td", canvas);
    };
    const lines = layers.map((layer) => {
      const cells = [];
      if (layer.memberships) {
        const middle = 1 / all, [low, high] = extremes(layer.memberships), span = Math.max(high - middle, middle - low) || 1;
        for (const h of shown) cells.push(cell(layer, "head " + h, (v) => colorAt(kDiverging, 0.5 + (v - middle) / (2 * span)),
            layer.memberships[h - 1]));
        for (const kind of ["likeliest", "entropy"]) { const m = mapOf(kind, layer); cells.push(cell(layer, kind, m.colors, m.grid)); }
        cells.unshift(el("td.n", "± " + num(span, 1)));
      } else if (hasHeads) cells.push(el("td"), ...shown.map(() => el("td")), el("td"), el("td"));
      const m = mapOf("norm", layer);
      return el("tr", el("th", "layer " + layer.layer, { scope: "row" }), cells, cell(layer, "norm", m.colors, m.grid));
    });
    overview.replaceChildren(labelled(hasHeads ? "Memberships around the uniform 1/H = " + num(1 / all) +
        " (neutral), each layer at one scale, whose half width stands at its left; then the most likely head, the entropy and the norm." :
        "Token norms after each layer.", el("table.grid", { "aria-label": "All layers" },
      el("thead", el("tr", el("th"), hasHeads && [el("th"), ...shown.map((h) => el("th", "head " + h)), el("th", "most likely"), el("th",
          "entropy")], el("th", "norm"))), el("tbody", lines))));
  }

  const point = (event) => {
    const box = big.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / box.width * columns), y = Math.floor((event.clientY - box.top) / box.height * rows);
    if (x >= 0 && y >= 0 && x < columns && y < rows && y * columns + x !== state.patch) show({ patch: y * columns + x });
  };
  big.addEventListener("pointermove", point);
  big.addEventListener("pointerdown", point);
  big.addEventListener("keydown", (event) => moveKeys(event, state.patch, columns, rows * columns, (patch) => show({ patch })));

  const everything = folded("All layers", overview);
  everything.addEventListener("toggle", () => { if (everything.open && !overview.firstChild) showAll(); });
  const rates = layers.filter((l) => finite(l.compression.after));
  const view = el("div",
    el("div.inspect",
      el("div", el("p", el("strong", data.top[0].class), " " + percent(data.top[0].probability) + (data.truth ?
          "; the picture is labelled " + data.truth : "") + "."),
        bars(data.top.map((c) => ({ name: c.class, value: c.probability, text: percent(c.probability) }))),
        el("p.note", sizeText(data))),
      layers.length === 0 ? el("figure", picture) : el("div.view",
        el("div.row.controls", mapChoice, el("span", el("label", "Layer", layerText, { for: slider.id }), slider), el("label", bare,
            " the map alone", { for: bare.id })),
        el("div.big", big, mark), legend),
      el("div", readout, values, path)));
  if (layers.length === 0) return view;
  view.append(el("h3", hasHeads ? "Maps of this layer" : "Maps"), strip, everything);
  if (rates.length) {
    view.append(el("div.columns",
      chart({ title: "Compression of this picture by layer", x: { label: "layer", integer: true }, y: { label: "R_var, unit-norm heads" },
          height: "14rem",
        series: [{ name: "before the layer's step", x: rates.map((l) => l.layer), y: rates.map((l) => l.compression.before) },
          { name: "after it", x: rates.map((l) => l.layer), y: rates.map((l) => l.compression.after) }] }),
      chart({ title: "Entropy of its memberships by layer", x: { label: "layer", integer: true }, y: { label: "entropy / log H" },
          height: "14rem",
        series: [{ name: "mean over patches", x: rates.map((l) => l.layer), y: rates.map((l) => l.entropy_mean) }] })));
  }
  picture.decode().catch(() => {}).then(() => show());
  return view;
}

function sizeText(p) {
  const seen = p.input_width + " × " + p.input_height, tokens = p.rows > 0 ? "; " + p.rows + " × " + p.columns + " patches" : "";
  return p.width + " × " + p.height + " pixels" + (p.resized ? ", seen as " + seen : "") + tokens + ".";
}
