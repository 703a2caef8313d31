// Sums the gradients of one step over the processes, in buckets that are sent while backward runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tost/comm/group.h"

namespace tost {

struct BucketOptions {
  int64_t bytes = int64_t{8} << 20;
  bool bf16 = false;     // sums travel as bfloat16: half the bytes, 8 bits of precision
  bool scatter = false;  // each process gets only the sum of its part, see part()
};

// A parameter's gradient is a view of its bucket. Every process fills and sends buckets in the
// order of backward, from the last parameter to the first.
class GradientBuckets {
 public:
  // The range of a parameter's elements in the bucket. A bucket's length is a multiple of kAligned
  // times the number of processes; each parameter begins at a multiple of kAligned.
  struct Slot {
    size_t parameter;
    int64_t begin, count;
  };
  struct Bucket {
    torch::Tensor flat, part;  // part: of this process, a view of `flat`
    std::vector<Slot> slots;
  };
  static constexpr int64_t kAligned = 16;  // elements

  // Parameters must be dense, on one device and of a floating-point type. `group` outlives it.
  GradientBuckets(Group& group, std::vector<torch::Tensor> parameters, BucketOptions options = {});
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Sets gradients to zero, before the batches of a step.
  void begin();
  // Announces the step's last backward pass, in which full buckets are sent at once.
  void arm();
  // Sends the remaining buckets and waits. Gradients are then sums over the processes; a gradient
  // that no process computed is undefined.
  void finish();

  // The 2-norm of all gradients, after finish(): the same bits on every process, with and without
  // `scatter`.
  double norm();

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  bool used(size_t parameter) const { return used_[parameter]; }

 private:
  struct Hook;
  void make_buckets();
  void add_bucket(std::vector<Slot> slots, int64_t length);
  void attach(const Bucket& bucket);
  void note(size_t parameter);
  void send_ready();
  void send(size_t bucket);
  bool full(size_t bucket) const;
  void share_used();

  Group& group_;
  std::vector<torch::Tensor> parameters_;
  BucketOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;          // by parameter
  std::vector<int64_t> fired_, expected_;  // gradients of a backward; expected: of the first one
  std::vector<bool> used_;
  std::vector<std::function<void()>> waits_;  // of the buckets that were sent
  bool armed_ = false, learned_ = false, late_ = false;
};

}  // namespace tost
