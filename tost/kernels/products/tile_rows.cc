// A block of sums has 32 rows and 32 columns, which are four tiles. Two tiles of rows and two of
// the weight thus serve four products. While the tile units multiply, the vector units finish the
// previous block. The weight is loaded with a hint that it is not needed soon, so that it does not
// evict the rows from the L1 cache.
#include "tost/kernels/products/tile_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/tile_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "tost/base/checked.h"
#include "tost/kernels/products/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 && defined(__GNUC__) && defined(__x86_64__)

#define TOST_TILE_ZERO(TILE) asm volatile("tilezero %%tmm" #TILE ::)
#define TOST_TILE_LOAD(TILE, FROM, BYTES) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #TILE ::"r"(FROM), "r"(BYTES))
#define TOST_TILE_STREAM(TILE, FROM, BYTES) \
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm" #TILE ::"r"(FROM), "r"(BYTES))
#define TOST_TILE_STORE(TILE, TO, BYTES) \
  asm volatile("tilestored %%tmm" #TILE ", (%0,%1,1)" ::"r"(TO), "r"(BYTES) : "memory")

constexpr int64_t kHalf = 16;                   // rows or columns of a tile
constexpr int64_t kTileRows = 2 * kHalf;        // of a block
constexpr int64_t kTileStep = kTileInputs * 4;  // bytes of a row
constexpr int64_t kTileBytes = kHalf * kTileStep;
constexpr int64_t kSumBytes = kTileColumns * 4;  // of a row of sums
// The size in bytes of a part of the weight that stays in the L2 cache for all rows.
constexpr int64_t kGroupBytes = 192 << 10;

struct TileConfig {
  uint8_t palette = 0, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 weights; 2, 3 and 5 are for the lower rows.
inline void configure(int64_t rows) {
  alignas(64) TileConfig config;
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    const bool lower = tile == 2 || tile == 3 || tile == 5;
    const int64_t used_rows = tile >= 6 ? kHalf : lower ? rows - kHalf : std::min(rows, kHalf);
    config.row_bytes[tile] = kTileStep;
    config.rows[tile] = static_cast<uint8_t>(used_rows > 0 ? used_rows : 1);
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
}

class SavedTileConfig {
 public:
  SavedTileConfig() { asm volatile("sttilecfg %0" : "=m"(config_)); }
  ~SavedTileConfig() {
    if (config_.palette != 0) {
      asm volatile("ldtilecfg %0" ::"m"(config_));
    } else {
      asm volatile("tilerelease" ::);
    }
  }
  SavedTileConfig(const SavedTileConfig&) = delete;
  SavedTileConfig& operator=(const SavedTileConfig&) = delete;

 private:
  alignas(64) TileConfig config_;
};

// The inputs of a step: values of 32 rows, values of the weight, and the bytes from row to row, and
// from one half of the columns to the other.
struct Operands {
  const char* x;
  const char* weight;
  int64_t x_bytes, half_bytes;
};

template <bool kTwo>
HWY_INLINE void load_step(Operands from) {
  TOST_TILE_LOAD(4, from.x, from.x_bytes);
  TOST_TILE_STREAM(6, from.weight, kTileStep);
  TOST_TILE_STREAM(7, from.weight + from.half_bytes, kTileStep);
  if constexpr (kTwo) TOST_TILE_LOAD(5, from.x + kHalf * from.x_bytes, from.x_bytes);
}

// The sums of a block that wait for the epilogue. The struct copies all arguments, because the
// compiler must assume that a store changes referenced values.
template <class Sum, class Out, Finish kFinish>
class Waiting {
 public:
  HWY_INLINE Waiting(const FinishRowsArgs& a, const Sum* sums, int64_t row, int64_t column,
                     int64_t rows)
      : sums_(sums),
        out_(static_cast<Out*>(a.out) + row * a.out_stride + column),
        stride_(a.out_stride),
        left_(rows),
        scale_(a.row_scale),
        zero_(a.row_zero),
        row_(row) {
    if (rows == 0) return;
    for (int v = 0; v < kVectors; ++v) columns_[v].load_parameters(a, column + v * kHalf, kHalf);
  }

  // The next `count` rows.
  HWY_INLINE void finish(int64_t count) {
    const int64_t now = std::min(count, left_);
    left_ -= now;
    for (int64_t i = 0; i < now; ++i) {
      finish_pairs(columns_, sums_, row_factors<Sum>(scale_, zero_, row_++), out_);
      sums_ += kTileColumns;
      out_ += stride_;
    }
  }

 private:
  static constexpr int kVectors = 2;
  const Sum* sums_;
  Out* out_;
  int64_t stride_, left_;
  const float* scale_;
  const int32_t* zero_;
  int64_t row_;
  Column<Sum, Out, kFinish, false> columns_[kVectors];
};

// Multiplies the loaded tiles, loads those of the next step, and finishes `rows` rows of the
// previous block. A CPU looks some hundred instructions ahead, so products, loads and epilogue
// overlap only if they are close in the program.
template <class Sum, bool kTwo, class Sums>
HWY_INLINE void multiply_step(Operands next, Sums& before, int64_t rows) {
#define TOST_TILE_PRODUCT(SUMS, X, WEIGHT)                                   \
  if constexpr (std::is_integral_v<Sum>) {                                   \
    asm volatile("tdpbusd %%tmm" #WEIGHT ", %%tmm" #X ", %%tmm" #SUMS ::);   \
  } else {                                                                   \
    asm volatile("tdpbf16ps %%tmm" #WEIGHT ", %%tmm" #X ", %%tmm" #SUMS ::); \
  }
  TOST_TILE_PRODUCT(0, 4, 6)
  before.finish(rows / 4);
  TOST_TILE_PRODUCT(1, 4, 7)
  TOST_TILE_LOAD(4, next.x, next.x_bytes);
  before.finish((rows + 1) / 4);
  if constexpr (kTwo) {
    TOST_TILE_PRODUCT(2, 5, 6)
  }
  TOST_TILE_STREAM(6, next.weight, kTileStep);
  before.finish((rows + 2) / 4);
  if constexpr (kTwo) {
    TOST_TILE_PRODUCT(3, 5, 7)
    TOST_TILE_LOAD(5, next.x + kHalf * next.x_bytes, next.x_bytes);
  }
  TOST_TILE_STREAM(7, next.weight + next.half_bytes, kTileStep);
  before.finish((rows + 3) / 4);
#undef TOST_TILE_PRODUCT
}

// Prefetches some lines of FetchAhead in each call.
class Fetching {
 public:
  Fetching() = default;
  Fetching(const FetchAhead& what, int64_t calls)
      : what_(what), at_(what.data), pieces_(what.pieces) {
    constexpr int64_t kLine = 64;
    lines_ = (what.bytes + kLine - 1) / kLine;
    left_ = lines_;
    each_ = (lines_ * pieces_ + calls - 1) / calls;
  }

  HWY_INLINE void fetch() {
    for (int64_t i = 0; i < each_ && pieces_ > 0; ++i) {
      asm volatile("prefetcht1 (%0)" ::"r"(at_));
      at_ += 64;
      if (--left_ > 0) continue;
      --pieces_;
      left_ = lines_;
      at_ = what_.data + (what_.pieces - pieces_) * what_.stride;
    }
  }

 private:
  FetchAhead what_;
  const char* at_ = nullptr;
  int64_t pieces_ = 0, lines_ = 0, left_ = 0, each_ = 0;
};

template <class Sum, class Out, Finish kFinish>
class TileProduct {
 public:
  explicit TileProduct(const ProductArgs& args)
      : args_(args),
        a_(args.finish),
        steps_(args.inputs / kTileInputs),
        blocks_(divide_up(a_.columns, kTileColumns)),
        each_(divide_up(kTileRows, steps_)) {}

  void run() {
    const int64_t most = std::max<int64_t>(1, kGroupBytes / (steps_ * 2 * kTileBytes));
    const int64_t group = divide_up(blocks_, divide_up(blocks_, most));
    const int64_t tail = a_.rows % kTileRows, whole = a_.rows - tail;
    for (int64_t first = 0; first < blocks_; first += group) {
      const int64_t last = std::min(blocks_, first + group);
      fetching_ = {
          last < blocks_ ? blocks_ahead(last, std::min(blocks_, last + group)) : next_group(),
          (last - first) * divide_up(a_.rows, kTileRows) * steps_};
      if (whole > 0) strips<true>({0, whole}, first, last);
      const Rows last_rows{whole, a_.rows};
      if (tail > kHalf) strips<true>(last_rows, first, last);
      if (tail > 0 && tail <= kHalf) strips<false>(last_rows, first, last);
    }
    waiting().finish(kTileRows);
  }

 private:
  using Sums = Waiting<Sum, Out, kFinish>;
  struct Rows {
    int64_t begin, end;
  };

  HWY_INLINE Sums waiting() const { return {a_, sums_, row_, column_, rows_}; }

  HWY_INLINE Operands operands(int64_t row, int64_t block) const {
    const int64_t x_bytes = args_.x_stride * 4, half_bytes = args_.panel_stride * 4;
    return {static_cast<const char*>(args_.x) + row * x_bytes,
            static_cast<const char*>(args_.weight) + block * 2 * half_bytes, x_bytes, half_bytes};
  }

  FetchAhead blocks_ahead(int64_t first, int64_t last) const {
    const Operands from = operands(0, first);
    return {from.weight, steps_ * kTileBytes, from.half_bytes, 2 * (last - first)};
  }

  // Limits the prefetched part of the next weights to the size of a group.
  FetchAhead next_group() const {
    FetchAhead next = args_.next;
    next.bytes = std::min(next.bytes, kGroupBytes);
    if (next.bytes > 0) next.pieces = std::min(next.pieces, kGroupBytes / next.bytes);
    return next;
  }

  // Multiplies strips of rows: full strips, or one strip with fewer rows.
  template <bool kTwo>
  void strips(Rows rows, int64_t first, int64_t last) {
    const int64_t each = std::min(kTileRows, rows.end - rows.begin);
    configure(each);
    load_step<kTwo>(operands(rows.begin, first));
    for (int64_t row = rows.begin; row < rows.end; row += each) {
      // The very last block loads its tiles again, because there is no next block.
      const int64_t below = row + each < rows.end ? row + each : row;
      for (int64_t b = first; b < last; ++b) {
        block<kTwo>(row, each, b, b + 1 < last ? operands(row, b + 1) : operands(below, first));
      }
    }
  }

  template <bool kTwo>
  void block(int64_t row, int64_t rows, int64_t index, Operands following) {
    Sums before = waiting();
    Fetching fetching = fetching_;
    const int64_t each = each_, steps = steps_;
    Operands next = operands(row, index);
    TOST_TILE_ZERO(0);
    TOST_TILE_ZERO(1);
    TOST_TILE_ZERO(2);
    TOST_TILE_ZERO(3);
    for (int64_t step = 1; step <= steps; ++step) {
      next.x += kTileStep;
      next.weight += kTileBytes;
      fetching.fetch();
      multiply_step<Sum, kTwo>(step < steps ? next : following, before, each);
    }
    fetching_ = fetching;
    row_ = row;
    column_ = index * kTileColumns;
    rows_ = rows;
    store<kTwo>(sums_);
    if (a_.columns - column_ < kTileColumns) finish_narrow();
  }

  template <bool kTwo>
  void store(Sum* to) const {
    TOST_TILE_STORE(0, to, kSumBytes);
    TOST_TILE_STORE(1, to + kHalf, kSumBytes);
    if constexpr (kTwo) {
      TOST_TILE_STORE(2, to + kHalf * kTileColumns, kSumBytes);
      TOST_TILE_STORE(3, to + kHalf * kTileColumns + kHalf, kSumBytes);
    }
  }

  // Finishes the last block of columns, which is not full.
  void finish_narrow() {
    FinishRowsArgs a = a_;
    a.rows = rows_;
    a.columns = a_.columns - column_;
    a.sums = sums_;
    a.sums_stride = kTileColumns;
    const auto from = [](auto* values, int64_t first) {
      return values == nullptr ? nullptr : values + first;
    };
    a.row_scale = from(a_.row_scale, row_);
    a.row_zero = from(a_.row_zero, row_);
    a.column_scale = from(a_.column_scale, column_);
    a.column_sum = from(a_.column_sum, column_);
    a.bias = from(a_.bias, column_);
    a.gamma = from(a_.gamma, column_);
    a.out = static_cast<Out*>(a_.out) + row_ * a_.out_stride + column_;
    finish_panel<Sum, Out, kFinish>(a);
    rows_ = 0;
  }

  const ProductArgs& args_;
  const FinishRowsArgs& a_;
  const int64_t steps_;
  const int64_t blocks_;
  const int64_t each_;  // rows that are finished in a step
  Fetching fetching_;
  // The sums of the waiting block, which are finished before the next block's sums are stored.
  alignas(64) Sum sums_[kTileRows * kTileColumns];
  int64_t row_ = 0, column_ = 0, rows_ = 0;  // of the block that waits
};

template <class Sum>
void tile_product_of(const ProductArgs& args) {
  for_results(args.finish,
              [&]<class Out, Finish kFinish>() { TileProduct<Sum, Out, kFinish>(args).run(); });
}

inline void product(const ProductArgs& args) {
  const SavedTileConfig saved;
  args.finish.column_scale != nullptr ? tile_product_of<int32_t>(args)
                                      : tile_product_of<float>(args);
}

#endif

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

#if (HWY_TARGETS & HWY_AVX3) && defined(__GNUC__) && defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tost::kernels {
namespace {

bool system_grants_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBfloat16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & kBfloat16) == 0 || (d & kTile) == 0 || (d & kInt8) == 0) return false;
  // Requests the state of the tiles, without which Linux does not let a process use tiles.
  constexpr long kRequestState = 0x1023, kTileState = 18;
  return syscall(SYS_arch_prctl, kRequestState, kTileState) == 0;
}

}  // namespace

bool has_tiles() {
  static const bool granted = system_grants_tiles();
  return granted && multiplies(Numbers::kBfloat16) && multiplies(Numbers::kInt8);
}

void tile_product(const ProductArgs& args) {
  const WorkTimer timer(Work::kProduct);
  if (args.finish.rows > 0 && args.finish.columns > 0) N_AVX3::product(args);
}

}  // namespace tost::kernels

#else

namespace tost::kernels {

bool has_tiles() {
  return false;
}
void tile_product(const ProductArgs&) {}

}  // namespace tost::kernels

#endif
#endif  // HWY_ONCE
