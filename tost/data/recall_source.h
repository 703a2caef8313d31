// What the generators of recall tasks share; see recall_data.h.
#pragma once

#include "tost/base/random.h"
#include "tost/data/recall_data.h"

namespace tost {

std::unique_ptr<RecallSource> make_mqar_source(const RecallSpec& spec);
std::unique_ptr<RecallSource> make_needle_source(const RecallSpec& spec);
std::unique_ptr<RecallSource> make_copying_source(const RecallSpec& spec);
std::unique_ptr<RecallSource> make_state_source(const RecallSpec& spec);  // parity, s3
std::unique_ptr<RecallSource> make_mad_source(const RecallSpec& spec);    // those of MAD

// The randomness of one sample.
Random recall_random(uint64_t seed, const std::string& split, int64_t index);

// `count` different numbers from first ... first + n - 1, in random order; count <= n.
std::vector<int32_t> draw_distinct(int64_t count, int32_t first, int64_t n, Random& random);

inline constexpr int64_t kMaxRecallLength = int64_t{1} << 24;
inline constexpr int64_t kMaxRecallVocab = int64_t{1} << 24;

// Throws a usage Error for lengths below `least` or above kMaxRecallLength; `why` says what needs
// so many.
void check_recall_length(const RecallCase& size, int64_t least, const std::string& why);
// Throws a usage Error for odd lengths; `what` takes even ones.
void check_even_length(const RecallCase& size, const std::string& what);

}  // namespace tost
