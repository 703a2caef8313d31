// Implements Group with c10d's store and Gloo.
#define USE_C10D_GLOO 1
#include "tost/comm/group.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tost/comm/departures.h"

namespace tost {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(int64_t(seconds * 1000));
}

// The first sentence, without the place in gloo's sources that it begins with.
std::string reason_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  if (const size_t place = text.find(".cc:"); text.starts_with('[') && place != text.npos) {
    text.erase(0, text.find("] ", place) + 2);
  }
  text = text.substr(0, text.find('\n'));
  return text.substr(0, text.find(". "));
}

// c10d would tell of every broken connection, with a stack trace.
void silence_warnings() {
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();
}

StorePtr open_store(const GroupPlace& place, double timeout) {
  if (!place.file.empty()) {
    return c10::make_intrusive<c10d::FileStore>(place.file, int(place.world));
  }
  c10d::TCPStoreOptions options;
  options.port = uint16_t(place.port);
  options.isServer = place.own_store && place.rank == 0;
  options.waitWorkers = false;
  options.timeout = milliseconds_of(timeout);
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.address, options);
  } catch (const std::exception& error) {
    const std::string what = reason_of(error);
    if (options.isServer) {
      fail_usage("Port ", place.port, " of ", place.address, " cannot be opened (", what,
                 "); choose another one with torchrun's --master-port.");
    }
    fail_data("Rank ", place.rank, " found no store at ", place.address, " port ", place.port,
              " within ", timeout, " s (", what, "); is rank 0 running there?");
  }
}

// The store's calls wait for ever where the network is cut: c10d sets no limit to their sockets.
// What this process sends there must be acknowledged within `timeout`.
void limit_silence(int64_t port, double timeout) {
  constexpr int kFiles = 1024;  // it was opened early
  const auto milliseconds = static_cast<unsigned>(std::min(timeout * 1000, 4e9));
  for (int file = 0; file < kFiles; ++file) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    // Addresses of both families have the port in the same place.
    if (ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port) != port) continue;
    setsockopt(file, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
  }
}

c10::intrusive_ptr<c10d::Backend> open_gloo(const StorePtr& store, int64_t rank, int64_t world,
                                            double timeout, bool one_machine) {
  auto options = c10d::ProcessGroupGloo::Options::create(milliseconds_of(timeout));
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else if (one_machine) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, int(rank), int(world), options);
}

// Names that torch 2.15 changed.
WorkPtr reduce_scatter(c10d::Backend& gloo, Tensor& part, Tensor& x) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  return gloo.reduce_scatter_single(part, x);
#else
  return gloo._reduce_scatter_base(part, x);
#endif
}

WorkPtr all_gather(c10d::Backend& gloo, Tensor& x, Tensor& part) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  return gloo.all_gather_single(x, part);
#else
  return gloo._allgather_base(x, part);
#endif
}

// The store as the board on which processes say why they leave.
class StoreBoard : public DepartureBoard {
 public:
  explicit StoreBoard(StorePtr store) : store_(std::move(store)) {}
  void post(int64_t rank, const std::string& text) override {
    store_->setTimeout(std::chrono::seconds(5));
    store_->set(key(rank), std::vector<uint8_t>(text.begin(), text.end()));
    store_->set(kAny, std::vector<uint8_t>{1});
  }
  bool any() override { return store_->check({kAny}); }
  std::optional<std::string> read(int64_t rank) override {
    if (!store_->check({key(rank)})) return std::nullopt;
    const std::vector<uint8_t> text = store_->get(key(rank));
    return std::string(text.begin(), text.end());
  }

 private:
  static constexpr char kAny[] = "left";
  static std::string key(int64_t rank) { return cat("left/", rank); }
  StorePtr store_;
};

}  // namespace

struct Group::Impl {
  int64_t rank = 0, world = 1;
  double timeout = kUsualPeerTimeout;
  bool one_machine = false;
  int64_t port = 0;  // of the store; 0: it is a file
  StorePtr store;
  c10::intrusive_ptr<c10d::Backend> gloo;
  std::shared_ptr<Departures> departures;  // of the whole run
  bool broken = false;
  double waited = 0;
  int64_t sent = 0;

  ~Impl() {
    // Its destructor would wait for calls that have no end but the timeout.
    if (broken) (void)gloo.release();
  }

  template <typename Begin>
  WorkPtr begin(Begin call) {
    try {
      return call();
    } catch (const std::exception& error) {
      lost(error);
    }
  }

  void wait(const WorkPtr& work) {
    constexpr std::chrono::seconds kTurn{1};
    const auto start = Clock::now();
    while (true) {
      const auto turn = Clock::now();
      try {
        work->wait(kTurn);
        break;
      } catch (const std::exception& error) {
        // The turn is over, or the call has failed. That of scattered sums never says that it is
        // completed, and throws at once.
        if (work->isCompleted() || Clock::now() - turn < kTurn) lost(error);
      }
      // A process may wait for one that is there, which has left after another.
      if (departures->any())
        lost(std::runtime_error("another process has left, or cannot be reached"));
    }
    waited += std::chrono::duration<double>(Clock::now() - start).count();
  }

