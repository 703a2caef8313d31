// A report on an image model.
"use strict";

function showVision(r) {
  const main = r.splits.at(-1), has = main?.layers.length > 0 && main.layers[0].has_memberships;
  modelFacts(r);
  pictures(r);
  otherPictures(r);
  if (has) {
    entropy(r, main);
    compression(r, main);
    if (main.layers[0].correlation) correlations(r, main);
  }
  if (r.spectra.length) {
    const spectra = r.spectra.map((s) => ({ ...s, sum: s.sum_singular_values, effective: s.effective_rank,
        energy: s.directions_of_99_percent, bases: s.basis_effective_rank, chance: s.overlap_by_chance }));
    section("spectra", "The heads' subspaces", spectraFinding(spectra, r.config.dim)).append(...spectraSection(spectra, r.chosen_layers,
        r.chosen_heads, r.config.dim));
  }
  if (main?.layers.some((l) => l.norms)) norms(r, main);
  if (main?.segmentation?.layers.length) segmentation(r, main);
  if (has && main.layers[0].bound) {
    section("bound", "The bound and the exact rate", boundFinding(main.layers, () => true)).append(...boundParts(main, picturesOf(main),
        () => true),
      el("p.note", "The bound holds over the exact rate of the projected tokens. Of the whole space it is a bound only for orthonormal " +
          "heads that hold their group's tokens; " +
        (r.mixer === "tssa-tied" ? "these heads are orthonormal, but tokens lie outside of them, too." :
            "the released layer enforces neither.")));
  }
}

const picturesOf = (split) => split.pictures + " " + split.split + " picture" + (split.pictures === 1 ? "" : "s");

function modelFacts(r) {
  const c = r.config, linear = c.architecture === "linear";
  const rows = [["model", r.model], ["parameters", whole(r.parameters)]];
  if (linear) rows.push(["architecture", "linear: pixels and one matrix"]);
  else rows.push(["mixer", r.mixer], ["layers", r.layers + ", and " + c.class_blocks + " class-attention blocks"],
    ["width", c.dim + ", " + c.heads + " heads of " + c.dim / c.heads], ["patches", c.patch + " × " + c.patch + " pixels"], ["registers",
        r.registers || ""]);
  rows.push(["input", r.preprocess.size + " × " + r.preprocess.size + (r.preprocess.channels === 1 ? ", grey" : ", colour")], ["classes",
      whole(r.classes.length)],
    ["checkpoint", r.checkpoint], ["data", r.data]);
  for (const s of r.splits) rows.push(["top-1, " + s.split, percent(s.top1) + " of " + whole(s.pictures) + " pictures"]);
  const made = section("model", "The model");
  made.append(facts(rows));
  if (r.class_names_differ) made.append(el("p.warning", r.class_names_differ));
  if (r.registers) made.append(el("p.note", "The " + r.registers + " registers count as tokens in the rates, correlations and entropies " +
      "of the splits, as they do in the layers. Maps and entropies of single pictures, norms and the match with objects are of the " +
      "patches alone."));
  for (const item of r.left_out) made.append(el("p.note", item.panel + ": " + item.reason));
}

function pictures(r) {
  if (r.pictures.length === 0) return;
  const made = section("pictures", r.pictures.length === 1 ? "The picture" : "Pictures",
    r.pictures[0].layers.some((l) => l.memberships) ? "The membership Π says how strongly each token (patch) belongs to each head; over " +
        "the heads it sums to 1. Point at a patch, or move with the arrow keys." : "");
  const strip = el("div.thumbs", { role: "group", "aria-label": "Pictures" }), place = el("div");
  const name = (p) => p.name.split("/").at(-1);
  const show = (i) => {
    [...strip.children].forEach((button, k) => button.setAttribute("aria-pressed", String(k === i)));
    place.replaceChildren(el("h3", r.pictures[i].name), pictureView(r.pictures[i], r.chosen_heads));
  };
  if (r.pictures.length > 1) {
    strip.append(...r.pictures.map((p, i) => el("button", el("img", { src: p.image, alt: "" }), name(p), { type: "button",
        click: () => show(i) })));
    made.append(strip);
  }
  made.append(place);
  show(0);
}

function otherPictures(r) {
  if (r.other_pictures.length === 0) return;
  const most = 200;
  section("other-pictures", "Further pictures", "The first " + r.pictures.length + " pictures are shown in full; of the " +
      whole(r.other_pictures.length) + " others, these are the predictions.").append(
    table({ head: ["picture", "class", "guess", "probability", "mean entropy"], rows: r.other_pictures.slice(0, most).map((p) =>
      [p.name, p.truth ?? "", p.top.class, percent(p.top.probability), nearOne(p.entropy)]) }),
    r.other_pictures.length > most ? el("p.note", "The table ends after " + most + " pictures; report.json holds all " +
        whole(r.other_pictures.length) + ".") : "");
}

