#include "tost/comm/departures.h"

#include <chrono>
#include <thread>
#include <vector>

#include "tost/comm/group.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

// What stands on the board begins with one of these.
constexpr char kHere = 'h', kUsage = 'u', kData = 'd';
// How long the others have to say that they are still there.
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
    // The others then see a broken connection.
  }
  return true;
}

void Departures::lost(const std::string& what) {
  left_ = true;
  std::vector<std::string> missing;
  int64_t first_here = rank_;
  try {
    board_->post(rank_, std::string(1, kHere));
    const auto end = Clock::now() + kPatience;
    while (true) {
      missing.clear();
      first_here = rank_;
      for (int64_t rank = world_ - 1; rank >= 0; --rank) {
        if (rank == rank_) continue;
        const std::optional<std::string> said = board_->read(rank);
        if (!said || said->empty()) {
          missing.insert(missing.begin(), cat(rank));
        } else if (said->front() != kHere) {
          throw ToldElsewhere(kind_of(said->front()), cat("Rank ", rank, ": ", said->substr(1)));
        } else if (rank < first_here) {
          first_here = rank;
        }
      }
      if (missing.empty() || Clock::now() > end) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail_data("Rank ", rank_, " lost its connection to the other processes (", what,
              "); the run can be resumed from its newest checkpoint.");
  }
  const std::string message = missing.empty()
                                  ? cat("The connection between the processes broke (", what,
                                        "); the run can be resumed from its newest checkpoint.")
                                  : cat("Rank ", join(missing, ", "), " of ", world_,
                                        missing.size() == 1 ? " was" : " were", " lost (", what,
                                        "); the run can be resumed from its newest checkpoint.");
  if (first_here < rank_) throw ToldElsewhere(ErrorKind::kData, message);
  fail_data(message);
}

}  // namespace tost
