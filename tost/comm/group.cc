// Implements Group with c10d's store and backends.
#include "tost/comm/group.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <tuple>

#include "tost/base/parallel.h"
#include "tost/comm/backends.h"
#include "tost/comm/departures.h"

namespace tost {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// The first sentence of an exception of gloo, without the source line at its beginning.
std::string reason_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  if (const size_t place = text.find(".cc:"); text.starts_with('[') && place != text.npos) {
    text.erase(0, text.find("] ", place) + 2);
  }
  text = text.substr(0, text.find('\n'));
  return text.substr(0, text.find(". "));
}

// Stops c10d from printing a stack trace for every broken connection. Disables c10d's NCCL
// watchdog, which would end the process before Group can report why.
void quiet_c10d() {
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
                           "TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_DUMP_ON_TIMEOUT",
                           "TORCH_NCCL_BLOCKING_WAIT"}) {
    setenv(name, "0", /*overwrite=*/1);
  }
  c10::initLogging();
}

StorePtr open_store(const GroupPlace& place, double timeout) {
  if (!place.file.empty()) {
    return c10::make_intrusive<c10d::FileStore>(place.file, int(place.world));
  }
  c10d::TCPStoreOptions options;
  options.port = uint16_t(place.port);
  options.isServer = place.serves_store && place.rank == 0;
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

// Sets a timeout on the store's sockets, because c10d sets none and its calls would wait for ever
// on a cut network. The store must acknowledge what this process sends within `timeout`.
void limit_silence(int64_t port, double timeout) {
  constexpr int kFiles = 1024;  // it was opened early
  const auto milliseconds = static_cast<unsigned>(std::min(timeout * 1000, 4e9));
  for (int file = 0; file < kFiles; ++file) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    // Reads the port, which is in the same place in IPv4 and IPv6 addresses.
    if (ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port) != port) continue;
    setsockopt(file, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
  }
}

// The board on which processes announce why they leave, stored in c10d's store.
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
  static constexpr std::chrono::seconds kTurn{1};

  BackendPlace place;
  int64_t local_rank = 0;
  int64_t port = 0;  // of the store; 0: it is a file
  BackendPtr gloo;
  BackendPtr nccl;                         // null: GPUs are not connected
  std::optional<torch::Device> gpu;        // of connect_gpus()
  std::shared_ptr<Departures> departures;  // of the whole run
  bool broken = false;
  double waited = 0;
  int64_t sent = 0, splits = 0;

  ~Impl() {
    if (nccl) abort_nccl();
    if (!broken) return;
    // Keeps the backends, because their destructors would wait for unfinished calls.
    static auto& kept = *new std::vector<BackendPtr>;
    kept.insert(kept.end(), {gloo, nccl});
  }

  // Aborts work on the GPU that may wait for a lost process.
  void abort_nccl() noexcept {
    try {
      nccl->abort();
    } catch (const std::exception&) {
      // Ignores errors, because this process ends anyway.
    }
  }

  // Begins `call`, which writes the first one of `tensors`. The returned function waits for the end
  // of the call.
  template <typename Call>
  std::function<void()> begin(std::vector<Tensor> tensors, Call call) {
    const Tensor into = tensors[0];
    const bool by_nccl = into.is_cuda() && nccl;
    if (!by_nccl) {
      for (Tensor& x : tensors) x = x.cpu();
    }
    WorkPtr work;
    try {
      work = call(by_nccl ? *nccl : *gloo, tensors);
    } catch (const std::exception& error) {
      lost(error);
    }
    return [this, work, tensors, into, by_nccl] {
      by_nccl ? wait_for_nccl(work) : wait_for_gloo(work);
      const torch::NoGradGuard no_grad;
      if (!tensors[0].is_same(into)) into.copy_(tensors[0]);
    };
  }

  void wait_for_gloo(const WorkPtr& work) {
    wait([&] { return ends_within(*work, kTurn); });
  }

  // Waits on this thread, because the queue of the GPU would wait for a lost process for ever.
  void wait_for_nccl(const WorkPtr& work) {
    constexpr std::chrono::microseconds kPause{50};
    const auto start = Clock::now();
    wait([&] {
      const auto turn = Clock::now();
      while (!work->isCompleted()) {
        if (Clock::now() - turn > kTurn) return in_time(start);
        std::this_thread::sleep_for(kPause);
      }
      if (work->exception()) std::rethrow_exception(work->exception());
      work->wait();
      return true;
    });
  }

  // Returns false before the timeout, and throws after it.
  bool in_time(Clock::time_point start) const {
    if (Clock::now() - start < milliseconds_of(place.timeout)) return false;
    throw std::runtime_error(cat("nothing came within ", place.timeout, " s"));
  }

  // Waits until `done` returns true; each call of `done` polls for about one turn.
  template <typename Done>
  void wait(Done done) {
    const auto start = Clock::now();
    try {
      while (!done()) {
        // Fails if any process has left, because the others may then never answer.
        if (departures->any())
          throw std::runtime_error("another process has left, or cannot be reached");
      }
    } catch (const std::exception& error) {
      lost(error);
    }
    waited += std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Connects on another thread, because NCCL's first call waits for all without a timeout.
  void connect(torch::Device device) {
    using Opened = std::pair<BackendPtr, WorkPtr>;
    gpu = device;
    BackendPlace at = place;
    at.store = c10::make_intrusive<c10d::PrefixStore>("gpus", place.store);
    const Tensor one = torch::ones({1}, device);
    std::packaged_task<Opened()> meet([at, one] {
      std::vector<Tensor> tensors{one};
      const BackendPtr backend = gpu_backend()(at);
      return Opened(backend, backend->allreduce(tensors));
    });
    std::future<Opened> met = meet.get_future();
    start_thread(std::move(meet)).detach();
    const auto start = Clock::now();
    wait([&] { return met.wait_for(kTurn) == std::future_status::ready || in_time(start); });
    WorkPtr work;
    try {
      std::tie(nccl, work) = met.get();
    } catch (const std::exception& error) {
      fail_data("NCCL cannot connect the GPUs (", reason_of(error),
                "); NCCL_DEBUG=INFO says more, and peer_backend gloo does without NCCL.");
    }
    wait_for_nccl(work);
  }

  [[noreturn]] void lost(const std::exception& error) {
    broken = true;
    departures->lost(reason_of(error));
  }
};

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Group::Group(const GroupPlace& place, double timeout) : impl_(std::make_unique<Impl>()) {
  quiet_c10d();
  Impl& impl = *impl_;
  impl.local_rank = place.local_rank;
  BackendPlace& here = impl.place;
  here = {.rank = place.rank, .world = place.world, .timeout = timeout};
  here.one_machine = place.one_machine || place.address == "127.0.0.1" ||
                     place.address == "localhost" || !place.file.empty();
  StorePtr base = open_store(place, timeout);
  base->setTimeout(milliseconds_of(timeout));
  if (place.file.empty()) limit_silence(impl.port = place.port, timeout);
  here.store = c10::make_intrusive<c10d::PrefixStore>(cat("tost/", place.attempt), base);
  impl.departures =
      std::make_shared<Departures>(std::make_unique<StoreBoard>(here.store), here.rank, here.world);
  const auto key = [](int64_t rank) { return cat("here/", rank); };
  try {
    here.store->set(key(here.rank), std::vector<uint8_t>{1});
    impl.gloo = open_gloo(here);
  } catch (const std::exception& error) {
    std::vector<std::string> missing;
    for (int64_t rank = 0; rank < here.world; ++rank) {
      try {
        if (!here.store->check({key(rank)})) missing.push_back(cat(rank));
      } catch (const std::exception&) {
        break;
      }
    }
    if (missing.empty()) {
      fail_data("The processes could not connect to each other (", reason_of(error),
                "); GLOO_SOCKET_IFNAME names the network device to use.");
    }
    fail_data("Rank ", join(missing, ", "), " of ", here.world, " did not come within ", timeout,
              " s; is every process of the run started?");
  }
}

