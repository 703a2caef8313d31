// Attention within subspaces against its formulas, one sequence and one head at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tost/nn/mixer_attention.h"

namespace tost {
namespace mixer_subspace_test {

using torch::Tensor;

constexpr int64_t kDim = 12, kHeads = 3, kWidth = 4;

Tensor attend(const Tensor& query, const Tensor& tokens) {
  const auto powers = (torch::matmul(query, tokens.t()) / std::sqrt(double(kWidth))).exp();
  return powers / powers.sum(1, /*keepdim=*/true);
}

// A head of one sequence [N, P].
Tensor mssa_head(const Tensor& w, const torch::OrderedDict<std::string, Tensor>&, int64_t) {
  return torch::matmul(attend(w, w), w);
}

Tensor cbsa_head(const Tensor& w, const torch::OrderedDict<std::string, Tensor>& parameters,
                 int64_t head) {
  const int64_t runs = std::min(CbsaMixer::kRepresentatives, w.size(0));
  const auto pooled = torch::adaptive_avg_pool1d(w.t().unsqueeze(0), runs)[0].t();
  const auto contraction = attend(pooled, w);
  const auto rep = pooled + parameters["step_rep"][head] * torch::matmul(contraction, w);
  const auto mixed = torch::matmul(attend(rep, rep), rep);
  return parameters["step_x"][head] * torch::matmul(contraction.t(), mixed);
}

using Head = Tensor (*)(const Tensor&, const torch::OrderedDict<std::string, Tensor>&, int64_t);

void expect_the_formula(const std::string& name, const std::string& projection, Head head_of,
                        int64_t tokens) {
  torch::manual_seed(8);
  const auto mixer = make_mixer(name, {.dim = kDim, .heads = kHeads, .qkv_bias = true});
  mixer->to(torch::kDouble);
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : mixer->parameters()) parameter.normal_(0, 0.4);
  }
  const auto x = torch::randn({2, tokens, kDim}, torch::kDouble).requires_grad_();
  const auto parameters = mixer->named_parameters();
  std::vector<Tensor> sequences;
  for (int64_t b = 0; b < 2; ++b) {
    const auto w = torch::matmul(x[b], parameters[projection + ".weight"].t()) +
                   parameters[projection + ".bias"];
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < kHeads; ++h) {
      heads.push_back(head_of(w.narrow(1, h * kWidth, kWidth), parameters, h));
    }
    sequences.push_back(torch::matmul(torch::cat(heads, 1), parameters["to_out.0.weight"].t()) +
                        parameters["to_out.0.bias"]);
  }
  const auto wanted = torch::stack(sequences), found = mixer->forward(x, {});
  EXPECT_TRUE(torch::allclose(found, wanted, 1e-10, 1e-12)) << tokens;
  const auto weight = torch::arange(wanted.numel(), torch::kDouble).cos().view(wanted.sizes());
  std::vector<Tensor> inputs{x};
  for (const auto& item : parameters) inputs.push_back(item.value());
  const auto wanted_grads = torch::autograd::grad({wanted}, inputs, {weight});
  const auto found_grads = torch::autograd::grad({found}, inputs, {weight});
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(torch::allclose(found_grads[i], wanted_grads[i], 1e-9, 1e-11))
        << (i == 0 ? "x" : parameters.keys()[i - 1]) << " of " << tokens << " tokens";
  }
}

TEST(SubspaceMixers, MssaEqualsItsFormula) {
  for (const int64_t tokens : {1, 9}) expect_the_formula("mssa", "qkv", mssa_head, tokens);
}

// Fewer tokens than representatives, more, and a multiple of them.
TEST(SubspaceMixers, CbsaEqualsItsFormula) {
  for (const int64_t tokens : {1, 11, 128, 150}) {
    expect_the_formula("cbsa", "proj", cbsa_head, tokens);
  }
}

// The parametrised tests of all mixers know no more tokens than representatives.
TEST(SubspaceMixers, CbsaPoolsNoPadding) {
  torch::manual_seed(9);
  const auto mixer = make_mixer("cbsa", {.dim = kDim, .heads = kHeads});
  const torch::NoGradGuard no_grad;
  for (auto& parameter : mixer->parameters()) parameter.normal_(0, 0.3);
  const auto x = torch::randn({3, 150, kDim});
  const std::vector<int64_t> lengths{150, 97, 20};
  const auto whole = mixer->forward(x, {.lengths = torch::tensor(lengths, torch::kLong)});
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t length = lengths[size_t(i)];
    const auto separate = mixer->forward(x.narrow(0, i, 1).narrow(1, 0, length), {})[0];
    EXPECT_TRUE(torch::allclose(whole[i].narrow(0, 0, length), separate, 1e-4, 1e-5)) << length;
  }
}

TEST(SubspaceMixers, SequencesWithoutTokensStayEmpty) {
  for (const char* name : {"mssa", "cbsa"}) {
    const auto mixer = make_mixer(name, {.dim = kDim, .heads = kHeads});
    const torch::NoGradGuard no_grad;
    for (auto& parameter : mixer->parameters()) parameter.normal_();
    EXPECT_EQ(mixer->forward(torch::empty({2, 0, kDim}), {}).sizes(),
              torch::IntArrayRef({2, 0, kDim}));
  }
}

TEST(SubspaceMixers, NewStepsAreDrawn) {
  torch::manual_seed(4);
  CbsaMixer mixer({.dim = kDim, .heads = kHeads});
  const torch::NoGradGuard no_grad;
  mixer.step_x.fill_(std::nan("")), mixer.step_rep.fill_(std::nan(""));
  mixer.draw_weights();
  EXPECT_TRUE(torch::cat({mixer.step_x, mixer.step_rep}).isfinite().all().item<bool>());
}

}  // namespace mixer_subspace_test
}  // namespace tost
