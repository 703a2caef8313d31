// A report on a language model.
"use strict";

const layerName = (r, number) => "layer " + number + " (" + r.layers[number - 1].mixer + ")";
const dataOf = (split) => (split === "train" ? "training" : split) + " data";
// The tokens up to and including place t, at most 24 characters.
function excerpt(tokens, t) {
  let text = "", i = t;
  for (; i >= 0 && text.length < 24; --i) text = tokens[i] + (tokens[i].startsWith("#") && text ? " " : "") + text;
  return (i >= 0 ? "…" : "") + text;
}
// Places of the largest numbers, falling.
const largest = (values, count) => range(values.length).filter((i) => finite(values[i])).sort((a, b) => values[b] - values[a]).slice(0,
    count);

function showText(r) {
  $("subtitle").textContent = "What the layers of this language model do to a passage, token by token. Layers and heads are counted " +
      "from 1.";
  const main = r.splits.at(-1), windows = main && main.windows + " windows of the " + dataOf(main.split);
  textFacts(r);
  const p = r.passage;
  section("passage", "The passage", "Choose what colours the tokens, a layer and a head; point at a token, or move with the arrow keys. " +
      "A space is ·, a line's end ↵.").append(
    passageView({ tokens: p.tokens, ids: p.ids, loss: p.token_loss ?? [], guesses: p.likeliest_instead, vocab: r.config.vocab,
      layers: r.layers.map((l) => ({ layer: l.layer, mixer: l.mixer, memberships: l.membership, gate: l.gate, effect: l.own_effect,
          entropy: l.entropy, norm: l.norm,
        influence: l.influence_of_tokens, means: l.group_means })) }, { heads: r.chosen_heads, layers: r.chosen_layers }));
  if (p.token_loss?.length) surprisal(p);
  const grouped = r.chosen_layers.filter((n) => r.layers[n - 1].membership);
  if (grouped.length) decided(r, main, grouped);
  if (main && grouped.length) taken(r, main, grouped, windows);
  gatesAndMemory(r);
  effects(r, main, windows);
  if (r.layers[0].influence_by_distance?.length) influence(r);
  layerByLayer(r, main, windows);
}

function textFacts(r) {
  const c = r.config, p = r.passage, made = section("model", "Model and passage");
  made.append(facts([["Model", r.model + ", " + whole(r.parameters) + " parameters"],
    ["Shape", c.depth + " layers of width " + c.dim + ", " + c.heads + " heads of " + c.dim / c.heads], ["Mixer",
        [...new Set(r.layers.map((l) => l.mixer))].join(", ")],
    ["Block", whole(c.block) + " tokens, positions " + c.positions],
    ["Tokenizer", r.tokenizer ? r.tokenizer.kind + ", " + whole(r.tokenizer.vocab) + " tokens" : "none: token ids of a vocabulary of " +
        whole(c.vocab)],
    ["Passage", whole(p.ids.length) + (p.ids.length === 1 ? " token of " : " tokens of ") + p.source],
    ["Its loss", finite(p.loss) && fixed(p.loss, 3) + " nats a token, perplexity " + fixed(p.perplexity, 2) + "; " +
        percent(p.share_predicted) + " predicted as most likely"],
    ...r.splits.map((s) => ["Loss, " + s.split, fixed(s.loss.mean, 3) + " ± " + fixed(s.loss.std, 3) + " over " + whole(s.windows) +
        " windows of " + whole(s.window_tokens) + " tokens of '" + r.data + "'"]),
    ["Checkpoint", r.checkpoint]].filter(([, value]) => value)));
  for (const sentence of [...p.notes, ...r.left_out]) made.append(el("p.note", sentence));
}

