#include "tost/nn/branch.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "tost/nn/block.h"
#include "tost/nn/causal_mixer.h"

namespace tost {
namespace branch_test {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr double kEps = 1e-5;

struct Shape {
  int64_t batch, tokens, dim, hidden;
};
const std::vector<Shape> kShapes{{1, 1, 2, 1}, {1, 3, 5, 7}, {2, 9, 24, 50}, {3, 37, 33, 130}};

// x, norm weight and bias, in weight and bias, out weight and bias, gamma.
Tensors random_inputs(const Shape& s, bool bias) {
  const auto leaf = [](const Tensor& x) { return x.requires_grad_(true); };
  Tensors v{leaf(torch::randn({s.batch, s.tokens, s.dim})),
            leaf(1 + 0.3 * torch::randn({s.dim})),
            leaf(torch::randn({s.dim})),
            leaf(torch::randn({s.hidden, s.dim})),
            leaf(torch::randn({s.hidden})),
            leaf(0.3 * torch::randn({s.dim, s.hidden})),
            leaf(torch::randn({s.dim})),
            leaf(torch::randn({s.dim}))};
  if (!bias) v[2] = v[4] = v[6] = Tensor();
  return v;
}

Tensor plain_mlp(const Tensors& v, const Tensor& keep, bool tanh) {
  const auto n = torch::layer_norm(v[0], v[1].sizes(), v[1], v[2], kEps);
  const auto a = torch::gelu(torch::linear(n, v[3], v[4]), tanh ? "tanh" : "none");
  auto value = v[7] * torch::linear(a, v[5], v[6]);
  if (keep.defined()) value = value * keep.to(value.scalar_type()).view({-1, 1, 1});
  return v[0] + value;
}

Tensor plain_maps(const Tensors& v, const Tensor& keep) {
  const auto n = torch::layer_norm(v[0], v[1].sizes(), v[1], v[2], kEps);
  auto value = v[7] * torch::linear(torch::linear(n, v[3], v[4]).tanh(), v[5], v[6]);
  if (keep.defined()) value = value * keep.to(value.scalar_type()).view({-1, 1, 1});
  return v[0] + value;
}

struct Parts {
  explicit Parts(const Tensors& v)
      : norm(v[1].size(0), kEps, v[2].defined()), in(1, 1, false), out(1, 1, false) {
    norm.weight = v[1], norm.bias = v[2], in.weight = v[3], in.bias = v[4];
    out.weight = v[5], out.bias = v[6];
  }
  LayerNorm norm;
  Linear in, out;
};

Tensor fused_mlp(const Tensors& v, const Tensor& keep, bool tanh, bool recompute = false) {
  const Parts parts(v);
  return mlp_branch(v[0],
                    {.norm = parts.norm,
                     .in = parts.in,
                     .out = parts.out,
                     .gamma = v[7],
                     .tanh_gelu = tanh,
                     .recompute = recompute},
                    keep);
}

Tensor fused_maps(const Tensors& v, const Tensor& keep) {
  const Parts parts(v);
  const auto [residual, mapped] = norm_and_map(v[0], parts.norm, parts.in);
  return map_and_add(residual, mapped.tanh(), parts.out, v[7], keep);
}

Tensors defined(const Tensors& all) {
  Tensors some;
  for (const Tensor& x : all) {
    if (x.defined()) some.push_back(x);
  }
  return some;
}

// The result of `run`, and the gradients of a fixed weighting of it.
using Function = std::function<Tensor(const Tensors&)>;
Tensors value_and_gradients(const Tensors& v, const Function& run) {
  const Tensor y = run(v);
  // Their sum is not 0: where all tokens are alike it would leave nothing but rounding.
  const Tensor weights = torch::linspace(-0.5, 1, y.numel(), y.options()).view(y.sizes());
  Tensors result = torch::autograd::grad({y}, defined(v), {weights});
  result.insert(result.begin(), y.detach());
  return result;
}

Tensors in_double(const Tensors& v) {
  Tensors wide;
  for (const Tensor& x : v) {
    wide.push_back(x.defined() ? x.detach().to(torch::kDouble).requires_grad_(true) : x);
  }
  return wide;
}

double error(const Tensor& found, const Tensor& exact) {
  return (found.to(torch::kDouble) - exact).abs().max().item<double>() /
         std::max(1e-3, exact.abs().max().item<double>());
}

// No worse than a few times the plain form's own error.
void expect_as_good(const Tensors& found, const Tensors& plain, const Tensors& exact, double unit) {
  ASSERT_EQ(found.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), exact[i].sizes()) << i;
    EXPECT_LE(error(found[i], exact[i]), 3 * error(plain[i], exact[i]) + unit) << "tensor " << i;
  }
}

