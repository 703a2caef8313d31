// Who has left a run of several processes, and why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tost/base/error.h"

namespace tost {

// Memory that all processes share. Both may throw.
class DepartureBoard {
 public:
  virtual ~DepartureBoard() = default;
  virtual void post(int64_t rank, const std::string& text) = 0;
  virtual std::optional<std::string> read(int64_t rank) = 0;
};

class Departures {
 public:
  Departures(std::unique_ptr<DepartureBoard> board, int64_t rank, int64_t world)
      : board_(std::move(board)), rank_(rank), world_(world) {}

  // This process leaves with an Error of its own, which it tells the user; false where it left
  // already. Never throws.
  bool leave(const Error& reason);

  // A connection broke or a call timed out. Asks the board which processes are still there: each
  // that is says so within seconds, so that one that does not is the one that is lost. Throws
  // ToldElsewhere where another process tells of it, else a data Error that names the lost ranks.
  [[noreturn]] void lost(const std::string& what);

 private:
  std::unique_ptr<DepartureBoard> board_;
  int64_t rank_, world_;
  bool left_ = false;
};

}  // namespace tost