  [[noreturn]] void lost(const std::exception& error) {
    broken = true;
    departures->lost(reason_of(error));
  }
};

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Group::Group(const GroupPlace& place, double timeout) : impl_(std::make_unique<Impl>()) {
  silence_warnings();
  Impl& impl = *impl_;
  impl.rank = place.rank;
  impl.world = place.world;
  impl.timeout = timeout;
  impl.one_machine = place.one_machine || place.address == "127.0.0.1" ||
                     place.address == "localhost" || !place.file.empty();
  StorePtr base = open_store(place, timeout);
  base->setTimeout(milliseconds_of(timeout));
  if (place.file.empty()) limit_silence(impl.port = place.port, timeout);
  impl.store = c10::make_intrusive<c10d::PrefixStore>(cat("tost/", place.attempt), base);
  impl.departures =
      std::make_shared<Departures>(std::make_unique<StoreBoard>(impl.store), impl.rank, impl.world);
  const auto here = [](int64_t rank) { return cat("here/", rank); };
  try {
    impl.store->set(here(impl.rank), std::vector<uint8_t>{1});
    impl.gloo = open_gloo(impl.store, impl.rank, impl.world, timeout, impl.one_machine);
  } catch (const std::exception& error) {
    std::vector<std::string> missing;
    for (int64_t rank = 0; rank < impl.world; ++rank) {
      try {
        if (!impl.store->check({here(rank)})) missing.push_back(cat(rank));
      } catch (const std::exception&) {
        break;
      }
    }
    if (missing.empty()) {
      fail_data("The processes could not connect to each other (", reason_of(error),
                "); GLOO_SOCKET_IFNAME names the network device to use.");
    }
    fail_data("Rank ", join(missing, ", "), " of ", impl.world, " did not come within ", timeout,
              " s; is every process of the run started?");
  }
}

Group::~Group() = default;

int64_t Group::rank() const {
  return impl_->rank;
}
int64_t Group::world() const {
  return impl_->world;
}
double Group::waited() const {
  return impl_->waited;
}
int64_t Group::sent() const {
  return impl_->sent;
}

bool Group::broken() const {
  return impl_->broken;
}

void Group::set_timeout(double seconds) {
  impl_->timeout = seconds;
  if (impl_->port != 0) limit_silence(impl_->port, seconds);
  impl_->gloo->setTimeout(milliseconds_of(seconds));
}

void Group::sum(const Tensor& x) {
  begin_sum(x)();
}

std::function<void()> Group::begin_sum(const Tensor& x) {
  std::vector<Tensor> one{x};
  impl_->sent += int64_t(x.nbytes());
  const WorkPtr work = impl_->begin([&] { return impl_->gloo->allreduce(one); });
  return [this, work] { impl_->wait(work); };
}

void Group::broadcast(const Tensor& x) {
  std::vector<Tensor> one{x};
  impl_->sent += int64_t(x.nbytes());
  impl_->wait(impl_->begin([&] { return impl_->gloo->broadcast(one); }));
}

Tensor Group::gather(const Tensor& x) {
  const Tensor part = x.contiguous().view({-1});
  const Tensor all = torch::empty({world() * part.numel()}, part.options().requires_grad(false));
  gather_parts(all, part);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), world());
  return all.view(sizes);
}

std::function<void()> Group::begin_scatter_sum(const Tensor& part, const Tensor& x) {
  Tensor out = part, in = x;
  impl_->sent += int64_t(x.nbytes());
  const WorkPtr work = impl_->begin([&] { return reduce_scatter(*impl_->gloo, out, in); });
  return [this, work] { impl_->wait(work); };
}

void Group::gather_parts(const Tensor& x, const Tensor& part) {
  Tensor out = x, in = part;
  impl_->sent += int64_t(part.nbytes());
  impl_->wait(impl_->begin([&] { return all_gather(*impl_->gloo, out, in); }));
}

bool Group::leave(const Error& reason) {
  impl_->broken = true;
  return impl_->departures->leave(reason);
}

std::unique_ptr<Group> Group::split(const std::string& name, int64_t color) {
  const Tensor colors = gather(torch::full({1}, color, torch::kLong)).view({-1});
  auto part = std::make_unique<Impl>();
  part->rank = colors.narrow(0, 0, rank()).eq(color).sum().item<int64_t>();
  part->world = colors.eq(color).sum().item<int64_t>();
  part->timeout = impl_->timeout;
  part->one_machine = impl_->one_machine;
  part->departures = impl_->departures;
  part->store =
      c10::make_intrusive<c10d::PrefixStore>(cat("split/", name, "/", color), impl_->store);
  try {
    part->gloo = open_gloo(part->store, part->rank, part->world, part->timeout, part->one_machine);
  } catch (const std::exception& error) {
    impl_->lost(error);
  }
  return std::unique_ptr<Group>(new Group(std::move(part)));
}

}  // namespace tost