function surprisal(p) {
  section("surprisal", "Surprisal").append(table({ id: "surprisal-table", caption: "The tokens that surprised most.", head: ["place",
      "token", "after", "−log p", "p", "expected instead"],
    rows: largest(p.token_loss, 12).map((t) => [String(t + 2), el("strong", p.tokens[t + 1]), excerpt(p.tokens, t), fixed(p.token_loss[t],
        2), fixed(Math.exp(-p.token_loss[t]), 4), p.likeliest_instead[t].token]) }));
}

function decided(r, main, layers) {
  const entropyOf = (n) => main?.layers[n - 1].entropy_by_position ?? { mean: r.layers[n - 1].entropy, std: null };
  const finding = "Entropy in " + layers.map((n) => layerName(r, n) + ": " + [...new Set([0, 1, 9,
      entropyOf(n).mean.length - 1])].filter((i) => i < entropyOf(n).mean.length).map((i) =>
    fixed(entropyOf(n).mean[i], 2) + " at token " + (i + 1)).join(", ")).join("; ") + ".";
  // At most 128 places, closer at the beginning.
  const places = (count) => [...new Set(range(128).map((i) => Math.round(count ** (i / 127))))];
  const made = section("memberships", "How decided memberships are", finding);
  made.append(chart({ title: "Entropy of membership by position", x: { label: "position of the token", log: true },
      y: { label: "entropy / log H", min: 0, max: 1.05 },
    series: layers.map((n) => { const e = entropyOf(n), x = places(e.mean.length); return { name: layerName(r, n), x,
        y: x.map((i) => e.mean[i - 1]), spread: e.std && x.map((i) => e.std[i - 1]) }; }),
    caption: "0: a token belongs to one head, 1: to all alike" + (main ? "; mean and standard deviation over " + main.windows +
        " windows of the " + dataOf(main.split) + "." : ".") +
      (layers.some((n) => r.layers[n - 1].mixer === "tssa") ? " Logits of causal TSSA are a token's shares of running energies: the " +
          "same for all heads at the first token but for their temperatures, then falling as 1 / position." : "") }));
  const known = main?.layers.filter((l) => l.mean_membership) ?? [];
  if (known.length) {
    const high = extremes(known.map((l) => l.mean_membership))[1];
    made.append(shadedTable({ caption: "Mean membership of each head over all tokens of the windows; 1/H is " + num(1 / r.config.heads),
        rows: known.map((l) => "layer " + l.layer),
      columns: range(r.config.heads).map((h) => "head " + (h + 1)), values: known.map((l) => l.mean_membership),
          color: (v) => colorAt(kSequential, v / high), text: (v) => fixed(v, 3) }));
  }
}

const tokensText = (rows) => rows.map((t) => t.token + "\u00A0×" + fixed(t.lift, 2)).join("\u00A0\u00A0 ");

function taken(r, main, layers, windows) {
  section("taken", "Which tokens each head takes", "Lift: the mean membership of a token over all its occurrences, divided by the " +
      "head's mean over all tokens. Over " + windows +
    "; tokens that occur at least " + main.least_occurrences + " times and lie above that mean (× 1).").append(
    ...layers.filter((n) => !r.layers[n - 1].uniform_membership &&
        main.layers[n - 1].taken?.some((rows) => rows.length)).map((n) => table({ caption: "In " + layerName(r, n) + ".",
      head: ["head", "mean", "tokens by lift"], rows: r.chosen_heads.map((h) => [String(h), fixed(main.layers[n - 1].mean_membership[h - 1],
          3), tokensText(main.layers[n - 1].taken[h - 1])]) })));
}

