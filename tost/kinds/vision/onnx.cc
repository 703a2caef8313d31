#include "tost/kinds/vision/onnx.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/vision/transformer.h"

namespace tost {
namespace {

using std::string;

constexpr double kVisionEps = 1e-6;

class VisionGraph {
 public:
  VisionGraph(VisionTransformer& model, bool memberships)
      : model_(model),
        c_(model.config()),
        memberships_(memberships),
        b_("tost", state_dict(model)) {}

  OnnxGraph make() {
    const string images =
        b_.graph.input("images", OnnxType::kFloat,
                       {string("batch"), c_.in_channels, c_.image_size, c_.image_size});
    string x = with_registers(embed(images));
    for (int64_t i = 0; i < c_.depth; ++i) x = block(x, i);
    if (c_.registers > 0) x = b_.slice(x, 1, 0, patches());
    string cls = rows_of("cls_token", x);
    for (int64_t i = 0; i < c_.class_blocks; ++i) class_block(cls, x, i);
    const string logits =
        b_.linear(b_.layer_norm(b_.slice(cls, 1, 0, 1), "norm", kVisionEps), "head");
    b_.graph.output("logits", b_.reshape(logits, {-1, c_.classes}), OnnxType::kFloat,
                    {string("batch"), c_.classes});
    return std::move(b_.graph);
  }

 private:
  int64_t grid() const { return c_.image_size / c_.patch; }
  int64_t patches() const { return grid() * grid(); }

  // A parameter [1, n, C] for every sample of x.
  string rows_of(const string& name, const string& x) {
    const string batch = b_.graph.node("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    const auto sizes = b_.at(name).sizes();
    const string shape = b_.concat({batch, b_.graph.integers({sizes[1], sizes[2]})}, 0);
    return b_.graph.node("Expand", {b_.weight(name), shape});
  }

  string with_registers(const string& x) {
    return c_.registers > 0 ? b_.concat({x, rows_of("registers", x)}, 1) : x;
  }

  string embed(const string& images) {
    string x = images;
    for (int64_t i = 0;; ++i) {
      const string stage = cat("patch_embed.proj.", 2 * i);
      if (!b_.has(stage + ".0.weight")) break;
      if (i > 0) x = b_.gelu(x);
      const int64_t stride = stride_of(i);
      x = b_.graph.node("Conv", {x, b_.weight(stage + ".0.weight")},
                        {{"pads", std::vector<int64_t>{1, 1, 1, 1}},
                         {"strides", std::vector<int64_t>{stride, stride}}});
      std::vector<string> norm{x};
      for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
        norm.push_back(b_.weight(stage + ".1" + part));
      }
      x = b_.graph.node("BatchNormalization", norm, {{"epsilon", 1e-5}});
    }
    x = b_.transpose(b_.reshape(x, {0, c_.dim, patches()}), {0, 2, 1});
    const torch::NoGradGuard no_grad;
    return b_.add(x, b_.tensor("positions", model_.pos_embeder->forward(grid(), grid())));
  }

  // Every stem_depth-th convolution halves the picture, from the first on.
  int64_t stride_of(int64_t convolution) const { return convolution % c_.stem_depth == 0 ? 2 : 1; }

  string block(const string& x, int64_t i) {
    const string name = cat("blocks.", i);
    const string mixed = mix(b_.layer_norm(x, name + ".norm1", kVisionEps), name + ".attn", i);
    const string y = b_.add(x, b_.mul(mixed, b_.weight(name + ".gamma1")));
    const string out =
        b_.mlp(b_.layer_norm(y, name + ".norm2", kVisionEps), name + ".mlp.fc1", name + ".mlp.fc2");
    return b_.add(y, b_.mul(out, b_.weight(name + ".gamma2")));
  }

  string mix(const string& x, const string& name, int64_t i) {
    if (c_.mixer == "softmax") return attention(x, name);
    const string w = b_.linear(x, name + ".qkv");
    const string y = c_.mixer == "none" ? w : c_.mixer == "tssa" ? tssa(w, name, i) : uniform(w);
    return b_.linear(y, name + ".to_out.0");
  }

  // ops/tssa_plain.cc
  string tssa(const string& w, const string& name, int64_t i) {
    const int64_t width = c_.dim / c_.heads;
    const string x = b_.reshape(w, {0, 0, c_.heads, width}), q = b_.mul(x, x);
    const string energy = b_.guarded(b_.sum(q, 1, true));
    const string temp = b_.tensor(name + ".temp", b_.at(name + ".temp").view({c_.heads}));
    const string logits = b_.mul(b_.sum(b_.div(q, energy), 3, false), temp);
    const string pi = b_.graph.node("Softmax", {logits}, {{"axis", int64_t{2}}});  // [B, N, H]
    if (memberships_) {
      const int64_t tokens = patches() + c_.registers;
      b_.graph.output(cat("membership_", i + 1), b_.transpose(pi, {0, 2, 1}), OnnxType::kFloat,
                      {string("batch"), c_.heads, tokens});
    }
    const string share = b_.unsqueeze(pi, 3);
    const string moment =
        b_.div(b_.sum(b_.mul(share, q), 1, true), b_.guarded(b_.sum(share, 1, true)));
    return b_.reshape(damped(b_.mul(x, share), moment), {0, 0, c_.dim});
  }