void check_against_plain(const Tensors& v, const Function& fused, const Function& plain,
                         double unit) {
  const auto exact = value_and_gradients(in_double(v), plain);
  expect_as_good(value_and_gradients(v, fused), value_and_gradients(v, plain), exact, unit);
}

void check_all_shapes(double unit) {
  torch::manual_seed(2);
  for (const Shape& shape : kShapes) {
    for (const bool bias : {true, false}) {
      for (const bool dropped : {false, true}) {
        SCOPED_TRACE(::testing::Message() << shape.tokens << " x " << shape.dim << ", bias " << bias
                                          << ", dropped " << dropped);
        const Tensors v = random_inputs(shape, bias);
        const Tensor keep = dropped ? torch::arange(shape.batch).to(torch::kFloat) : Tensor();
        for (const bool tanh : {false, true}) {
          check_against_plain(
              v, [&](const Tensors& in) { return fused_mlp(in, keep, tanh); },
              [&](const Tensors& in) { return plain_mlp(in, keep, tanh); }, unit);
        }
        check_against_plain(
            v, [&](const Tensors& in) { return fused_maps(in, keep); },
            [&](const Tensors& in) { return plain_maps(in, keep); }, unit);
      }
    }
  }
}

struct Autocast {
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

TEST(Branch, AgreesWithItsDefinition) {
  torch::manual_seed(1);
  check_all_shapes(2e-6);
}

TEST(Branch, IsAsExactAsAutocastInBfloat16) {
  torch::manual_seed(2);
  const Autocast autocast;
  check_all_shapes(1e-2);
}

TEST(Branch, TakesLargeValuesAsTorchDoes) {
  torch::manual_seed(5);
  for (const bool tanh : {false, true}) {
    Tensors v = random_inputs({1, 9, 1, 1}, true);
    v[1] = torch::zeros({1}).requires_grad_(true);  // the norm gives its bias
    for (const double x : {-40.0, -12.0, -5.5, -1e-3, 0.0, 1e-3, 5.5, 12.0, 40.0}) {
      v[2] = torch::full({1}, x).requires_grad_(true);
      v[3] = torch::ones({1, 1}).requires_grad_(true);
      v[4] = torch::zeros({1}).requires_grad_(true);
      check_against_plain(
          v, [&](const Tensors& in) { return fused_mlp(in, {}, tanh); },
          [&](const Tensors& in) { return plain_mlp(in, {}, tanh); }, 2e-4);
    }
  }
}

TEST(Branch, CanBeDifferentiatedTwice) {
  torch::manual_seed(3);
  const Tensors v = random_inputs({2, 3, 5, 7}, true);
  const Tensor keep = torch::tensor({2.0f, 0.0f});
  const auto twice = [&](const Tensors& in, const Function& run) {
    const auto first = torch::autograd::grad({run(in).square().sum()}, in, {}, true, true);
    Tensor sum = torch::zeros({}, in[0].options());
    for (const Tensor& g : first) sum = sum + g.square().sum();
    return torch::autograd::grad({sum}, in);
  };
  const std::vector<std::pair<Function, Function>> pairs{
      {[&](const Tensors& in) { return fused_mlp(in, keep, false); },
       [&](const Tensors& in) { return plain_mlp(in, keep, false); }},
      {[&](const Tensors& in) { return fused_maps(in, keep); },
       [&](const Tensors& in) { return plain_maps(in, keep); }}};
  for (const auto& [fused, plain] : pairs) {
    const auto exact = twice(in_double(v), plain);
    expect_as_good(twice(v, fused), twice(v, plain), exact, 1e-5);
  }
}

TEST(Branch, GivesTheSameWhenHiddenValuesAreComputedAgain) {
  torch::manual_seed(4);
  const Tensors v = random_inputs({2, 37, 24, 50}, true);
  const auto saved =
      value_and_gradients(v, [](const Tensors& in) { return fused_mlp(in, {}, false, false); });
  const auto again =
      value_and_gradients(v, [](const Tensors& in) { return fused_mlp(in, {}, false, true); });
  for (size_t i = 0; i < saved.size(); ++i) EXPECT_TRUE(torch::equal(saved[i], again[i])) << i;
}

// The trace makes a block go layer by layer.
TEST(Branch, BlocksAgreeWithTheirLayers) {
  torch::manual_seed(5);
  for (const std::string& mixer : mixer_names()) {
    SCOPED_TRACE(mixer);
    Block block({.dim = 24, .mlp_hidden = 50, .layer_scale = 0.7},
                make_mixer(mixer, {.dim = 24, .heads = 3}));
    init_linears(block);
    block.attn->draw_weights();
    const Tensor x = torch::randn({2, 9, 24}).requires_grad_(true);
    Tensors inputs = block.parameters();
    inputs.push_back(x);
    const auto run = [&](BlockTrace* trace) {
      const Tensor y = block.forward(x, trace);
      Tensors found = torch::autograd::grad({y.square().sum()}, inputs);
      found.push_back(y.detach());
      return found;
    };
    BlockTrace trace;
    const Tensors fused = run(nullptr), layers = run(&trace);
    for (size_t i = 0; i < layers.size(); ++i) {
      EXPECT_LE(error(fused[i], layers[i].to(torch::kDouble)), 2e-5) << i;
    }
  }
}

template <class Step>
void expect_same_with_recompute(torch::nn::Module& block, Recompute& mode, const Step& step) {
  std::vector<Tensors> found;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kMlp, Recompute::kBlock}) {
    mode = recompute;
    torch::manual_seed(7);
    block.zero_grad();
    Tensors all = step();
    for (const Tensor& p : block.parameters()) all.push_back(p.grad().clone());
    all.push_back(torch::rand({3}));  // where the generator stands
    found.push_back(std::move(all));
  }
  for (size_t i = 0; i < found[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(found[0][i], found[1][i])) << "mlp, " << i;
    EXPECT_TRUE(torch::equal(found[0][i], found[2][i])) << "block, " << i;
  }
}