function gatesAndMemory(r) {
  const gated = r.layers.filter((l) => l.gate), forgets = r.layers.filter((l) => l.memory_horizon);
  if (!gated.length && !forgets.length) return;
  const made = section("gates", "Gates and memory"), columns = r.chosen_heads.map((h) => "head " + h);
  if (gated.length) {
    const values = gated.map((l) => r.chosen_heads.map((h) => mean(l.gate[h - 1]))), high = Math.max(...extremes(values).map(Math.abs)) ||
        1;
    made.append(shadedTable({ caption: "Mean gate over the passage: the factor that a head's output is multiplied by, silu of a " +
        "projection of the token, as the mean over the head's features. 0 shuts the head off; below 0, where silu reaches down to " +
        "−0.28, it turns its sign.",
      rows: gated.map((l) => "layer " + l.layer), columns, values, color: (v) => colorAt(kDiverging, 0.5 + v / (2 * high)) }));
  }
  if (forgets.length) made.append(table({ id: "horizon-table", caption: "How many tokens a head's sums reach back, 1 / (1 − γ) of its " +
      "forgetting rate.", head: ["layer", ...columns],
    rows: forgets.map((l) => [String(l.layer), ...r.chosen_heads.map((h) => fixed(l.memory_horizon[h - 1], 1))]) }));
}

const topRows = (r, n, values) => largest(values, 8).map((t) => [String(n), String(t + 1), el("strong", r.passage.tokens[t]),
    excerpt(r.passage.tokens, t), num(values[t], 4)]);

function effects(r, main, windows) {
  const made = section("own-effect", "Own effect of a token", "How much a layer's mixer adds to a token, as a share of what it finds: " +
      "|γ₁ mixer(norm x)| / |x|.");
  made.append(table({ caption: "The largest own effects in the passage.", head: ["layer", "place", "token", "up to it", "own effect"],
    rows: r.chosen_layers.flatMap((n) => topRows(r, n, r.layers[n - 1].own_effect)) }));
  if (main) made.append(table({ caption: "Tokens of the largest mean own effect over " + windows + ", of those that occur at least " +
      main.least_occurrences + " times and lie above the layer's mean; × against it.",
    head: ["layer", "mean", "tokens"], rows: r.chosen_layers.map((n) => [layerName(r, n), num(main.layers[n - 1].own_effect_mean, 4),
        tokensText(main.layers[n - 1].strongest_tokens)]) }));
}

function influence(r) {
  const of = (n) => r.layers[n - 1].influence_by_distance, conv = r.config.conv, reach = r.layers[0].influence_reach;
  section("influence", "What later tokens would miss", "Each token is left out of what a layer reads, and the layer is run again: the " +
      "change of its outputs at later tokens, |y − y without it| / |y|. Exact, one run for each token; it shows the rare tokens a " +
      "layer's statistics rest on.").append(
    chart({ title: "Influence by distance", x: { label: "tokens later", log: true }, y: { label: "relative change", log: true },
      series: r.chosen_layers.map((n) => ({ name: layerName(r, n), x: of(n).map((_, d) => d + 1), y: of(n).map((v) => v > 0 ? v : null) })),
      caption: "Mean over the passage. Sums over the whole past dilute a token as 1 / position; sums that forget end it at their " +
          "horizon." }),
    el("p", "Mean change by how many tokens later: " + r.chosen_layers.map((n) => layerName(r, n) + ": " + [1, 4, 16,
        64].filter((d) => d <= of(n).length).map((d) => percent(of(n)[d - 1]) + " at " + d).join(", ")).join("; ") + "." +
      (conv > 0 ? " The nearest " + (conv - 1) + " are reached by the convolution as well." : "")),
    folded("Tokens that later ones would miss most, by layer", table({ head: ["layer", "place", "token", "up to it", "mean influence"],
        rows: r.chosen_layers.flatMap((n) => topRows(r, n, r.layers[n - 1].influence_of_tokens)) }),
      el("p.note", "Mean over the " + reach + " tokens after it; the last " + reach +
          " measured, which have fewer, are left out. Early tokens share the sums with few others and count for more.")));
}

