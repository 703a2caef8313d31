#include "tost/comm/departures.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tost/comm/group.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

// The first character of an entry of the board, which is the kind of the entry.
constexpr char kHere = 'h', kKnows = 'k', kUsage = 'u', kData = 'd';
// The time in which other processes must answer on the board.
constexpr std::chrono::seconds kPatience{8};

ErrorKind kind_of(char mark) {
  return mark == kUsage ? ErrorKind::kUsage : ErrorKind::kData;
}

}  // namespace

bool Departures::leave(const Error& reason) {
  if (left_) return false;
  left_ = true;
  try {
    board_->post(
        rank_, (reason.kind() == ErrorKind::kUsage ? kUsage : kData) + std::string(reason.what()));
  } catch (const std::exception&) {
    // Ignores a failure, after which other processes see a broken connection.
  }
  return true;
}

bool Departures::any() {
  try {
    return board_->any();
  } catch (const std::exception&) {
    return true;  // the board itself is lost
  }
}

// Throws ReportedElsewhere if an entry of another process reports an error.
Departures::Present Departures::read_board() {
  Present present{.missing = {}, .first = rank_};
  for (int64_t rank = world_ - 1; rank >= 0; --rank) {
    if (rank == rank_) continue;
    const std::string entry = board_->read(rank).value_or("");
    if (entry.empty()) {
      present.missing.insert(present.missing.begin(), cat(rank));
    } else if (entry.front() != kHere && entry.front() != kKnows) {
      throw ReportedElsewhere(kind_of(entry.front()), cat("Rank ", rank, ": ", entry.substr(1)));
    } else {
      present.first = std::min(present.first, rank);
      present.all_know = present.all_know && entry.front() == kKnows;
    }
  }
  return present;
}

// Waits until the others have read the board, because rank 0 may serve it.
void Departures::wait_for_peers() {
  board_->post(rank_, std::string(1, kKnows));
  const auto end = Clock::now() + kPatience;
  while (rank_ == 0 && !read_board().all_know && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void Departures::lost(const std::string& what) {
  constexpr char kAdvice[] = "; the run can be resumed from its newest checkpoint.";
  left_ = true;
  Present present;
  try {
    board_->post(rank_, std::string(1, kHere));
    const auto end = Clock::now() + kPatience;
    while (true) {
      present = read_board();
      if (present.missing.empty() || Clock::now() > end) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    wait_for_peers();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail_data("Rank ", rank_, " lost its connection to the other processes (", what, ")", kAdvice);
  }
  const auto& missing = present.missing;
  const std::string message =
      missing.empty() ? cat("The connection between the processes broke (", what, ")", kAdvice)
                      : cat("Rank ", join(missing, ", "), " of ", world_,
                            missing.size() == 1 ? " was" : " were", " lost (", what, ")", kAdvice);
  if (present.first < rank_) throw ReportedElsewhere(ErrorKind::kData, message);
  fail_data(message);
}

}  // namespace tost