TEST(Recompute, ChangesNoBit) {
  for (const auto& [drop_path, dropout] :
       {std::pair<double, double>{0, 0}, {0.5, 0}, {0, 0.3}, {0.5, 0.3}}) {
    SCOPED_TRACE(::testing::Message() << drop_path << " " << dropout);
    Block block({.dim = 24, .mlp_hidden = 50, .drop_path = drop_path, .dropout = dropout},
                make_mixer("tssa", {.dim = 24, .heads = 3}));
    init_linears(block);
    const Tensor start = torch::randn({4, 9, 24});
    expect_same_with_recompute(block, block.recompute, [&]() -> Tensors {
      const Tensor x = start.clone().requires_grad_(true);
      const Tensor y = block.forward(x);
      y.square().sum().backward();
      return {y.detach(), x.grad()};
    });
  }
}

TEST(Recompute, ChangesNoBitOfLanguageBlocksUnderAutocast) {
  Block block({.dim = 24, .mlp_hidden = 50, .layer_scale = 0.5},
              make_causal_mixer("tssa", {.dim = 24, .heads = 3, .block = 9, .options = {}}));
  init_linears(block);
  const Tensor start = torch::randn({2, 9, 24});
  expect_same_with_recompute(block, block.recompute, [&]() -> Tensors {
    const Tensor x = start.clone().requires_grad_(true);
    Tensor y;
    {
      const Autocast autocast;
      y = block.forward(x);
    }
    y.square().sum().backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    return {y.detach(), x.grad()};
  });
}

