#include "tost/train/optimizer_shards.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tost/engine/run_layout.h"
#include "tost/io/safetensors_index.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr char kFirst[] = "exp_avg.", kSecond[] = "exp_avg_sq.", kSteps[] = "step.";  // AdamW's

// A flat view of all elements in the order of memory.
Tensor in_memory_order(const Tensor& x) {
  return x.detach().as_strided({x.numel()}, {1});
}

}  // namespace

OptimizerShards::OptimizerShards(Group& group, GradientBuckets& buckets,
                                 const std::vector<ParamGroup>& groups)
    : group_(group), buckets_(buckets), names_(buckets.parameters().size()) {
  choose_owners();
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
      const auto slice = std::ranges::find_if(
          local_slices_, [&](const Slice& local) { return local.parameter == at; });
      if (slice == local_slices_.end()) continue;
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
  local_slices_.push_back(
      {slot.parameter, bucket, begin - slot.begin, begin - from, end - begin, values});
}

StateDict OptimizerShards::rest_of(const StateDict& state) const {
  StateDict rest = state;
  for (const std::string& name : names_) rest.erase(name);
  return rest;
}

StateDict OptimizerShards::slices_of(const StateDict& state) const {
  StateDict result = rest_of(state);
  for (const Slice& slice : local_slices_) result[names_[slice.parameter]] = slice.values;
  return result;
}

void OptimizerShards::begin_update() {
  for (const Slice& slice : local_slices_) {
    const Tensor part = buckets_.buckets()[slice.bucket].part;
    Tensor(slice.values).mutable_grad() =
        buckets_.used(slice.parameter) ? part.narrow(0, slice.in_part, slice.count) : Tensor();
  }
}

void OptimizerShards::end_update() {
  const torch::NoGradGuard no_grad;
  for (const Slice& slice : local_slices_) {
    Tensor(slice.values).mutable_grad() = Tensor();
    buckets_.buckets()[slice.bucket].part.narrow(0, slice.in_part, slice.count).copy_(slice.values);
  }
  for (const auto& bucket : buckets_.buckets()) {
    group_.gather_parts(bucket.flat, bucket.part.clone());
    for (const auto& slot : bucket.slots) {
      const Tensor& p = parameter(slot.parameter);
      in_memory_order(p).copy_(bucket.flat.narrow(0, slot.begin, slot.count));
    }
  }
}

// Assigns whole parameters in order to shards of about equal size; no shard is empty.
void OptimizerShards::choose_owners() {
  int64_t all = 0, before = 0, place = -1, owner = -1;
  for (const Tensor& p : buckets_.parameters()) all += p.numel();
  for (const Tensor& p : buckets_.parameters()) {
    const double share = double(before) / double(std::max<int64_t>(all, 1));
    const int64_t here = std::min(int64_t(share * double(group_.world())), group_.world() - 1);
    if (here > std::exchange(place, here)) ++owner;
    owners_.push_back(owner);
    before += p.numel();
  }
}

std::string OptimizerShards::index_text(const StateDict& first) const {
  SafetensorsIndex index;
  int64_t bytes = 0;
  const auto add = [&](int64_t shard, const std::string& key, int64_t more) {
    const bool added = index.shards[optimizer_shard_name(shard, shards())].insert(key).second;
    if (added) bytes += more;
  };
  for (const auto& [key, tensor] : first) add(0, key, int64_t(tensor.nbytes()));
  for (size_t i = 0; i < names_.size(); ++i) {
    add(owners_[i], kFirst + names_[i], int64_t(parameter(i).nbytes()));
    add(owners_[i], kSecond + names_[i], int64_t(parameter(i).nbytes()));
    add(owners_[i], kSteps + names_[i], int64_t(sizeof(float)));
  }
  return safetensors_index_text(index, bytes);
}

StateDict OptimizerShards::gathered(const std::string& prefix, const StateDict& slices,
                                    const Wanted& wanted) const {
  const torch::NoGradGuard no_grad;
  StateDict result;
  for (size_t b = 0; b < buckets_.buckets().size(); ++b) {
    const auto& bucket = buckets_.buckets()[b];
    Tensor part = torch::zeros_like(bucket.part), flat = torch::empty_like(bucket.flat);
    for (const Slice& slice : local_slices_) {
      if (slice.bucket != b) continue;
      part.narrow(0, slice.in_part, slice.count).copy_(slices.at(prefix + names_[slice.parameter]));
    }
    group_.gather_parts(flat, part);
    for (const auto& slot : bucket.slots) {
      if (!wanted(slot.parameter)) continue;
      const Tensor values = torch::empty_like(parameter(slot.parameter)).detach();
      in_memory_order(values).copy_(flat.narrow(0, slot.begin, slot.count));
      result[prefix + names_[slot.parameter]] = values;
    }
  }
  return result;
}

StateDict OptimizerShards::whole(const StateDict& slices, bool everywhere) const {
  return gathered("", slices, [&](size_t) { return everywhere || group_.first(); });
}

StateDict OptimizerShards::shard_of(const StateDict& moments) const {
  const auto wanted = [this](size_t i) { return owners_[i] == group_.rank(); };
  StateDict shard = gathered(kFirst, moments, wanted);
  shard.merge(gathered(kSecond, moments, wanted));
  Tensor numbers = torch::zeros({int64_t(names_.size())});
  for (const Slice& slice : local_slices_) {
    numbers[int64_t(slice.parameter)] = moments.at(kSteps + names_[slice.parameter]);
  }
  const Tensor all = std::get<0>(group_.gather(numbers).max(0));
  for (size_t i = 0; i < names_.size(); ++i) {
    if (wanted(i)) shard[kSteps + names_[i]] = all[int64_t(i)].clone();
  }
  return shard;
}

// Reads only the slice of a contiguous parameter, because the tensor may be mapped from a file.
StateDict OptimizerShards::local_part(const std::string& prefix, const StateDict& whole) const {
  const torch::NoGradGuard no_grad;
  StateDict result;
  for (const Slice& slice : local_slices_) {
    const std::string key = prefix + names_[slice.parameter];
    const Tensor& p = parameter(slice.parameter);
    Tensor values = state_tensor(whole, key, p);
    if (!p.is_contiguous()) values = torch::empty_like(p).detach().copy_(values);
    result[key] = in_memory_order(values).narrow(0, slice.in_parameter, slice.count).clone();
  }
  return result;
}

StateDict OptimizerShards::my_moments(const StateDict& whole) const {
  StateDict result = local_part(kFirst, whole);
  result.merge(local_part(kSecond, whole));
  for (const Slice& slice : local_slices_) {
    const std::string key = kSteps + names_[slice.parameter];
    result[key] = state_tensor(whole, key, torch::zeros({})).clone();
  }
  return result;
}

}  // namespace tost
