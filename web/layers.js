// What reports on every kind of model say about layers: rates, correlations, spectra, bound.
"use strict";

const layerAxis = { label: "layer", integer: true };
const pickSeries = (name, layers, pick, more = {}) => {
  const values = layers.map(pick);
  return { name, x: layers.map((l) => l.layer), y: values.map((v) => v?.mean), spread: values.map((v) => v?.count > 1 ? v.std : 0),
      ...more };
};
const standardError = (s) => s.count > 1 && finite(s.std) ? s.std / Math.sqrt(s.count - 1) : NaN;
// Layers that have the number, from its lowest to its highest.
const ordered = (layers, pick) => layers.filter((l) => finite(pick(l))).sort((a, b) => pick(a) - pick(b));

// Matrices of the chosen layers and heads, chosen by a list; `kinds` are [key, name].
function correlationMaps(layers, kinds, caption) {
  const shown = layers.filter((l) => l.correlation?.matrices?.length);
  if (shown.length === 0) return null;
  const strip = el("div.thumbs"), state = { layer: shown[0].layer, kind: kinds[0][0] };
  const show = () => {
    const { correlation: c } = shown.find((l) => l.layer === state.layer);
    const means = state.kind === "centered" ? c.centered_by_head : c.by_head;
    strip.replaceChildren(...c.matrices.map((m) => el("figure", mapCanvas(m[state.kind], "correlations of the features of head " + m.head +
        ", layer " + state.layer, { low: 0, high: 1 }),
      el("figcaption", "head " + m.head + ", mean " + num(means[m.head - 1], 2)))));
  };
  show();
  return el("div", el("div.row.controls", choice("Layer", shown.map((l) => [l.layer, "layer " + l.layer]), state.layer,
      (v) => { state.layer = Number(v); show(); }),
    kinds.length > 1 && choice("Of", kinds, state.kind, (v) => { state.kind = v; show(); })), strip, el("p.note", caption));
}

// The singular values and overlaps of one layer's heads at a time, and a table of all layers.
function spectraSection(spectra, layers, heads, width) {
  const known = spectra.filter((s) => s?.singular_values), strange = spectra.filter((s) => s && !s.singular_values);
  const parts = strange.length ? [el("p.note", "Layers " + strange.map((s) => s.layer).join(", ") +
      " have weights that are not finite; their spectra are left out.")] : [];
  if (known.length) {
    const box = el("div.columns"), first = known.find((s) => layers.includes(s.layer)) ?? known[0];
    const show = (number) => {
      const s = known.find((one) => one.layer === number), axis = (values) => range(values.length).map((i) => i + 1);
      box.replaceChildren(
        chart({ title: "Layer " + number + ": singular values of Uₖ", x: { label: "direction", integer: true },
            y: { label: "singular value", min: 0 },
          series: heads.slice(0, 8).map((h) => ({ name: "head " + h, x: axis(s.singular_values[h - 1]), y: s.singular_values[h - 1] })),
          caption: heads.length > 8 ? "The first eight of the chosen heads; report.json holds all." : "" }),
        el("div", el("h3", "Layer " + number + ": overlap of heads"),
            shadedTable({ caption: "Mean squared cosine of the principal angles between two heads' subspaces; " + num(s.chance) +
            " by chance",
          rows: s.overlap.map((_, i) => "head " + (i + 1)), columns: s.overlap.map((_, i) => i + 1), values: s.overlap,
              color: (v) => colorAt(kSequential, v) })));
    };
    parts.push(el("div.row.controls", choice("Layer", known.map((s) => [s.layer, "layer " + s.layer]), first.layer,
        (v) => show(Number(v)))), box);
    show(first.layer);
    const chosen = known.filter((s) => layers.includes(s.layer) && s.sum);
    parts.push(chart({ title: "Singular values of [U₁ … U_H]", x: { label: "direction", integer: true }, y: { label: "singular value",
        min: 0 },
      series: chosen.map((s) => ({ name: "layer " + s.layer, x: range(s.sum.length).map((i) => i + 1), y: s.sum })) }));
  }
  parts.push(table({ id: "spectra-table", caption: "How much of the " + width +
      "-dimensional space the heads cover together. Effective rank: exp of the entropy of the singular values' shares; of the bases: " +
      "the same with each U_k replaced by an orthonormal basis.",
    head: ["layer", "rank", "effective rank", "directions of 99 % energy", "effective rank of bases", "overlap of heads", "by chance"],
    rows: spectra.filter(Boolean).map((s) => [String(s.layer), num(s.rank, 6), num(s.effective), num(s.energy, 6), num(s.bases),
        num(s.overlap_mean), num(s.chance)]) }));
  return parts;
}