// Without gradients the products of so few rows are others.
TEST(Recompute, ChangesNothingBeyondRoundingForFewRows) {
  Block block({.dim = 24, .mlp_hidden = 50}, make_mixer("tssa", {.dim = 24, .heads = 3}));
  init_linears(block);
  block.branches = false;
  const Tensor start = torch::randn({1, 3, 24});
  Tensors found;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock}) {
    block.recompute = recompute;
    const Tensor x = start.clone().requires_grad_(true);
    const Tensor y = block.forward(x);
    y.square().sum().backward();
    found.push_back(torch::stack({y.detach(), x.grad()}));
  }
  EXPECT_LE(error(found[1], found[0].to(torch::kDouble)), 1e-5);
}

// A block of mixed types is made of its layers, which then say what they do not take.
TEST(Branch, LeavesBlocksThatAreNotFloat32AndContiguous) {
  Block block({.dim = 24, .mlp_hidden = 50}, make_mixer("tssa", {.dim = 24, .heads = 3}));
  init_linears(block);
  const Tensor x = torch::randn({1, 3, 24});
  EXPECT_EQ(why_no_branches(x, block), nullptr);
  for (const char* name : {"mlp.fc1.weight", "attn.qkv.bias", "gamma2"}) {
    Tensor parameter = block.named_parameters()[name];
    const Tensor before = parameter.data();
    parameter.set_data(before.to(torch::kBFloat16));
    EXPECT_NE(why_no_branches(x, block), nullptr) << name;
    parameter.set_data(before);
  }
  Tensor weight = block.mlp->fc2->weight;
  weight.set_data(weight.data().t().contiguous().t());
  EXPECT_NE(why_no_branches(x, block), nullptr);
  weight.set_data(weight.data().contiguous());
  EXPECT_EQ(why_no_branches(x, block), nullptr);
  for (const Tensor& p : block.parameters()) p.requires_grad_(false);
  EXPECT_NE(why_no_branches(x, block), nullptr);
  EXPECT_EQ(why_no_branches(torch::randn({1, 3, 24}).requires_grad_(true), block), nullptr);
}

TEST(Recompute, ReadsItsNames) {
  for (const std::string& name : recompute_names()) EXPECT_NO_THROW(recompute_from_name(name));
  EXPECT_EQ(recompute_from_name("block"), Recompute::kBlock);
  EXPECT_ANY_THROW(recompute_from_name("blocks"));
}

TEST(WorkingCopy, FollowsTheWeightAndGathersItsGradient) {
  auto holder = std::make_shared<torch::nn::Module>("holder");
  auto shared = holder->register_module("map", std::make_shared<Linear>(5, 3, false));
  torch::nn::init::normal_(shared->weight);
  const auto copies = keep_working_copies(*holder, /*separate_gradients=*/true);
  ASSERT_EQ(copies.size(), 1u);
  const Tensor x = torch::randn({7, 5});
  EXPECT_EQ(shared->product_weight().scalar_type(), torch::kFloat) << "autocast is off";
  const Autocast autocast;
  shared->forward(x).sum().backward();
  EXPECT_FALSE(shared->weight.grad().defined());
  ASSERT_TRUE(copies[0]->values().grad().defined());
  EXPECT_EQ(copies[0]->values().grad().scalar_type(), torch::kBFloat16);
  {
    const torch::NoGradGuard no_grad;
    shared->weight.mul_(2);
  }
  EXPECT_TRUE(torch::equal(shared->product_weight(), shared->weight.to(torch::kBFloat16)));
  const auto shared_gradient = keep_working_copies(*holder, /*separate_gradients=*/false);
  shared->forward(x).sum().backward();
  EXPECT_FALSE(shared_gradient[0]->values().grad().defined());
  ASSERT_TRUE(shared->weight.grad().defined());
  EXPECT_EQ(shared->weight.grad().scalar_type(), torch::kFloat);
}

}  // namespace branch_test
}  // namespace tost
