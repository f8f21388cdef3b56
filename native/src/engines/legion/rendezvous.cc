// How processes find each other without MPI: Realm asks its bootstrap plug-in, which is this library. Rank 0 listens,
// all others connect to it, and it passes on what they exchange.
#include <realm_defines.h>
#ifdef REALM_USE_UCX
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <realm/ucx/bootstrap/bootstrap.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/ranks.h"

namespace {

using ff::ErrorKind;
using ff::fail;

constexpr std::chrono::minutes kPatience{10};

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

addrinfo* address_of(const std::string& root, int flags) {
  const size_t colon = root.rfind(':');
  if (colon == std::string::npos) ff::bad_value("FLEXFLOW_ROOT is \"", root, "\"; expected HOST:PORT of rank 0");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string host = root.substr(0, colon), port = root.substr(colon + 1);
  if (const int error = getaddrinfo((flags & AI_PASSIVE) != 0 ? nullptr : host.c_str(), port.c_str(), &hints, &found))
    ff::bad_value("FLEXFLOW_ROOT is \"", root, "\": ", gai_strerror(error));
  return found;
}

int listener(const std::string& root) {
  // A launcher has opened it before any rank began, so that nobody else can have the port.
  if (const char* inherited = std::getenv("FLEXFLOW_ROOT_SOCKET")) return std::atoi(inherited);
  addrinfo* const address = address_of(root, AI_PASSIVE);
  const int socket = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  check(bind(socket, address->ai_addr, address->ai_addrlen) == 0 && listen(socket, SOMAXCONN) == 0,
        "rank 0 cannot listen at FLEXFLOW_ROOT, " + root);
  freeaddrinfo(address);
  return socket;
}

void accept_all(const std::string& root, int count) {
  const int socket = listener(root);
  const timeval patience{std::chrono::seconds(kPatience).count(), 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  for (int r = 1; r < count; ++r) {
    const int peer = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
    check(peer >= 0, ff::cat("rank 0 waited for ", count - 1, " others, and ", r - 1, " came"));
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
  const auto end = std::chrono::steady_clock::now() + kPatience;
  addrinfo* const address = address_of(root, 0);
  for (;;) {
    sockets[0] = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(sockets[0], address->ai_addr, address->ai_addrlen) == 0) break;
    check(std::chrono::steady_clock::now() < end, "rank 0 does not listen at FLEXFLOW_ROOT, " + root);
    close(sockets[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  freeaddrinfo(address);
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
