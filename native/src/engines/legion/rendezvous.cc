#include "engines/legion/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <realm_defines.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ranks.h"

#ifdef REALM_USE_UCX
#include <realm/ucx/bootstrap/bootstrap.h>
#endif

namespace ff::legion {
namespace {

using Clock = std::chrono::steady_clock;

// What comes first on a connection; flexflow/core/launch.py sends one, too.
struct Hello {
  uint32_t mark = 0x46464c52;
  int32_t rank = 0, count = 0;
  enum Purpose : int32_t { gather, ends, gone, purposes } purpose = gather;
};
constexpr int kKept = Hello::gone;  // connections that each rank has for as long as it lives

std::map<int, int> connected[kKept];  // by rank: of rank 0 to all others, of the others to rank 0
std::vector<int> same_machine;        // ranks
bool met = false;

int patience() { return variable("FLEXFLOW_ROOT_TIMEOUT") ? number_in("FLEXFLOW_ROOT_TIMEOUT", 1, 1 << 20) : 600; }

// A launcher has opened the socket of rank 0 before any rank began.
bool launched() { return variable("FLEXFLOW_ROOT_SOCKET") != nullptr; }

void check(bool good, const std::string& what) {
  if (good) return;
  if (errno == EINTR) fail(ErrorKind::state, "interrupted while the ranks were looking for each other");
  fail(ErrorKind::state, what, ": ",
       errno == EAGAIN ? cat("no answer in ", patience(), " seconds") : std::strerror(errno));
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

// Waiting for the others, in slices: says so once, since a long silence looks like a fault.
class Wait {
 public:
  explicit Wait(std::string whom) : whom_(std::move(whom)) {
    interrupted = 0;
    sigaction(SIGINT, nullptr, &handled);
    if (handled.sa_handler == SIG_DFL || handled.sa_handler == SIG_IGN) return;
    struct sigaction ours = handled;
    ours.sa_sigaction = interrupt;
    ours.sa_flags |= SA_SIGINFO;
    taken_ = sigaction(SIGINT, &ours, nullptr) == 0;
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait() {
    if (taken_) sigaction(SIGINT, &handled, nullptr);
  }
  bool over() const { return Clock::now() - start_ > std::chrono::seconds(patience()); }
  // Until there is something to read (socket >= 0), or a moment long; false: not yet.
  bool once(int socket) {
    pollfd readable{socket, POLLIN, 0};
    const int found = poll(&readable, socket < 0 ? 0 : 1, kSlice);
    if (interrupted != 0) errno = EINTR;
    check(found >= 0 && interrupted == 0, "cannot wait");
    if (!told_ && Clock::now() - start_ > std::chrono::seconds(10)) {
      told_ = true;
      std::cerr << "flexflow: " << whom_ << ", up to " << patience() << " seconds (FLEXFLOW_ROOT_TIMEOUT)" << std::endl;
    }
    return found > 0;
  }

 private:
  static constexpr int kSlice = 50;  // milliseconds
  std::string whom_;
  Clock::time_point start_ = Clock::now();
  bool told_ = false, taken_ = false;
};

void send_all(int to, const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t sent = send(to, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    check(sent > 0, "cannot send to another rank, which may have ended");
    done += static_cast<size_t>(sent);
  }
}

void receive_all(int from, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t received = recv(from, static_cast<char*>(data) + done, bytes - done, 0);
    if (met && received < 0 && errno == EINTR) continue;  // Legion is starting, and cannot be stopped
    if (received == 0) fail(ErrorKind::state, "another rank ended while the ranks were starting");
    check(received > 0, "cannot receive from another rank, which may have ended");
    done += static_cast<size_t>(received);
  }
}

struct Addresses {
  explicit Addresses(const std::string& root, bool own, int family = AF_UNSPEC) {
    const size_t colon = root.rfind(':');
    const std::string host = root.substr(0, colon), port = colon == std::string::npos ? "" : root.substr(colon + 1);
    const bool number = !port.empty() && port.size() < 6 &&
                        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (host.empty() || !number || std::stoi(port) < 1 || std::stoi(port) > 65535)
      bad_value("FLEXFLOW_ROOT is \"", root, "\"; expected HOST:PORT of rank 0, the port from 1 to 65535");
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = own ? AI_PASSIVE : 0;
    if (const int error = getaddrinfo(own ? nullptr : host.c_str(), port.c_str(), &hints, &first);
        error != 0 && family != AF_INET6)  // which not every machine has
      bad_value("FLEXFLOW_ROOT is \"", root, "\": ", gai_strerror(error));
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { freeaddrinfo(first); }

  addrinfo* first = nullptr;
};

struct Socket {
  explicit Socket(int of) : number(of) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (number >= 0) close(number);
  }
  int release() { return std::exchange(number, -1); }

  int number;
};

void set_timeout(int socket, int seconds) {
  const timeval time{seconds, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

int listener(const std::string& root) {
  const int on = 1, off = 0;
  if (launched()) {
    const int inherited = number_in("FLEXFLOW_ROOT_SOCKET", 0, 1 << 20);
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(inherited, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
      fail(ErrorKind::state, "this process has the variables of rank 0, and not its socket: a program that a rank ",
           "starts is none of the ranks; unset FLEXFLOW_RANK and FLEXFLOW_RANKS for it");
    return inherited;
  }
  // Others may come by either protocol; a socket of the newer one takes both.
  for (const int family : {AF_INET6, AF_INET}) {
    const Addresses addresses(root, true, family);
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6) setsockopt(socket.number, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (addresses.first != nullptr && bind(socket.number, addresses.first->ai_addr, addresses.first->ai_addrlen) == 0 &&
        listen(socket.number, SOMAXCONN) == 0)
      return socket.release();
    check(family == AF_INET6 && errno != EADDRINUSE, "rank 0 cannot listen at FLEXFLOW_ROOT, " + root);
  }
  return -1;
}

std::string missing_of(int count) {
  std::vector<int> missing;
  for (int r = 1; r < count; ++r)
    if (connected[Hello::ends].count(r) == 0) missing.push_back(r);
  return join(missing);
}

void accept_one(int listening, const std::string& root, int count) {
  constexpr int kSeconds = 5;  // for what a rank sends at once; whoever else came is sent away
  Socket peer(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  set_timeout(peer.number, kSeconds);
  Hello hello;
  if (recv(peer.number, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello) || hello.mark != Hello().mark) return;
  if (hello.purpose == Hello::gone)
    fail(ErrorKind::state, "rank ", hello.rank, " ended before it used FlexFlow, and the others wait for it; all ",
         "ranks must make the same calls");
  if (hello.count != count || hello.rank < 1 || hello.rank >= count || hello.purpose < 0 || hello.purpose >= kKept ||
      connected[hello.purpose].count(hello.rank) != 0)
    fail(ErrorKind::state, "rank ", hello.rank, " of ", hello.count, " came to FLEXFLOW_ROOT, ", root, ", for ", count,
         " ranks; give each process a FLEXFLOW_RANK of its own, below FLEXFLOW_RANKS, and all the same FLEXFLOW_RANKS");
  connected[hello.purpose][hello.rank] = peer.release();
}

void accept_all(const std::string& root, int count) {
  const Socket socket(listener(root));
  Wait wait(cat("rank 0 waits at ", root, " for ", count - 1, " other ranks"));
  while (connected[Hello::gather].size() + connected[Hello::ends].size() < kKept * static_cast<size_t>(count - 1)) {
    if (wait.once(socket.number))
      accept_one(socket.number, root, count);
    else if (wait.over())
      fail(ErrorKind::state, "rank 0 waited ", patience(), " seconds at FLEXFLOW_ROOT, ", root, ", for ", count - 1,
           " other ranks, and these did not come: ", missing_of(count));
  }
}

int connect_once(const Addresses& addresses) {
  for (const addrinfo* address = addresses.first; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.number, address->ai_addr, address->ai_addrlen) == 0) return socket.release();
  }
  return -1;
}

void connect_to(const std::string& root, int rank, int count) {
  const Addresses addresses(root, false);
  Wait wait(cat("rank ", rank, " waits for rank 0 at ", root));
  for (int purpose = 0; purpose < kKept; ++purpose) {
    int socket = -1;
    while ((socket = connect_once(addresses)) < 0) {
      if (launched())
        fail(ErrorKind::state,
             "rank 0 does not listen any more: it has ended, or all ranks have come and this is none ",
             "of them; for a program that a rank starts, unset FLEXFLOW_RANK and FLEXFLOW_RANKS");
      if (wait.over())
        fail(ErrorKind::state, "rank ", rank, " waited ", patience(), " seconds for rank 0, which does not listen at ",
             "FLEXFLOW_ROOT, ", root);
      wait.once(-1);
    }
    connected[purpose][0] = socket;
    Hello hello;
    hello.rank = rank;
    hello.count = count;
    hello.purpose = static_cast<Hello::Purpose>(purpose);
    send_all(socket, &hello, sizeof(hello));
  }
}

void gather(const Ranks& ranks, const void* data, void* all, size_t bytes) {
  char* const to = static_cast<char*>(all);
  const std::map<int, int>& sockets = connected[Hello::gather];
  if (ranks.rank > 0) {
    send_all(sockets.at(0), data, bytes);
    return receive_all(sockets.at(0), to, bytes * static_cast<size_t>(ranks.count));
  }
  std::memmove(to, data, bytes);
  for (const auto& [rank, socket] : sockets) receive_all(socket, to + static_cast<size_t>(rank) * bytes, bytes);
  for (const auto& [rank, socket] : sockets) send_all(socket, to, bytes * static_cast<size_t>(ranks.count));
}

void find_others(const Ranks& ranks) {
  const char* const root = variable("FLEXFLOW_ROOT");
  if (root == nullptr) bad_value("FLEXFLOW_ROOT is missing; expected HOST:PORT of rank 0");
  if (ranks.rank == 0)
    accept_all(root, ranks.count);
  else
    connect_to(root, ranks.rank, ranks.count);
  const int on = 1;
  for (const auto& [rank, socket] : connected[Hello::gather]) {
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    set_timeout(socket, patience());
  }
  for (const auto& [rank, socket] : connected[Hello::ends]) set_timeout(socket, 0);
  using Name = std::array<char, 256>;
  Name name{};
  gethostname(name.data(), name.size() - 1);
  std::vector<Name> names(static_cast<size_t>(ranks.count));
  gather(ranks, name.data(), names.data(), sizeof(name));
  for (int r = 0; r < ranks.count; ++r)
    if (names[r] == name) same_machine.push_back(r);
}

#ifdef REALM_USE_UCX

int allgather(const void* data, void* all, int bytes, bootstrap_handle_t*) {
  try {
    gather(ranks(), data, all, static_cast<size_t>(bytes));
    return 0;
  } catch (const std::exception& error) {  // it ends at Realm, which calls this from C
    std::cerr << "flexflow: " << error.what() << std::endl;
    return BOOTSTRAP_ERROR_INTERNAL;
  }
}

int finalize(bootstrap_handle_t*) { return 0; }

#endif

}  // namespace

void meet() {
  if (met) return;
  try {
    find_others(ranks());
  } catch (...) {
    for (std::map<int, int>& sockets : connected) {
      for (const auto& [rank, socket] : sockets) close(socket);
      sockets.clear();
    }
    throw;
  }
  met = true;
}

const std::map<int, int>& connections() { return connected[Hello::ends]; }

}  // namespace ff::legion

#ifdef REALM_USE_UCX

// Realm asks its bootstrap plug-in, which is this library.
extern "C" __attribute__((visibility("default"))) int realm_ucp_bootstrap_plugin_init(void*,
                                                                                      bootstrap_handle_t* handle) {
  try {
    ff::legion::meet();  // where another program starts Legion
  } catch (const std::exception& error) {
    std::cerr << "flexflow: " << error.what() << std::endl;
    return BOOTSTRAP_ERROR_INTERNAL;
  }
  const ff::Ranks ranks = ff::ranks();
  *handle = {};
  handle->pg_rank = ranks.rank;
  handle->pg_size = ranks.count;
  handle->shared_ranks = ff::legion::same_machine.data();
  handle->num_shared_ranks = static_cast<int>(ff::legion::same_machine.size());
  handle->allgather = ff::legion::allgather;
  handle->finalize = ff::legion::finalize;
  return 0;
}

#endif