function entropy(r, main) {
  const order = ordered(main.layers, (l) => l.entropy.mean), low = order[0]?.entropy.mean;
  const text = order.length ? "Heads are shared out most clearly in layer " + order[0].layer + " (entropy " + nearOne(low) +
      " of log H) and least in layer " + order.at(-1).layer +
    " (" + nearOne(order.at(-1).entropy.mean) + "). " + (low > 0.97 ? "That is next to uniform: memberships hardly distinguish tokens." :
      low > 0.85 ? "Memberships lean towards a head, but most tokens belong a little to every one." :
          "There tokens do choose their heads.") : "";
  // Entropies so close to 1 that only the distance to it distinguishes layers.
  const close = main.layers.every((l) => l.entropy.mean > 0.99 && l.entropy.mean < 1);
  section("entropy", "How decided memberships are", text).append(chart({ title: "Entropy of Π over heads", x: layerAxis,
    y: close ? { label: "1 − entropy / log H", log: true } : { label: "entropy / log H", max: 1 },
    series: r.splits.map((s) => pickSeries(s.split, s.layers, (l) => close ? { mean: 1 - l.entropy.mean } : l.entropy)),
    caption: "Mean over tokens" + (close ? " and " + picturesOf(main) + ". So close to 1 the difference to it is drawn, logarithmically" :
        ", band one standard deviation over pictures (" + picturesOf(main) + ")") +
      "; an entropy of 0: every token belongs to one head, of 1: to all alike." }));
}

function compression(r, main) {
  const after = (l) => l.compression.after_residual.mean, change = (l) => l.compression.after_less_input, layers = main.layers,
      ceiling = r.compression_ceiling;
  const first = after(layers[0]), last = after(layers.at(-1)), falls = layers.slice(1).filter((l, i) => after(l) < after(layers[i])).length;
  const beyond = (sign) => layers.filter((l) => sign * change(l).mean > 2 * standardError(change(l))).length;
  const text = "From the first to the last layer the rate after the residual " + (last < first - 0.005 * ceiling ? "falls" : last > first +
      0.005 * ceiling ? "rises" : "stays about level") +
    ", from " + num(first, 4) + " to " + num(last, 4) + " (ceiling " + num(ceiling, 6) + "), with " + falls + " of " + (layers.length - 1) +
        " steps of the mean downwards." +
    (main.pictures < 2 ? "" : " Compared in the same picture, the layer's own addition lowers the rate in " + beyond(-1) + " of " +
        layers.length + " layers and raises it in " + beyond(1) +
      ", by more than two standard errors of the mean change.");
  section("compression", "Layer-wise compression", text).append(
    compressionCharts(r.splits, ceiling, "R_var(Z, Π) with every head's tokens scaled to unit norm and ε² = 0.01 (the measure of arXiv " +
        "2412.17810's layer-wise figure), mean and standard deviation over pictures. It cannot exceed ½ P log(1 + 1/ε²), P = " +
      r.config.dim / r.config.heads + ". Lower is more compressed. The output before the residual is the layer's own addition; after it " +
          "the tokens are normalised and projected as the layer would take them again."),
    table({ id: "compression-table", caption: "Means ± deviations over pictures. Change: from input to after in the same picture, ± the " +
        "standard error of its mean; lowered in: the share of pictures where it is negative (" + main.split + ").",
      head: ["layer", ...r.splits.flatMap((s) => ["input", "output", "after"].map((what) => what + ", " + s.split)), "change",
          "lowered in", ...(layers[0].sparsity ? ["codes not 0", "L1 of codes"] : [])],
      rows: layers.map((l, i) => [String(l.layer), ...r.splits.flatMap((s) => { const c = s.layers[i].compression; return [c.input,
          c.output_before_residual, c.after_residual].map((v) => spread(v, 4)); }),
        num(change(l).mean, 2) + (finite(standardError(change(l))) ? " ± " + num(standardError(change(l)), 2) : ""),
            percent(l.compression_share_lowered, 0),
        ...(l.sparsity ? [percent(l.sparsity.nonzero.mean, 0), spread(l.sparsity.l1, 4)] : [])]) }));
}