Group::~Group() = default;

int64_t Group::rank() const {
  return impl_->place.rank;
}
int64_t Group::world() const {
  return impl_->place.world;
}
int64_t Group::local_rank() const {
  return impl_->local_rank;
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
  impl_->place.timeout = seconds;
  if (impl_->port != 0) limit_silence(impl_->port, seconds);
  impl_->gloo->setTimeout(milliseconds_of(seconds));
}

void Group::connect_gpus(torch::Device gpu) {
  if (!impl_->nccl) impl_->connect(gpu);
}

void Group::sum(const Tensor& x) {
  begin_sum(x)();
}

std::function<void()> Group::begin_sum(const Tensor& x) {
  impl_->sent += int64_t(x.nbytes());
  return impl_->begin({x}, [](c10d::Backend& by, auto& t) { return by.allreduce(t); });
}

void Group::broadcast(const Tensor& x) {
  impl_->sent += int64_t(x.nbytes());
  impl_->begin({x}, [](c10d::Backend& by, auto& t) { return by.broadcast(t); })();
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
  impl_->sent += int64_t(x.nbytes());
  return impl_->begin({part, x},
                      [](c10d::Backend& by, auto& t) { return reduce_scatter(by, t[0], t[1]); });
}

void Group::gather_parts(const Tensor& x, const Tensor& part) {
  impl_->sent += int64_t(part.nbytes());
  impl_->begin({x, part}, [](c10d::Backend& by, auto& t) { return all_gather(by, t[0], t[1]); })();
}

bool Group::leave(const Error& reason) {
  impl_->broken = true;
  return impl_->departures->leave(reason);
}

std::unique_ptr<Group> Group::split(const std::string& name, int64_t color) {
  const Tensor colors = gather(torch::full({1}, color, torch::kLong)).view({-1});
  auto part = std::make_unique<Impl>();
  part->place = impl_->place;
  part->place.rank = colors.narrow(0, 0, rank()).eq(color).sum().item<int64_t>();
  part->place.world = colors.eq(color).sum().item<int64_t>();
  part->place.store = c10::make_intrusive<c10d::PrefixStore>(
      cat("split/", impl_->splits++, "/", name, "/", color), impl_->place.store);
  part->departures = impl_->departures;
  try {
    part->gloo = open_gloo(part->place);
  } catch (const std::exception& error) {
    impl_->lost(error);
  }
  if (impl_->gpu) part->connect(*impl_->gpu);
  return std::unique_ptr<Group>(new Group(std::move(part)));
}

}  // namespace tost
