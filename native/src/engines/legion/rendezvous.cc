// How processes find each other without MPI: Realm asks its bootstrap plug-in, which is this library. Rank 0 listens,
// all others connect to it, and it passes on what they exchange.
#include <realm_defines.h>
#ifdef REALM_USE_UCX
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <realm/ucx/bootstrap/bootstrap.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ranks.h"

namespace {

using ff::ErrorKind;
using ff::fail;

constexpr std::chrono::minutes kPatience{10};
constexpr std::chrono::seconds kNotice{10};

std::vector<int> sockets;       // of rank 0: to each other rank, its own unused; of the others: to rank 0
std::vector<int> same_machine;  // ranks

void check(bool good, const std::string& what) {
  if (!good) fail(ErrorKind::state, what, ": ", std::strerror(errno));
}

void send_all(int to, const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t sent = send(to, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    check(sent > 0, "cannot send to another rank");
    done += static_cast<size_t>(sent);
  }
}

void receive_all(int from, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t received = recv(from, static_cast<char*>(data) + done, bytes - done, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received == 0) fail(ErrorKind::state, "another rank ended while the ranks were starting");
    check(received > 0, "cannot receive from another rank");
    done += static_cast<size_t>(received);
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const std::string& root, int flags, int family) {
  const size_t colon = root.rfind(':');
  if (colon == std::string::npos) ff::bad_value("FLEXFLOW_ROOT is \"", root, "\"; expected HOST:PORT of rank 0");
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string host = root.substr(0, colon), port = root.substr(colon + 1);
  if (const int error = getaddrinfo((flags & AI_PASSIVE) != 0 ? nullptr : host.c_str(), port.c_str(), &hints, &found))
    ff::bad_value("FLEXFLOW_ROOT is \"", root, "\": ", gai_strerror(error));
  return {found, freeaddrinfo};
}

// A socket with which one of the addresses works, or -1; errno is that of the last one.
template <class F>
int first_socket(const addrinfo* addresses, F&& works) {
  for (; addresses != nullptr; addresses = addresses->ai_next) {
    const int socket = ::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket >= 0 && works(socket, *addresses)) return socket;
    const int why = errno;
    if (socket >= 0) close(socket);
    errno = why;
  }
  return -1;
}

bool listens(int socket, const addrinfo& address) {
  const int on = 1, off = 0;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ai_family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  return bind(socket, address.ai_addr, address.ai_addrlen) == 0 && listen(socket, SOMAXCONN) == 0;
}

bool connects(int socket, const addrinfo& address) { return connect(socket, address.ai_addr, address.ai_addrlen) == 0; }

int listener(const std::string& root) {
  // A launcher has opened it before any rank began, so that nobody else can have the port.
  if (const char* inherited = std::getenv("FLEXFLOW_ROOT_SOCKET")) return std::atoi(inherited);
  // Others may come by either protocol; a socket of the newer one takes both.
  int socket = first_socket(addresses_of(root, AI_PASSIVE, AF_INET6).get(), listens);
  if (socket < 0 && errno != EADDRINUSE) socket = first_socket(addresses_of(root, AI_PASSIVE, AF_INET).get(), listens);
  check(socket >= 0, "rank 0 cannot listen at FLEXFLOW_ROOT, " + root);
  return socket;
}

// Ctrl-C while a rank waits, of which Python learns only when the wait is over.
volatile std::sig_atomic_t interrupted = 0;
struct sigaction handled{};

void interrupt(int number, siginfo_t* info, void* context) {
  interrupted = 1;
  if ((handled.sa_flags & SA_SIGINFO) != 0)
    handled.sa_sigaction(number, info, context);
  else
    handled.sa_handler(number);
}

// The wait of a rank for others. Tells the user of it once, since it may take minutes.
class Patience {
 public:
  explicit Patience(std::string wait) : wait_(std::move(wait)) {
    interrupted = 0;
    sigaction(SIGINT, nullptr, &handled);
    if (handled.sa_handler == SIG_DFL || handled.sa_handler == SIG_IGN) return;
    struct sigaction ours = handled;
    ours.sa_sigaction = interrupt;
    ours.sa_flags |= SA_SIGINFO;
    taken_ = sigaction(SIGINT, &ours, nullptr) == 0;
  }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience() {
    if (taken_) sigaction(SIGINT, &handled, nullptr);
  }
  // Throws an Error when it is at its end.
  void check_left() {
    const auto waited = std::chrono::steady_clock::now() - begin_;
    if (waited > kNotice && !std::exchange(told_, true)) std::cerr << "flexflow: " << wait_ << std::endl;
    if (interrupted != 0 || waited > kPatience)
      fail(ErrorKind::state, wait_, interrupted != 0 ? ": interrupted" : ": given up");
  }

