#include "tost/data/sequence_batch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {
namespace {

using Tokens = std::vector<int32_t> SequenceSample::*;

void fill(const std::vector<SequenceSample>& samples, Tokens member, torch::Tensor& ids,
          torch::Tensor& lengths) {
  size_t longest = 0;
  for (const SequenceSample& sample : samples) longest = std::max(longest, (sample.*member).size());
  const auto rows = static_cast<int64_t>(samples.size());
  ids = torch::zeros({rows, static_cast<int64_t>(longest)}, torch::kInt64);
  lengths = torch::empty({rows}, torch::kInt64);
  auto* to = ids.data_ptr<int64_t>();
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::vector<int32_t>& tokens = samples[i].*member;
    std::copy(tokens.begin(), tokens.end(), to + i * longest);
    lengths.data_ptr<int64_t>()[i] = static_cast<int64_t>(tokens.size());
  }
}

std::vector<int64_t> order_of(int64_t size, const SequenceOrder& order, Random& random) {
  std::vector<int64_t> indices(static_cast<size_t>(size));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  if (order.shuffle) shuffle(indices.data(), size, random);
  return indices;
}

void sort_runs(const SequenceDataset& dataset, std::vector<int64_t>& indices, int64_t run) {
  const auto size = static_cast<int64_t>(indices.size());
  for (int64_t begin = 0; begin < size; begin += run) {
    const auto first = indices.begin() + begin;
    std::stable_sort(first, indices.begin() + std::min(begin + run, size),
                     [&](int64_t a, int64_t b) { return dataset.length(a) < dataset.length(b); });
  }
}

std::vector<int64_t> numbers_from(int64_t first, int64_t end) {
  std::vector<int64_t> numbers(static_cast<size_t>(std::max<int64_t>(0, end - first)));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

SequenceBatch make_sequence_batch(const SequenceDataset& dataset,
                                  const std::vector<int64_t>& indices) {
  std::vector<SequenceSample> samples;
  for (const int64_t i : indices) samples.push_back(dataset.sample(i));
  SequenceBatch batch;
  fill(samples, &SequenceSample::tokens, batch.ids, batch.lengths);
  if (dataset.coding().pairs) {
    fill(samples, &SequenceSample::second, batch.second, batch.second_lengths);
  }
  batch.labels = torch::empty({static_cast<int64_t>(samples.size())}, torch::kInt64);
  for (size_t i = 0; i < samples.size(); ++i) {
    batch.labels.data_ptr<int64_t>()[i] = samples[i].label;
  }
  return batch;
}

std::vector<std::vector<int64_t>> sequence_batches(const SequenceDataset& dataset, int64_t batch,
                                                   const SequenceOrder& order, int64_t epoch,
                                                   bool drop_last) {
  if (batch < 1) fail_usage("A batch has at least 1 sample, not ", batch, ".");
  if (order.length_groups < 1) {
    fail_usage("Batches are sorted by length in runs of 1 batch or more, not ", order.length_groups,
               ".");
  }
  Random random(order.seed, static_cast<uint64_t>(epoch));
  std::vector<int64_t> indices = order_of(dataset.size(), order, random);
  // Drops the last samples before sorting by length, so that the choice does not depend on lengths.
  if (drop_last)
    indices.resize(indices.size() / static_cast<size_t>(batch) * static_cast<size_t>(batch));
  const auto size = static_cast<int64_t>(indices.size());
  const int64_t groups = std::min(order.length_groups, size / batch + 1);
  if (groups > 1) sort_runs(dataset, indices, groups * batch);
  std::vector<std::vector<int64_t>> batches;
  for (int64_t begin = 0; begin < size; begin += batch) {
    batches.emplace_back(indices.begin() + begin, indices.begin() + std::min(begin + batch, size));
  }
  if (order.shuffle && groups > 1) {
    shuffle(batches.data(), static_cast<int64_t>(batches.size()), random);
  }
  return batches;
}

SequenceFeed::SequenceFeed(std::shared_ptr<const SequenceDataset> dataset,
                           std::vector<std::vector<int64_t>> indices, int64_t first, int64_t ahead,
                           int64_t workers)
    : Prefetch(
          numbers_from(first, std::ssize(indices)), workers > 0 ? workers : at::get_num_threads(),
          ahead > 0 ? ahead
                    : std::max<int64_t>(4, 2 * (workers > 0 ? workers : at::get_num_threads())),
          [dataset = std::move(dataset), indices](int64_t number) {
            return make_sequence_batch(*dataset, indices[size_t(number)]);
          }) {}

}  // namespace tost
