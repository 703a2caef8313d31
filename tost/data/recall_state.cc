// State tracking: a word of group elements, whose product so far is asked for at every token.
#include <algorithm>
#include <array>
#include <vector>

#include "tost/data/recall_source.h"

namespace tost {
namespace {

using Permutation = std::array<int32_t, 3>;

// All permutations of the first `moved` of three things, in lexicographic order; the first one is
// the identity.
std::vector<Permutation> permutations(int64_t moved) {
  std::vector<Permutation> all;
  Permutation next{0, 1, 2};
  do {
    all.push_back(next);
  } while (std::next_permutation(next.begin(), next.begin() + moved));
  return all;
}

class StateSource : public RecallSource {
 public:
  StateSource(const RecallSpec& spec, int64_t moved)
      : spec_(spec), elements_(permutations(moved)) {}

  int64_t vocab() const override { return std::ssize(elements_); }

  void check(const RecallCase& size) const override {
    check_recall_length(size, 1, "a word of group elements");
  }

  RecallSample sample(const RecallCase& size, const std::string& split,
                      int64_t index) const override {
    check(size);
    Random random = recall_random(spec_.seed, split, index);
    RecallSample sample;
    int32_t state = 0;
    for (int64_t t = 0; t < size.length; ++t) {
      const auto id = int32_t(random.below(vocab()));
      state = product(id, state);
      sample.ids.push_back(id);
      sample.targets.push_back(state);
      sample.distances.push_back(t);
    }
    return sample;
  }

 private:
  // First `state`, then `id`.
  int32_t product(int32_t id, int32_t state) const {
    Permutation both{};
    for (size_t i = 0; i < both.size(); ++i) {
      both[i] = elements_[size_t(id)][size_t(elements_[size_t(state)][i])];
    }
    return int32_t(std::find(elements_.begin(), elements_.end(), both) - elements_.begin());
  }

  RecallSpec spec_;
  std::vector<Permutation> elements_;
};

}  // namespace

std::unique_ptr<RecallSource> make_state_source(const RecallSpec& spec) {
  return std::make_unique<StateSource>(spec, spec.task == "parity" ? 2 : 3);
}

}  // namespace tost