function spectraFinding(spectra, width) {
  const known = spectra.filter((s) => s?.singular_values);
  if (known.length === 0) return "";
  const least = Math.min(...known.map((s) => s.rank)), overlap = mean(known.map((s) => s.overlap_mean)), chance = known[0].chance;
  const text = (least === width ? "The heads together span the whole space of " + width + " dimensions in every layer" :
      "The heads together span at least " + least + " of " + width + " dimensions") +
    ", with an effective rank of " + num(mean(known.map((s) => s.effective))) + " on average.";
  return !finite(overlap) ? text : text + " Two heads' subspaces overlap by " + num(overlap) +
      " (mean squared cosine); two random ones would by " + num(chance) + ": " +
    (overlap < 0.8 * chance ? "training moved them apart." : overlap > 1.2 * chance ? "they share more directions than chance would give." :
      "about what chance gives, so they are neither orthogonal, as the theory has them, nor alike.");
}

// Bound against exact rate, and what the layers' steps do to their objective; `steps` are layers whose step is a gradient's.
function boundParts(split, what, steps) {
  const layers = split.layers.filter((l) => l.bound?.length);
  const space = layers.some((l) => finite(l.bound[0].exact_in_space?.mean));
  return [el("div.columns", ["f = log(1 + x), as released", "f = log(1 + d/ε² x), as in the theory"].map((title, i) =>
    chart({ title, x: layerAxis, y: { label: "nats" }, series: [pickSeries("bound R_var", layers, (l) => l.bound[i].bound),
      pickSeries("exact, in the heads", layers, (l) => l.bound[i].exact_in_heads), ...(space ? [pickSeries("exact, whole space", layers,
          (l) => l.bound[i].exact_in_space)] : [])] }))),
  table({ id: "bound-table", caption: "Means over " + what + ". The objective is R_var of z U without bias at scale 1, Π held fixed; " +
      "lowered: the share in which the layer's step makes it smaller. Tokens are not normalised again after the step, so one that " +
      "lengthens them raises it.",
    head: ["layer", "bound", "exact in heads", "gap", "objective before", "after its step", "lowered", "without LayerScale"],
    rows: layers.map((l) => { const g = l.bound[0], o = steps(l) ? l.objective : null; return [String(l.layer), spread(g.bound, 4),
        spread(g.exact_in_heads, 4), percent(g.gap.mean / g.bound.mean),
      spread(o?.before, 4), spread(o?.stepped, 4), percent(o?.share_lowered, 0), percent(o?.share_lowered_unscaled, 0)]; }) })];
}

function boundFinding(layers, steps) {
  const known = layers.filter((l) => l.bound?.length), own = known.filter(steps);
  const gap = (i) => percent(mean(known.map((l) => l.bound[i].gap.mean / l.bound[i].bound.mean)));
  return "The bound lies above the exact rate in the heads' coordinates by " + gap(0) + " of its value at the released scale 1, and by " +
      gap(1) + " at the theory's d / ε²." +
    (own.length ? " A layer's step lowers its own objective for " + percent(mean(own.map((l) => l.objective.share_lowered))) +
        " of the samples on average as the network takes it, and for " +
      percent(mean(own.map((l) => l.objective.share_lowered_unscaled))) + " without LayerScale." : "");
}

// One chart a split; `after` may lack the change within a sample.
function compressionCharts(splits, ceiling, caption) {
  return el("div", el("div.columns", splits.map((split) => chart({ title: "Compression, " + split.split, x: layerAxis,
      y: { label: "R_var, unit-norm heads" },
    series: [pickSeries("input of the layer", split.layers.filter((l) => l.compression), (l) => l.compression.input),
      pickSeries("output, before residual", split.layers.filter((l) => l.compression), (l) => l.compression.output_before_residual),
      pickSeries("after residual", split.layers.filter((l) => l.compression), (l) => l.compression.after_residual)],
    lines: [{ at: ceiling, name: "ceiling " + num(ceiling, 6) }] }))), el("p.note", caption));
}
