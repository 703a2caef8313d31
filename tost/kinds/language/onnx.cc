#include "tost/kinds/language/onnx.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/causal_tssa.h"

namespace tost {
namespace {

using std::string;
using torch::Tensor;

constexpr double kLanguageEps = 1e-5;
constexpr int64_t kMostIndex = INT64_MAX;

class LanguageGraph {
 public:
  explicit LanguageGraph(LanguageModel& model)
      : model_(model),
        c_(model.config()),
        width_(c_.dim / c_.heads),
        b_("tost", state_dict(model)) {}

  OnnxGraph make() {
    const string ids = b_.graph.input("ids", OnnxType::kInt64, {string("batch"), string("tokens")});
    const string position = b_.graph.input("position", OnnxType::kInt64, {});
    const string tokens =
        b_.graph.node("Gather", {b_.graph.node("Shape", {ids}), b_.graph.integer(1)});
    positions_ = b_.graph.node(
        "Range", {position, b_.graph.node("Add", {position, tokens}), b_.graph.integer(1)});
    string x = b_.graph.node("Gather", {b_.weight("transformer.wte.weight"), ids});
    if (b_.has("transformer.wpe.weight")) {
      x = b_.add(x, b_.graph.node("Gather", {b_.weight("transformer.wpe.weight"), positions_}));
    }
    for (int64_t i = 0; i < c_.depth; ++i) x = block(x, i);
    x = b_.layer_norm(x, "transformer.ln_f", kLanguageEps);
    const string head = b_.transpose(b_.weight("transformer.wte.weight"), {1, 0});
    b_.graph.output("logits", b_.graph.node("MatMul", {x, head}), OnnxType::kFloat,
                    {string("batch"), string("tokens"), c_.vocab});
    return std::move(b_.graph);
  }

 private:
  string block(const string& x, int64_t i) {
    const string name = cat("transformer.h.", i);
    block_ = i + 1;
    const string mixed = mix(b_.layer_norm(x, name + ".ln_1", kLanguageEps), name + ".attn",
                             *model_.blocks()[size_t(i)]->attn);
    const string y = b_.add(x, b_.mul(mixed, b_.weight(name + ".gamma1")));
    const string out = b_.mlp(b_.layer_norm(y, name + ".ln_2", kLanguageEps), name + ".mlp.c_fc",
                              name + ".mlp.c_proj", c_.activation == "gelu-tanh");
    return b_.add(y, b_.mul(out, b_.weight(name + ".gamma2")));
  }

  string mix(const string& x, const string& name, TokenMixer& mixer) {
    if (const auto* tssa = mixer.as<CausalTssaMixer>()) return tssa_mixer(x, name, *tssa);
    return means_mixer(x, name, *mixer.as<CausalMeansMixer>());
  }

  // A part of this block's state [batch, sides...]: its value before, and the output for after.
  string state_before(const string& part, const std::vector<int64_t>& sides) {
    return b_.graph.input(cat("state_", block_, "_", part), OnnxType::kFloat, shape_of(sides));
  }
  void state_after(const string& part, const string& value, const std::vector<int64_t>& sides) {
    b_.graph.output(cat("new_state_", block_, "_", part), value, OnnxType::kFloat, shape_of(sides));
  }
  static std::vector<OnnxSide> shape_of(const std::vector<int64_t>& sides) {
    std::vector<OnnxSide> shape{string("batch")};
    shape.insert(shape.end(), sides.begin(), sides.end());
    return shape;
  }