function correlations(r, main) {
  const average = (pick) => mean(main.layers.map((l) => pick(l.correlation)));
  const found = average((c) => c.mean_off_diagonal), centred = average((c) => c.centered_mean_off_diagonal),
      share = average((c) => c.diagonal_share.mean), missed = 1 - share;
  const text = !finite(found) ? "" : "Is the diagonal statistic enough? In the second moments the layer takes, two features of a head " +
      "correlate by " + num(found) + " on average; with the tokens' mean taken off, by " +
    num(centred) + " (independent ones would show " + num(average((c) => c.by_chance)) + " by chance). The full coding rate is " +
        percent(share) + " of what the diagonal says at the released scale, and " +
    percent(average((c) => c.diagonal_share_unit_heads.mean)) + " with unit-norm heads. " + (missed < 0.1 ?
        "So the diagonal says nearly all of it." : missed < 0.3 ? "So the diagonal says most of it, and misses a noticeable part." :
      found > 2 * centred ? "So the diagonal misses a good part, mostly because a head's features share the tokens' mean." :
          "So the diagonal misses a good part: features inside a head are far from uncorrelated.");
  section("correlations", "Correlations of projected tokens", text).append(
    correlationMaps(main.layers, [["absolute", "second moments, as in the layer"], ["centered", "covariances, the mean taken off"]],
      "|correlation| of a head's P × P features over the tokens of a picture, weighted by membership, from 0 (dark) to 1 (bright); mean " +
          "of " + picturesOf(main) + ", with the mean off the diagonal.") ?? "",
    table({ id: "correlation-table", caption: "Full: ½ logdet of each head's weighted second moments; diagonal: the same from its " +
        "diagonal alone, which is all the layer computes. 100 %: nothing is missed.",
      head: ["layer", "mean off diagonal", "mean taken off", "by chance", "full / diagonal, released scale",
          "full / diagonal, unit-norm heads"],
      rows: main.layers.map(({ layer, correlation: c }) => [String(layer), num(c.mean_off_diagonal), num(c.centered_mean_off_diagonal),
          num(c.by_chance), percent(c.diagonal_share.mean), percent(c.diagonal_share_unit_heads.mean)]) }));
}

function normFinding(r, main) {
  const layers = main.layers.filter((l) => l.norms), worst = ordered(layers, (l) => l.norms.share_beyond_mean_plus_4_std).at(-1);
  if (!worst) return "";
  const n = worst.norms, share = n.share_beyond_mean_plus_4_std, artefacts = share > 0.001 && n.share_beyond_3_medians > 0.001;
  const none = share === 0 && layers.every((l) => !(l.norms.share_beyond_3_medians > 0));
  let text = none ? "In no layer is a token longer than the mean plus four deviations, or than three medians: by these two criteria " +
      "there are no high-norm artefacts. " :
    "Most outliers are in layer " + worst.layer + ": " + percent(share, 2) +
        " of its tokens are longer than the mean plus four deviations, " + percent(n.share_beyond_3_medians, 2) +
        " longer than three medians. " +
    (artefacts ? "These are high-norm tokens as large vision transformers grow them. " :
        "By these two criteria together high-norm artefacts are not to be seen. ");
  if (!artefacts) text += "Both look for a minority of long tokens; were most tokens long, only the distribution below would show it. ";
  const last = layers.at(-1).norms;
  return text + (r.registers === 0 ? "To see the same with registers, train with --model-options '{\"registers\": 4}'." :
    "After the last layer the " + r.registers + " registers are " + num(last.register_mean) + " long on average, patches " + num(last.mean) +
        ".");
}

function norms(r, main) {
  const layers = main.layers.filter((l) => l.norms), chosen = layers.filter((l) => r.chosen_layers.includes(l.layer));
  section("norms", "Token norms", normFinding(r, main)).append(chart({ title: "Distribution of token norms after a layer",
      x: { label: "norm" }, y: { label: "share of tokens", min: 0 },
    series: chosen.map(({ layer, norms: n }) => ({ name: "layer " + layer, x: n.histogram.map((_, i) => (i +
        0.5) * n.max / n.histogram.length), y: n.histogram.map((count) => count / n.tokens) })),
    caption: "Patches of " + picturesOf(main) + "." }),
  table({ id: "norm-table", head: ["layer", "mean", "deviation", "median", "longest", "> mean + 4 deviations", "> 3 medians",
      ...(r.registers ? ["registers, mean"] : [])],
    rows: layers.map(({ layer, norms: n }) => [String(layer), num(n.mean), num(n.std), num(n.median), num(n.max),
        percent(n.share_beyond_mean_plus_4_std, 2), percent(n.share_beyond_3_medians, 2),
      ...(r.registers ? [num(n.register_mean)] : [])]) }));
}

