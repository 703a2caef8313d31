#include "tost/comm/gradient_buckets.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

namespace tost {

using torch::Tensor;

namespace {

int64_t rounded_up(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

}  // namespace

struct GradientBuckets::Hook : torch::autograd::PostAccumulateGradHook {
  Hook(GradientBuckets& owner, size_t parameter) : buckets(owner), index(parameter) {}
  void operator()(const Tensor& /*parameter*/) override { buckets.note(index); }
  GradientBuckets& buckets;
  size_t index;
};

GradientBuckets::GradientBuckets(Group& group, std::vector<Tensor> parameters,
                                 BucketOptions options)
    : group_(group),
      parameters_(std::move(parameters)),
      options_(options),
      bucket_of_(parameters_.size()),
      fired_(parameters_.size()),
      expected_(parameters_.size()),
      used_(parameters_.size()) {
  make_buckets();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<Hook>(*this, i));
  }
}

GradientBuckets::~GradientBuckets() {
  for (const Tensor& p : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(p, nullptr);
    p.mutable_grad() = Tensor();
  }
}

void GradientBuckets::make_buckets() {
  std::vector<Slot> slots;
  int64_t length = 0;
  for (size_t i = parameters_.size(); i-- > 0;) {
    const Tensor& p = parameters_[i];
    const bool other = !slots.empty() && parameters_[slots.front().parameter].dtype() != p.dtype();
    if (!slots.empty() && (other || (length + p.numel()) * p.element_size() > options_.bytes)) {
      add_bucket(std::move(slots), length);
      slots.clear();
      length = 0;
    }
    slots.push_back({i, length, p.numel()});
    length += rounded_up(p.numel(), kAligned);
  }
  if (!slots.empty()) add_bucket(std::move(slots), length);
}

void GradientBuckets::add_bucket(std::vector<Slot> slots, int64_t length) {
  const int64_t share = rounded_up(length, group_.world() * kAligned) / group_.world();
  const Tensor& first = parameters_[slots.front().parameter];
  Bucket bucket;
  bucket.flat = torch::zeros({share * group_.world()}, first.options().requires_grad(false));
  bucket.part = bucket.flat.narrow(0, group_.rank() * share, share);
  for (const Slot& slot : slots) bucket_of_[slot.parameter] = buckets_.size();
  bucket.slots = std::move(slots);
  buckets_.push_back(std::move(bucket));
}

// A gradient has the strides of its parameter, which need not be contiguous.
void GradientBuckets::attach(const Bucket& bucket) {
  for (const Slot& slot : bucket.slots) {
    const Tensor& p = parameters_[slot.parameter];
    p.mutable_grad() = bucket.flat.narrow(0, slot.begin, slot.count)
                           .as_strided(p.sizes(), p.strides(), slot.begin);
  }
}

void GradientBuckets::begin() {
  const torch::NoGradGuard no_grad;
  for (const Bucket& bucket : buckets_) {
    bucket.flat.zero_();
    attach(bucket);
  }
  std::fill(used_.begin(), used_.end(), false);
  waits_.clear();
  armed_ = late_ = false;
}

void GradientBuckets::arm() {
  std::fill(fired_.begin(), fired_.end(), 0);
  armed_ = true;
}

void GradientBuckets::note(size_t parameter) {
  used_[parameter] = true;
  if (!armed_) return;
  ++fired_[parameter];
  late_ = late_ || bucket_of_[parameter] < waits_.size();
  if (learned_) send_ready();
}

bool GradientBuckets::full(size_t bucket) const {
  return std::ranges::all_of(buckets_[bucket].slots, [&](const Slot& slot) {
    return fired_[slot.parameter] >= expected_[slot.parameter];
  });
}

void GradientBuckets::send_ready() {
  while (waits_.size() < buckets_.size() && full(waits_.size())) send(waits_.size());
}

void GradientBuckets::send(size_t index) {
  const torch::NoGradGuard no_grad;
  const Bucket& bucket = buckets_[index];
  Tensor sent = options_.bf16 ? bucket.flat.to(torch::kBFloat16) : bucket.flat;
  const int64_t share = bucket.part.numel();
  Tensor result = options_.scatter ? torch::empty({share}, sent.options()) : sent;
  const std::function<void()> wait =
      options_.scatter ? group_.begin_scatter_sum(result, sent) : group_.begin_sum(sent);
  const Tensor into = options_.scatter ? bucket.part : bucket.flat;
  waits_.push_back([wait, sent, result, into] {
    wait();
    if (!result.is_same(into)) into.copy_(result);
  });
}

void GradientBuckets::finish() {
  while (waits_.size() < buckets_.size()) send(waits_.size());
  share_used();
  for (const auto& wait : waits_) wait();
  if (late_) {
    fail_data(
        "Rank ", group_.rank(),
        " computed a gradient after it was sent: the model uses a parameter in another number "
        "of places than in the first step.");
  }
  if (armed_ && !learned_) {
    expected_ = fired_;
    learned_ = true;
  }
  armed_ = false;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!used_[i]) parameters_[i].mutable_grad() = Tensor();
  }
}

void GradientBuckets::share_used() {
  Tensor counts = torch::zeros({int64_t(used_.size())});
  auto* count = counts.data_ptr<float>();
  for (size_t i = 0; i < used_.size(); ++i) count[i] = used_[i] ? 1 : 0;
  group_.sum(counts);
  for (size_t i = 0; i < used_.size(); ++i) used_[i] = count[i] > 0;
}

double GradientBuckets::norm() {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> squares;
  for (const Bucket& bucket : buckets_) {
    squares.push_back(bucket.part.to(torch::kDouble).square().sum());
  }
  const Tensor local =
      squares.empty() ? torch::zeros({1}, torch::kDouble) : torch::stack(squares).cpu();
  const Tensor all = group_.gather(local);
  return std::sqrt(all.sum().item<double>());
}

}  // namespace tost