  // running_sums() of x [B, T, H, P] after `before` [B, H, P]; without rates plain sums.
  string running(const string& x, const string& before, const Tensor& log_rates,
                 const string& name) {
    if (!log_rates.defined()) {
      return b_.add(b_.graph.node("CumSum", {x, b_.graph.integer(1)}), b_.unsqueeze(before, 1));
    }
    // How many tokens ago, [T, T], and what is left of a token after so many, [H, T, T].
    const string place = b_.graph.node(
        "Cast",
        {b_.graph.node("Sub",
                       {positions_, b_.graph.node("Gather", {positions_, b_.graph.integer(0)})})},
        {{"to", int64_t(OnnxType::kFloat)}});
    const string ago = b_.sub(b_.unsqueeze(place, 1), b_.unsqueeze(place, 0));
    const string rates = b_.tensor(name + ".log_rates", log_rates.view({-1, 1, 1}));
    const string past = b_.graph.node("GreaterOrEqual", {ago, b_.graph.number(0)});
    const string left =
        b_.graph.node("Exp", {b_.mul(b_.graph.node("Max", {ago, b_.graph.number(0)}), rates)});
    const string weights = b_.graph.node("Where", {past, left, b_.graph.number(0)});
    const string sums = b_.graph.node("MatMul", {weights, b_.transpose(x, {0, 2, 1, 3})});
    const string since = b_.unsqueeze(b_.add(place, b_.graph.number(1)), 1);  // [T, 1]
    const string rest =
        b_.mul(b_.graph.node("Exp", {b_.mul(since, rates)}), b_.unsqueeze(before, 2));
    return b_.transpose(b_.add(sums, rest), {0, 2, 1, 3});
  }

  // The last token of [B, T, ...] as [B, sides...].
  string last(const string& x, const std::vector<int64_t>& sides) {
    std::vector<int64_t> shape{-1};
    shape.insert(shape.end(), sides.begin(), sides.end());
    return b_.reshape(b_.slice(x, 1, -1, kMostIndex), shape);
  }

  string convolved(const string& w, const string& name, int64_t taps) {
    const std::vector<int64_t> sides{taps - 1, c_.dim};
    const string all = taps > 1 ? b_.concat({state_before("conv", sides), w}, 1) : w;
    if (taps > 1) state_after("conv", b_.slice(all, 1, -(taps - 1), kMostIndex), sides);
    const string kernel =
        b_.tensor(name + ".kernel", b_.at(name + ".weight").t().unsqueeze(1));  // [C, 1, taps]
    return b_.transpose(
        b_.graph.node("Conv", {b_.transpose(all, {0, 2, 1}), kernel}, {{"group", c_.dim}}),
        {0, 2, 1});
  }

  // GroupMeans::forward(); share [B, T, H, 1]
  string group_means(const string& values, const string& share, const Tensor& log_rates,
                     const string& name) {
    const std::vector<int64_t> sides{c_.heads, width_ + 1};
    const string split = b_.reshape(values, {0, 0, c_.heads, width_});
    const string parts = b_.concat({b_.mul(split, share), b_.mul(share, share)}, 3);
    const string sums = running(parts, state_before("means", sides), log_rates, name);
    state_after("means", last(sums, sides), sides);
    const string spread = b_.graph.node(
        "Sqrt", {b_.add(b_.slice(sums, 3, width_, width_ + 1), b_.graph.number(1e-6f))});
    const string means = b_.div(b_.slice(sums, 3, 0, width_), spread);
    return b_.mul(b_.reshape(means, {0, 0, c_.dim}), b_.weight(name + ".scale"));
  }

  // Of each position, 0 beyond the last: [T, H].
  string biases(const string& name) {
    const Tensor& bias = b_.at(name + ".denom_bias");  // [H, L, 1]
    const Tensor table = torch::cat({bias.squeeze(2).t(), torch::zeros({1, c_.heads})}, 0);
    const string row = b_.graph.node("Min", {positions_, b_.graph.integer(bias.size(1))});
    return b_.graph.node("Gather", {b_.tensor(name + ".bias_table", table * double(width_)), row});
  }