function segmentationFinding(s) {
  const best = s.best_head;
  if (!best || !finite(best.iou)) return "";
  const score = (m) => num(m.iou) + (finite(m.std) ? " ± " + num(m.std, 2) : "");
  const rival = (m, lead) => {
    if (!finite(lead?.standard_error)) return "scores " + score(m);
    const apart = Math.abs(lead.mean) > 2 * lead.standard_error;
    return "scores " + score(m) + " (the head's lead over it in the same picture " + num(lead.mean, 2) + " ± " + num(lead.standard_error,
        1) + ", standard error: " +
      (!apart ? "no difference to speak of" : lead.mean > 0 ? "the head is better" : "the head is worse") + ")";
  };
  return "Chosen on half of the pictures, the best mask is " + (best.complement ? "the complement of " : "") + (best.of === "likeliest" ?
      "the patches whose most likely head is head " : "the patches whose membership is above its mean in head ") +
    best.group + " of layer " + best.layer + ". On the other half it scores IoU " + score(best) +
        " (± the deviation over pictures), masks of its size placed at random " + num(best.chance) + ". " +
    (finite(s.best_k_means?.iou) ? "k-means, its layer and cluster chosen the same way (" + (s.best_k_means.of === "output" ? "output" :
        "projected tokens") + " of layer " + s.best_k_means.layer + "), " +
      rival(s.best_k_means, s.best_head_less_k_means) + "; " : "") + "the average object's place, which looks at no picture at all, " +
          rival(s.average_object ?? {}, s.best_head_less_average_object) + ".";
}

function segmentation(r, main) {
  const s = main.segmentation, made = section("segmentation", "Do heads find the object?", segmentationFinding(s));
  if (s.pictures < 2) {
    made.append(el("p.note", s.pictures + s.skipped < 2 ? "Scores need two pictures or more, one to choose and one to score: raise " +
        "--samples." : "Fewer than two of the pictures have an object of at least one patch: no scores."));
    return;
  }
  const of = (name, key, value = "iou", more = {}) => ({ name, x: s.layers.map((l) => l.layer), y: s.layers.map((l) => l[key]?.[value]),
      ...more });
  const group = (m) => m ? (m.complement ? "not " : "") + m.group : "–", iou = (m) => m ? num(m.iou) + (finite(m.std) ? " ± " + num(m.std,
      2) : "") : "–";
  made.append(chart({ title: "Match with the object", x: layerAxis, y: { label: "IoU", min: 0 },
    series: [of("most likely head", "best_hard"), of("membership above its mean", "best_soft"), of("k-means, projected tokens",
        "k_means_on_projected"), of("k-means, layer output", "k_means_on_output"),
      of("most likely head's size at random", "best_hard", "chance", { dashed: true })],
    lines: [{ at: s.average_object?.iou, name: "average object" }, { at: s.object_share,
        name: "every token" }].filter((line) => finite(line.at)),
    caption: "Intersection over union with the large object's patches, " + s.pictures + " " + main.split + " pictures" + (s.skipped ? " (" +
        s.skipped + " more have an object smaller than a patch)" : "") +
      ". The average object's place: the patches that hold it in half of the pictures." }),
  table({ id: "segmentation-table", caption: "Best head (\"not 2\": everything but head 2), threshold and cluster are chosen on one " +
      "half of the pictures and scored on the other; ± the deviation over pictures. AUC and average precision rate the membership of " +
      "the best head as a score; without knowledge they are 0.5 and " + num(s.object_share) + ".",
    head: ["layer", "head", "IoU", "its chance", "soft head", "soft IoU", "k-means projected", "k-means output", "AUC",
        "average precision"],
    rows: s.layers.map((l) => [String(l.layer), group(l.best_hard), iou(l.best_hard), num(l.best_hard?.chance), group(l.best_soft),
        iou(l.best_soft), iou(l.k_means_on_projected), iou(l.k_means_on_output), num(l.auc), num(l.average_precision)]) }),
  folded("Every head of the chosen layers", table({ head: ["layer", "head", "IoU of most likely", "IoU above mean", "AUC",
      "average precision"],
    rows: s.layers.filter((l) => r.chosen_layers.includes(l.layer)).flatMap((l) => l.heads.filter((h) => r.chosen_heads.includes(h.head)).map((h) =>
      [String(l.layer), String(h.head), num(h.hard_iou), num(h.soft_iou), num(h.auc), num(h.average_precision)])) })));
}
