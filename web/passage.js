// One text inside a language model: what to colour by, a layer and a head to choose, a token to point at.
"use strict";

// Tokens as they stand in a line: lines end after ↵, and may break after a space.
const tokenText = (token) => token.replace(/↵/g, "↵\n").replace(/·/g, "·\u200b") + (token.startsWith("#") ? " " : "");

// data: { tokens, loss (of token 2 on), guesses?, vocab?, layers: [{ layer, mixer, memberships, gate, effect, entropy, norm, influence, means }] }.
function passageView(data, { heads, layers: chosen } = {}) {
  const { tokens, loss, layers } = data;
  const all = Math.max(0, ...layers.map((l) => (l.memberships ?? l.gate)?.length ?? 0));
  const shown = heads ?? range(all).map((h) => h + 1);
  const has = (key) => layers.some((l) => l[key]);
  const start = layers.find((l) => l.memberships) ?? layers[0];
  const state = { layer: start?.layer, head: shown[0], by: loss.length ? "surprisal" : "likeliest", token: 0 };
  const layerOf = () => layers.find((l) => l.layer === state.layer);
  const full = Math.log(Math.max(2, data.vocab ?? 0)) > 1 ? Math.log(Math.max(2, data.vocab ?? 0)) : Math.max(...loss, 1);

  // A colouring gives [colour, strength 0 to 1] of token t, and a sentence.
  const warm = "#d94f2a", cool = "#1f7ac4", violet = "#8a3fa8";
  const amount = (values, color, what, low = 0) => {
    if (!values) return null;
    const high = extremes(values)[1];
    return { of: (t) => [color, finite(values[t]) && high > low ? (values[t] - low) / (high - low) : 0],
      text: what + " Full colour: " + num(high, 4) + "; mean " + num(mean(values), 4) + "." };
  };
  const kinds = {
    surprisal: ["surprisal", () => ({ of: (t) => [warm, t === 0 ? 0 : finite(loss[t - 1]) ? loss[t - 1] / full : 1],
      text: "−log p of each token given those before it. Full colour: " + num(full, 3) + " nats" + (data.vocab ?
          ", a guess among all tokens" : "") + ". The first token is not predicted." })],
    likeliest: ["most likely head", (l) => l.memberships && { of: (t) => {
      const column = l.memberships.map((h) => h[t] ?? 0), best = Math.max(...column), even = 1 / column.length;
      return [groupColor(column.indexOf(best)), even < 1 ? (best - even) / (1 - even) : 1];
    }, text: "The head each token most likely belongs to; the stronger the colour, the more decided. Mean of the highest membership: " +
      num(mean(tokens.map((_, t) => Math.max(...l.memberships.map((h) => h[t] ?? 0))))) + "; " + num(1 / all) + " would be undecided.",
          key: true }],
    head: ["membership of one head", (l) => {
      const [low, high] = l.memberships ? extremes(l.memberships) : [];
      return l.memberships && { of: (t) => [groupColor(state.head - 1), part(l.memberships[state.head - 1][t], low, high) || 0],
        text: "Membership of head " + state.head + " from " + num(low) + " (no colour) to " + num(high) +
            " (full), the extremes of the layer; its mean is " + num(mean(l.memberships[state.head - 1])) + "." };
    }],
    gate: ["output gate of one head", (l) => {
      if (!l.gate) return null;
      const high = Math.max(...extremes(l.gate).map(Math.abs)), own = l.gate[state.head - 1];
      return { of: (t) => [own[t] < 0 ? cool : warm, Math.abs(own[t] ?? 0) / (high || 1)],
        text: "Gate of head " + state.head + ": red lets it through, blue turns its sign, no colour shuts it. Full colour: ±" + num(high) +
            "; mean " + num(mean(own)) + "." };
    }],
    effect: ["own effect", (l) => amount(l.effect, cool, "How much the layer's mixer adds to a token, |γ₁ mixer(norm x)| / |x|.")],
    influence: ["influence on later tokens", (l) => amount(l.influence, violet,
        "What later tokens would miss: the relative change of the layer's outputs if the token is left out, mean over those after it.")],
  };
  const offered = Object.entries(kinds).filter(([by]) => ({ surprisal: loss.length > 0, likeliest: has("memberships"),
      head: has("memberships"), gate: has("gate"), effect: has("effect"), influence: has("influence") })[by]);
  if (!offered.some(([by]) => by === state.by)) state.by = offered[0]?.[0];

  const list = el("div.passage", { role: "listbox", tabIndex: 0, "aria-label": "Tokens; arrow keys choose one" });
  list.id = "tokens-" + (passageView.count = (passageView.count ?? 0) + 1);
  const spans = tokens.map((token, t) => el("span.token", tokenText(token), { role: "option", id: list.id + "-" + t,
      "aria-selected": "false",
    click: () => show({ token: t }),
    // Not pointerenter, which a change of the lines above causes under a pointer at rest.
    pointermove: () => { if (state.token !== t) show({ token: t }); } }));
  list.append(...spans);
  list.addEventListener("keydown", (event) => moveKeys(event, state.token, 10, tokens.length,
      (token) => { show({ token }); spans[token].scrollIntoView({ block: "nearest" }); }));
  const caption = el("p.note"), readout = el("p", { role: "status", "aria-live": "polite", class: "readout" }), tables = el("div.columns");
  const usable = chosen ? layers.filter((l) => chosen.includes(l.layer) || l === start) : layers;
  const layerChoice = choice("Layer", usable.map((l) => [l.layer, "layer " + l.layer + " (" + l.mixer + ")"]), state.layer,
      (v) => show({ layer: Number(v), recolor: true }));
  const headChoice = choice("Head", shown.map((h) => [h, "head " + h]), state.head, (v) => show({ head: Number(v), recolor: true }));

  function recolor() {
    const found = kinds[state.by]?.[1](layerOf());
    caption.textContent = found ? found.text : "This layer has no such numbers.";
    const ground = rgbOf(css("--card").length === 4 ? "#ffffff" : css("--card"));
    spans.forEach((span, t) => {
      const [color, strength] = found ? found.of(t) : ["#000000", 0], a = 0.85 * Math.min(1, Math.max(0, strength));
      if (a < 0.01) return span.removeAttribute("style");
      shade(span, rgbOf(color).map((c, k) => Math.round(a * c + (1 - a) * ground[k])));
    });
    if (found?.key) {
      for (const h of range(all)) {
        const key = el("span.key", { "aria-hidden": "true" });
        key.style.background = groupColor(h);
        caption.append(key, "head " + (h + 1));
      }
    }
    layerChoice.hidden = state.by === "surprisal";
    headChoice.hidden = !["head", "gate"].includes(state.by);
  }

  function show(change = {}) {
    Object.assign(state, change);
    if (change.recolor || change.token === undefined) recolor();
    const t = state.token, l = layerOf();
    spans.forEach((span, k) => span.setAttribute("aria-selected", String(k === t)));
    list.setAttribute("aria-activedescendant", list.id + "-" + t);
    const guess = t > 0 ? data.guesses?.[t - 1] : undefined;
    readout.textContent = "Token " + (t + 1) + " “" + tokens[t] + "”" +
      (t > 0 && finite(loss[t - 1]) ? ": −log p " + fixed(loss[t - 1], 3) + ", p " + num(Math.exp(-loss[t - 1])) : ": not predicted") +
      (guess ? guess.id === data.ids?.[t] ? "; it was the most likely one" : "; most likely instead “" + guess.token + "”" : "") +
      (l?.effect ? ". Layer " + l.layer + ": own effect " + num(l.effect[t], 4) + (l.entropy ? ", entropy " + num(l.entropy[t], 4) : "") +
          (l.norm ? ", norm " + num(l.norm[t], 4) : "") : "") + ".";
    const names = layers.map((x) => "layer " + x.layer), columns = range(all).map((h) => "head " + (h + 1)), index = layers.indexOf(l);
    const one = (caption, pick, color) => layers.some(pick) && shadedTable({ caption, rows: names, columns, chosen: index,
      values: layers.map((x) => pick(x)?.map((h) => h[t])), color });
    const most = layers.map((x) => x.means ? extremes(x.means.norm)[1] || 1 : 1);
    tables.replaceChildren(...[
      one("Memberships of this token", (x) => x.memberships, (v) => colorAt(kSequential, v)),
      one("Output gates at this token", (x) => x.gate, (v) => colorAt(kDiverging, 0.5 + v / 2)),
      one("Size of the group's mean after it", (x) => x.means?.norm, (v, r) => colorAt(kSequential, v / most[r])),
      one("Cosine of token and mean: 1 is the same", (x) => x.means?.cosine, (v) => colorAt(kDiverging, (1 + v) / 2)),
    ].filter(Boolean));
  }

  const view = el("div", el("div.row.controls", choice("Colour by", offered.map(([by, [name]]) => [by, name]), state.by, (by) => show({ by,
      recolor: true })), layerChoice, headChoice),
    caption, list, readout, tables);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (view.isConnected) recolor(); });
  requestAnimationFrame(() => show());
  return view;
}
