#include "tost/engine/text_trace.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace tost {
namespace {

using nlohmann::json;

constexpr double kLeast = 1e-12;  // of a divisor

double norm_of(const float* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double(x[i]) * x[i];
  return std::sqrt(sum);
}

json rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

// Null for an empty list.
template <class Value>
json rounded(const std::vector<Value>& values) {
  json list;
  for (const Value& value : values) list.push_back(rounded(value));
  return list;
}

}  // namespace

void TracedBlock::add_memberships(const float* pi, int64_t heads, int64_t tokens) {
  memberships.resize(size_t(heads));
  for (auto& head : memberships) head.insert(head.end(), pi, pi + tokens), pi += tokens;
}

void TracedBlock::add_mean(size_t head, const float* mean, const float* value, int64_t width) {
  for (auto* heads : {&mean_norm, &mean_cosine}) heads->resize(std::max(heads->size(), head + 1));
  const double norm = norm_of(mean, width);
  const double product = std::inner_product(mean, mean + width, value, 0.0);
  mean_norm[head].push_back(norm);
  mean_cosine[head].push_back(product / std::max(kLeast, norm * norm_of(value, width)));
}

void TracedBlock::add_means(const MeansWeights& weights, int64_t tokens, const float* parts,
                            const float* pi) {
  const int64_t heads = weights.heads, dim = weights.dim, width = dim / heads;
  std::vector<float> mean(static_cast<size_t>(width)), value(mean);
  memberships.resize(size_t(heads));
  sums.resize(size_t(heads), std::vector<double>(mean.size() + 1));
  for (int64_t i = 0; i < tokens * heads; ++i) {
    const int64_t t = i / heads, h = i % heads;
    const float* values = parts + (t * (weights.gate ? 3 : 2) + 1) * dim + h * width;
    const double share = pi[i], keep = weights.decay.data<double>()[h];
    auto& sum = sums[size_t(h)];
    sum.back() = keep * sum.back() + share * share;
    const double scale = 1 / std::sqrt(sum.back() + 1e-6);
    for (size_t c = 0; c < mean.size(); ++c) {
      value[c] = values[c] * weights.scale.data()[size_t(h * width) + c];
      sum[c] = keep * sum[c] + share * value[c];
      mean[c] = float(sum[c] * scale);
    }
    memberships[size_t(h)].push_back(share / double(heads));
    add_mean(size_t(h), mean.data(), value.data(), width);
  }
}

void TracedBlock::add_effect(const float* before, const float* after, int64_t tokens, int64_t dim) {
  std::vector<float> added(static_cast<size_t>(dim));
  for (int64_t t = 0; t < tokens; ++t, before += dim, after += dim) {
    std::transform(after, after + dim, before, added.begin(), std::minus());
    effect.push_back(norm_of(added.data(), dim) / std::max(kLeast, norm_of(before, dim)));
  }
}

std::vector<double> membership_entropy(const TracedBlock::ByHead& memberships) {
  std::vector<double> entropy(memberships.empty() ? 0 : memberships[0].size());
  for (size_t t = 0; t < entropy.size() && memberships.size() > 1; ++t) {
    for (const auto& head : memberships) {
      entropy[t] -= head[t] == 0 ? 0 : head[t] * std::log(head[t]);
    }
    entropy[t] /= std::log(double(memberships.size()));
  }
  return entropy;
}

json to_json(const TracedText& text) {
  json layers = json::array();
  for (const TracedBlock& block : text.blocks) {
    const json means = {{"norm", rounded(block.mean_norm)}, {"cosine", rounded(block.mean_cosine)}};
    layers.push_back({{"mixer", block.mixer},
                      {"memberships", rounded(block.memberships)},
                      {"entropy", rounded(membership_entropy(block.memberships))},
                      {"group_means", block.mean_norm.empty() ? json() : means},
                      {"effect", rounded(block.effect)}});
  }
  const bool one = text.surprisal.empty();
  return {{"surprisal", one ? json::array() : rounded(text.surprisal)}, {"layers", layers}};
}

}  // namespace tost
