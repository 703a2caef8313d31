#include "tost/train/optimizer_shards.h"

#include <algorithm>
#include <map>

#include "tost/base/error.h"

namespace tost {

using torch::Tensor;

namespace {

// All elements as they lie in memory.
Tensor in_memory_order(const Tensor& x) {
  return x.detach().as_strided({x.numel()}, {1});
}

const Tensor& found_in(const StateDict& state, const std::string& key, const Tensor& like) {
  const auto found = state.find(key);
  if (found == state.end()) {
    fail_data("The optimizer state lacks tensor '", key,
              "'; resume with the model that the run was started with.");
  }
  if (found->second.sizes() != like.sizes()) {
    fail_data("Tensor '", key, "' of the optimizer state is ", found->second.sizes(),
              " but the model needs ", like.sizes(), ".");
  }
  return found->second;
}

}  // namespace

OptimizerShards::OptimizerShards(Group& group, GradientBuckets& buckets,
                                 const std::vector<ParamGroup>& groups)
    : group_(group), buckets_(buckets), names_(buckets.parameters().size()) {
  for (size_t b = 0; b < buckets_.buckets().size(); ++b) {
    for (const auto& slot : buckets_.buckets()[b].slots) add_slice(b, slot);
  }
  std::map<const void*, size_t> index;
  for (size_t i = 0; i < names_.size(); ++i) index[parameter(i).unsafeGetTensorImpl()] = i;
  for (const ParamGroup& whole : groups) {
    ParamGroup part{.names = {}, .params = {}, .weight_decay = whole.weight_decay};
    for (size_t i = 0; i < whole.params.size(); ++i) {
      const size_t at = index.at(whole.params[i].unsafeGetTensorImpl());
      names_[at] = whole.names[i];
      const auto slice =
          std::ranges::find_if(own_, [&](const Slice& own) { return own.parameter == at; });
      if (slice == own_.end()) continue;
      part.names.push_back(whole.names[i]);
      part.params.push_back(slice->values);
    }
    slices_.push_back(std::move(part));
  }
}

void OptimizerShards::add_slice(size_t bucket, const GradientBuckets::Slot& slot) {
  const int64_t share = buckets_.buckets()[bucket].part.numel();
  const int64_t from = share * group_.rank(), to = from + share;
  const int64_t begin = std::max(from, slot.begin), end = std::min(to, slot.begin + slot.count);
  if (begin >= end) return;
  const Tensor values =
      in_memory_order(parameter(slot.parameter)).narrow(0, begin - slot.begin, end - begin);
  own_.push_back({slot.parameter, bucket, begin - slot.begin, begin - from, end - begin, values});
}

StateDict OptimizerShards::rest_of(const StateDict& state) const {
  StateDict rest = state;
  for (const std::string& name : names_) rest.erase(name);
  return rest;
}

StateDict OptimizerShards::slices_of(const StateDict& state) const {
  StateDict result = rest_of(state);
  for (const Slice& own : own_) result[names_[own.parameter]] = own.values;
  return result;
}

void OptimizerShards::begin_update() {
  for (const Slice& own : own_) {
    const Tensor part = buckets_.buckets()[own.bucket].part;
    Tensor(own.values).mutable_grad() =
        buckets_.used(own.parameter) ? part.narrow(0, own.in_part, own.count) : Tensor();
  }
}

void OptimizerShards::end_update() {
  const torch::NoGradGuard no_grad;
  for (const Slice& own : own_) {
    Tensor(own.values).mutable_grad() = Tensor();
    buckets_.buckets()[own.bucket].part.narrow(0, own.in_part, own.count).copy_(own.values);
  }
  for (const auto& bucket : buckets_.buckets()) {
    group_.gather_parts(bucket.flat, bucket.part.clone());
    for (const auto& slot : bucket.slots) {
      const Tensor& p = parameter(slot.parameter);
      in_memory_order(p).copy_(bucket.flat.narrow(0, slot.begin, slot.count));
    }
  }
}

StateDict OptimizerShards::whole(const std::string& prefix, const StateDict& slices,
                                 bool everywhere) const {
  const torch::NoGradGuard no_grad;
  StateDict result;
  for (size_t b = 0; b < buckets_.buckets().size(); ++b) {
    const auto& bucket = buckets_.buckets()[b];
    Tensor part = torch::zeros_like(bucket.part), flat = torch::empty_like(bucket.flat);
    for (const Slice& own : own_) {
      if (own.bucket != b) continue;
      part.narrow(0, own.in_part, own.count).copy_(slices.at(prefix + names_[own.parameter]));
    }
    group_.gather_parts(flat, part);
    if (!everywhere && !group_.first()) continue;
    for (const auto& slot : bucket.slots) {
      const Tensor& p = parameter(slot.parameter);
      const Tensor values = torch::empty_like(p).detach();
      in_memory_order(values).copy_(flat.narrow(0, slot.begin, slot.count));
      result[prefix + names_[slot.parameter]] = values;
    }
  }
  return result;
}

StateDict OptimizerShards::mine(const std::string& prefix, const StateDict& whole) const {
  const torch::NoGradGuard no_grad;
  StateDict result;
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string key = prefix + names_[i];
    const Tensor values = torch::empty_like(parameter(i)).detach();
    if (group_.first()) values.copy_(found_in(whole, key, values));
    const Tensor flat = in_memory_order(values);
    group_.broadcast(flat);
    for (const Slice& own : own_) {
      if (own.parameter == i) result[key] = flat.narrow(0, own.in_parameter, own.count).clone();
    }
  }
  return result;
}

StateDict OptimizerShards::whole_numbers(const std::string& prefix, const StateDict& slices) const {
  Tensor numbers = torch::zeros({int64_t(names_.size())});
  for (const Slice& own : own_) {
    numbers[int64_t(own.parameter)] = slices.at(prefix + names_[own.parameter]);
  }
  const Tensor all = std::get<0>(group_.gather(numbers).max(0));
  StateDict result;
  for (size_t i = 0; i < names_.size(); ++i) result[prefix + names_[i]] = all[int64_t(i)].clone();
  return result;
}

StateDict OptimizerShards::my_numbers(const std::string& prefix, const StateDict& whole) const {
  Tensor numbers = torch::zeros({int64_t(names_.size())});
  for (size_t i = 0; i < names_.size() && group_.first(); ++i) {
    numbers[int64_t(i)] = found_in(whole, prefix + names_[i], torch::zeros({}));
  }
  group_.broadcast(numbers);
  StateDict result;
  for (const Slice& own : own_) {
    result[prefix + names_[own.parameter]] = numbers[int64_t(own.parameter)].clone();
  }
  return result;
}

}  // namespace tost