function layerByLayer(r, main, windows) {
  const rated = main?.layers.filter((l) => l.compression) ?? [];
  if (rated.length) {
    section("compression", "Layer-wise compression").append(compressionCharts(r.splits, r.compression_ceiling,
      "The paper's layer-wise measure: each head's part of a token at unit norm, ε² = 0.01, second moments over the whole window; lower " +
          "is more compressed. Mean and standard deviation over windows. After the residual: normalised and projected by the same layer " +
          "once more, memberships held."),
    table({ id: "compression-table", caption: "Means ± deviations over " + windows + ".", head: ["layer", "input", "output before residual",
        "after residual"],
      rows: rated.map(({ layer, compression: c }) => [String(layer), spread(c.input, 4), spread(c.output_before_residual, 4),
          spread(c.after_residual, 4)]) }));
    if (rated.some((l) => l.bound)) textBound(r, main, windows);
    section("correlations", "Is the diagonal statistic enough?").append(correlationMaps(main.layers, [["absolute", "second moments"]],
      "Absolute correlations |r| between the P × P features of a head, weighted by membership, from 0 (dark) to 1 (bright); mean over " +
          windows + ", with the mean off the diagonal. The layer keeps the diagonal alone.") ?? "",
    table({ id: "correlation-table", head: ["layer", "mean |r| off the diagonal", "by chance", "exact rate / diagonal sum"],
      rows: rated.map(({ layer, correlation: c }) => [String(layer), fixed(c.mean_off_diagonal, 3), fixed(c.by_chance, 3),
          fixed(c.diagonal_share.mean, 3)]) }));
  }
  const spectra = r.layers.map((l) => l.subspaces && { layer: l.layer, singular_values: l.subspaces.singular_values,
      overlap: l.subspaces.overlap, sum: l.subspaces.sum_singular_values, rank: l.subspaces.rank,
    effective_rank: l.subspaces.effective_rank, effective: l.subspaces.effective_rank, energy: l.subspaces.energy_rank_99,
        bases: l.subspaces.basis_effective_rank, overlap_mean: l.subspaces.mean_overlap, chance: l.subspaces.chance_overlap });
  if (spectra.some(Boolean)) section("spectra", "What the heads' subspaces span", spectraFinding(spectra,
      r.config.dim)).append(...spectraSection(spectra, r.chosen_layers, r.chosen_heads, r.config.dim));
  if (!main) return;
  section("norms", "Token norms").append(chart({ title: "Token norms after each layer", x: layerAxis, y: { label: "|x|" },
      caption: "Mean and standard deviation over tokens.",
    series: r.splits.map((s) => pickSeries(s.split, s.layers, (l) => ({ ...l.norms, count: 2 }))) }),
  table({ id: "norm-table", caption: "Of the " + dataOf(main.split) + ".", head: ["layer", "mean", "median", "largest", "beyond 3 medians"],
    rows: main.layers.map(({ layer, norms: n }) => [String(layer), fixed(n.mean, 2), fixed(n.median, 2), fixed(n.max, 2),
        percent(n.share_beyond_3_medians, 2)]) }));
}

function textBound(r, main, windows) {
  const steps = (l) => r.layers[l.layer - 1].descends_on_bound, others = main.layers.filter((l) => l.bound && !steps(l));
  section("bound", "Variational bound and exact rate", boundFinding(main.layers, steps)).append(
    el("p", "w are the layer's projected tokens (after its convolution, where it has one) and Π their memberships. Bound: R_var, for " +
        "each head the mean over the tokens of its squared features, weighted by Π, through ½ log(1 + scale · x) and summed; exact: ½ " +
        "logdet with the whole matrix of second moments in its place, at most the bound. The sums run over the whole window with each " +
        "token's own membership; the layer itself sums over the tokens so far, and with decay forgets the far ones."),
    ...boundParts(main, windows, steps),
    others.length ? el("p.note", "What the step does to the objective is left out for layer" + (others.length === 1 ? " " : "s ") +
        others.map((l) => l.layer + " (" + r.layers[l.layer - 1].mixer + ")").join(", ") +
      ": R_var is not an objective of theirs. Only TSSA without first moments, convolution and gate adds a step of the form of R_var's " +
          "gradient.") : "");
}