 private:
  std::string wait_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool told_ = false, taken_ = false;
};

int accept_one(int socket, Patience& patience) {
  pollfd listening{socket, POLLIN, 0};
  while (poll(&listening, 1, 1000) <= 0) patience.check_left();
  const int peer = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
  check(peer >= 0, "cannot accept another rank");
  return peer;
}

void accept_all(const std::string& root, int count) {
  const int socket = listener(root);
  const timeval patience{std::chrono::seconds(kPatience).count(), 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));  // of what it accepts, too
  for (int r = 1; r < count; ++r) {
    Patience wait(ff::cat("rank 0 waits for ", count - 1, " others at ", root, ", and ", r - 1, " came"));
    const int peer = accept_one(socket, wait);
    int rank = 0;
    receive_all(peer, &rank, sizeof(rank));
    if (rank < 1 || rank >= count || sockets[rank] >= 0)
      fail(ErrorKind::state, "rank ", rank, " of ", count, " came to FLEXFLOW_ROOT, ", root,
           ": give each process a FLEXFLOW_RANK of its own, below FLEXFLOW_RANKS");
    sockets[rank] = peer;
  }
  close(socket);
}

void connect_to(const std::string& root, int rank) {
  const Addresses addresses = addresses_of(root, 0, AF_UNSPEC);
  Patience wait(ff::cat("rank ", rank, " waits for rank 0, which does not listen at FLEXFLOW_ROOT, ", root));
  while ((sockets[0] = first_socket(addresses.get(), connects)) < 0) {
    wait.check_left();
    poll(nullptr, 0, 50);
  }
  send_all(sockets[0], &rank, sizeof(rank));
}

void gather(const bootstrap_handle_t& handle, const void* data, void* all, size_t bytes) {
  char* const to = static_cast<char*>(all);
  const auto count = static_cast<size_t>(handle.pg_size);
  if (handle.pg_rank > 0) {
    send_all(sockets[0], data, bytes);
    return receive_all(sockets[0], to, bytes * count);
  }
  std::memmove(to, data, bytes);
  for (size_t r = 1; r < count; ++r) receive_all(sockets[r], to + r * bytes, bytes);
  for (size_t r = 1; r < count; ++r) send_all(sockets[r], to, bytes * count);
}

// Errors end at Realm, which calls this from C.
template <class F>
int status_of(F&& job) noexcept {
  try {
    job();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "flexflow: " << error.what() << std::endl;
    return BOOTSTRAP_ERROR_INTERNAL;
  }
}

int allgather(const void* data, void* all, int bytes, bootstrap_handle_t* handle) {
  return status_of([&] { gather(*handle, data, all, static_cast<size_t>(bytes)); });
}

int finalize(bootstrap_handle_t*) {
  for (const int socket : sockets)
    if (socket >= 0) close(socket);
  sockets.clear();
  return 0;
}

void meet(bootstrap_handle_t& handle) {
  const ff::Ranks ranks = ff::ranks();
  const char* const root = std::getenv("FLEXFLOW_ROOT");
  if (root == nullptr) ff::bad_value("FLEXFLOW_ROOT is missing; expected HOST:PORT of rank 0");
  sockets.assign(static_cast<size_t>(ranks.count), -1);
  if (ranks.rank == 0)
    accept_all(root, ranks.count);
  else
    connect_to(root, ranks.rank);
  const int on = 1;
  for (const int socket : sockets)
    if (socket >= 0) setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  handle.pg_rank = ranks.rank;
  handle.pg_size = ranks.count;
  using Name = std::array<char, 256>;
  Name name{};
  gethostname(name.data(), name.size() - 1);
  std::vector<Name> names(sockets.size());
  gather(handle, name.data(), names.data(), sizeof(name));
  for (int r = 0; r < ranks.count; ++r)
    if (names[r] == name) same_machine.push_back(r);
  handle.shared_ranks = same_machine.data();
  handle.num_shared_ranks = static_cast<int>(same_machine.size());
}

}  // namespace

extern "C" int realm_ucp_bootstrap_plugin_init(void*, bootstrap_handle_t* handle) {
  return status_of([&] {
    *handle = {};
    handle->allgather = allgather;
    handle->finalize = finalize;
    meet(*handle);
  });
}

#endif