  string uniform(const string& w) {
    const double tokens = double(patches() + c_.registers);
    const string mean = b_.div(b_.sum(b_.mul(w, w), 1, true), b_.graph.number(float(tokens)));
    return b_.div(damped(w, mean), b_.graph.number(float(c_.heads)));
  }

  // -x / (1 + moment)
  string damped(const string& x, const string& moment) {
    return b_.graph.node("Neg", {b_.div(x, b_.add(moment, b_.graph.number(1)))});
  }

  // [B, N, 3C] as three of [B, H, N, P].
  std::vector<string> heads_of(const string& qkv) {
    const string parts =
        b_.transpose(b_.reshape(qkv, {0, 0, 3, c_.heads, c_.dim / c_.heads}), {2, 0, 3, 1, 4});
    std::vector<string> found;
    for (int64_t i = 0; i < 3; ++i) {
      found.push_back(b_.graph.node("Gather", {parts, b_.graph.integer(i)}));
    }
    return found;
  }

  // Of queries q over k and v [B, H, N, P] → [B, n, C].
  string attend(const string& q, const string& k, const string& v) {
    const float scale = 1 / std::sqrt(float(c_.dim / c_.heads));
    const string scores =
        b_.mul(b_.graph.node("MatMul", {q, b_.transpose(k, {0, 1, 3, 2})}), b_.graph.number(scale));
    const string weights = b_.graph.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
    const string y = b_.transpose(b_.graph.node("MatMul", {weights, v}), {0, 2, 1, 3});
    return b_.reshape(y, {0, 0, c_.dim});
  }

  string attention(const string& x, const string& name) {
    const auto parts = heads_of(b_.linear(x, name + ".qkv"));
    return b_.linear(attend(parts[0], parts[1], parts[2]), name + ".proj");
  }

  // ClassAttentionBlock::forward()
  void class_block(string& cls, string& tokens, int64_t i) {
    const string name = cat("cls_attn_blocks.", i);
    const string gamma1 = b_.weight(name + ".gamma1"), gamma2 = b_.weight(name + ".gamma2");
    const string normed = b_.layer_norm(tokens, name + ".norm1", kVisionEps);
    const string all = b_.concat({b_.layer_norm(cls, name + ".norm1", kVisionEps), normed}, 1);
    const auto parts = heads_of(b_.linear(all, name + ".attn.qkv"));
    const string attended =
        b_.linear(attend(b_.slice(parts[0], 2, 0, 1), parts[1], parts[2]), name + ".attn.proj");
    const string y =
        b_.layer_norm(b_.add(cls, b_.mul(attended, gamma1)), name + ".norm2", kVisionEps);
    cls = b_.add(y, b_.mul(b_.mlp(y, name + ".mlp.fc1", name + ".mlp.fc2"), gamma2));
    if (i + 1 == c_.class_blocks) return;
    string mixed = b_.add(tokens, b_.mul(normed, gamma1));
    if (c_.tokens_norm) mixed = b_.layer_norm(mixed, name + ".norm2", kVisionEps);
    tokens = b_.mul(mixed, b_.graph.number(2));
  }

  VisionTransformer& model_;
  const VisionConfig& c_;
  const bool memberships_;
  OnnxBuilder b_;
};

}  // namespace

OnnxGraph vision_onnx(ImageClassifier& model, bool memberships) {
  auto* network = dynamic_cast<VisionTransformer*>(&model);
  const std::vector<string> mixers{"tssa", "uniform", "none", "softmax"};
  const string& mixer = model.config().mixer;
  if (network == nullptr) {
    fail_usage("Models of architecture ", model.config().architecture,
               " have no ONNX form; export a transformer.");
  }
  if (std::find(mixers.begin(), mixers.end(), mixer) == mixers.end()) {
    fail_usage("Image models with the mixer ", mixer,
               " have no ONNX form; the mixers that have one ", "are ", join(mixers, ", "), ".");
  }
  if (memberships && mixer != "tssa") {
    fail_usage("The mixer ", mixer, " has no memberships to give; leave --memberships out.");
  }
  return VisionGraph(*network, memberships).make();
}

}  // namespace tost