  // CausalTssaMixer::mix() (ops/tssa_causal_plain.cc)
  string tssa_mixer(const string& x, const string& name, const CausalTssaMixer& mixer) {
    string w = b_.linear(x, name + ".c_attn");
    if (mixer.conv != nullptr) w = convolved(w, name + ".conv", mixer.conv->weight.size(0));
    const Tensor rates = mixer.rates->log_rates();
    const std::vector<int64_t> wide{c_.heads, width_}, sides{c_.heads, width_ + 1};
    const string split = b_.reshape(w, {0, 0, c_.heads, width_}), q = b_.mul(split, split);
    const string energy = running(q, state_before("energy", wide), rates, name + ".energy");
    state_after("energy", last(energy, wide), wide);
    string logits = b_.sum(b_.div(q, b_.guarded(energy)), 3, false);  // [B, T, H]
    if (mixer.denom_bias.size(1) > 0) logits = b_.add(logits, biases(name));
    const string temp = b_.tensor(name + ".temp", mixer.temp.view({-1}));
    const string pi =
        b_.unsqueeze(b_.graph.node("Softmax", {b_.mul(logits, temp)}, {{"axis", int64_t{2}}}), 3);
    const string sums = running(b_.concat({b_.mul(q, pi), pi}, 3), state_before("moments", sides),
                                rates, name + ".moments");
    state_after("moments", last(sums, sides), sides);
    const string moment =
        b_.div(b_.slice(sums, 3, 0, width_), b_.guarded(b_.slice(sums, 3, width_, width_ + 1)));
    string y =
        b_.graph.node("Neg", {b_.div(b_.mul(split, pi), b_.add(moment, b_.graph.number(1)))});
    y = b_.reshape(y, {0, 0, c_.dim});
    const auto times_heads = [&](const string& value) {
      return b_.mul(value, b_.graph.number(float(c_.heads)));
    };
    if (c_.options.scale_pi) y = times_heads(y);
    if (mixer.means != nullptr) {
      const string values = mixer.values != nullptr ? b_.linear(x, name + ".values") : w;
      y = b_.add(y, group_means(values, times_heads(pi), rates, name + ".means"));
    }
    if (mixer.gate != nullptr) y = b_.mul(y, b_.silu(b_.linear(x, name + ".gate")));
    return b_.linear(y, name + ".c_proj");
  }

  // CausalMeansMixer::forward()
  string means_mixer(const string& x, const string& name, const CausalMeansMixer& mixer) {
    const string parts = b_.linear(x, name + ".c_attn");
    string w = b_.slice(parts, 2, 0, c_.dim);
    if (mixer.conv != nullptr) w = convolved(w, name + ".conv", mixer.conv->weight.size(0));
    const string logits = b_.mul(b_.linear(x, name + ".router"), b_.weight(name + ".temp"));
    const string shares = b_.graph.node("Softmax", {logits}, {{"axis", int64_t{2}}});
    const string pi =  // [B, T, H, 1]
        b_.unsqueeze(b_.mul(shares, b_.graph.number(float(c_.heads))), 3);
    const string values = b_.slice(parts, 2, c_.dim, 2 * c_.dim);
    string y = b_.add(w, group_means(values, pi, mixer.rates->log_rates(), name + ".means"));
    if (c_.options.gate) y = b_.mul(y, b_.silu(b_.slice(parts, 2, 2 * c_.dim, 3 * c_.dim)));
    return b_.linear(y, name + ".c_proj");
  }

  LanguageModel& model_;
  const LanguageConfig& c_;
  const int64_t width_;
  OnnxBuilder b_;
  string positions_;  // [T] int64
  int64_t block_ = 0;
};

}  // namespace

OnnxGraph language_onnx(LanguageModel& model) {
  check_predicts(model.config(), "the ONNX form");
  for (const auto& block : model.blocks()) {
    if (block->attn->as<CausalTssaMixer>() != nullptr ||
        block->attn->as<CausalMeansMixer>() != nullptr) {
      continue;
    }
    const LanguageConfig& c = model.config();
    fail_usage("Language models with the mixer ", c.mixer,
               c.hybrid_every > 0 ? " and " + c.hybrid_mixer : string(),
               " have no ONNX form; tssa and means have one.");
  }
  const torch::NoGradGuard no_grad;
  return LanguageGraph(model).make();
}

}  // namespace tost
