// Records which processes have left a run, and why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tost/base/error.h"

namespace tost {

// A table of texts that all processes of a run share. Both functions may throw.
class DepartureBoard {
 public:
  virtual ~DepartureBoard() = default;
  virtual void post(int64_t rank, const std::string& text) = 0;
  virtual bool any() = 0;  // whether any rank has posted
  virtual std::optional<std::string> read(int64_t rank) = 0;
};

class Departures {
 public:
  Departures(std::unique_ptr<DepartureBoard> board, int64_t rank, int64_t world)
      : board_(std::move(board)), rank_(rank), world_(world) {}

  // Announces that this process leaves and reports an Error to the user; returns false if it has
  // left before. Never throws.
  bool leave(const Error& reason);

  // Whether any process has announced that it leaves. Never throws.
  bool any();

  // Must be called after a broken connection or a timeout. Finds the lost processes, which do not
  // answer on the board within seconds. Throws ReportedElsewhere if another process reports the
  // loss, else a data Error that names the lost ranks.
  [[noreturn]] void lost(const std::string& what);

 private:
  // The ranks that have not answered, and the lowest rank that has answered.
  struct Present {
    std::vector<std::string> missing;
    int64_t first;
    bool all_know = true;  // those that are there
  };
  Present read_board();
  void wait_for_peers();

  std::unique_ptr<DepartureBoard> board_;
  int64_t rank_, world_;
  bool left_ = false;
};

}  // namespace tost
