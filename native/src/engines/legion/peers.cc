#include "engines/legion/peers.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/ranks.h"
#include "engines/legion/rendezvous.h"

namespace ff::legion {
namespace {

std::string ended_early(int rank) {
  return cat("rank ", rank, " has come to its end, and rank ", ranks().rank,
             " goes on; all ranks must make the same calls of FlexFlow in one order");
}

// A task of Legion that waits for another process cannot be called back.
[[noreturn]] void end_process(const std::string& why) {
  // Who started the processes may end them all, and tell which one was the first.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  std::cerr << "flexflow: " << why << std::endl;
  std::fflush(nullptr);
  _exit(1);
}

}  // namespace

Peers& Peers::get() {
  static Peers* const peers = new Peers;
  return *peers;
}

void Peers::watch() {
  if (connections().empty()) return;
  watching_ = true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { listen(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Peers::begin() {
  if (!watching_) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, begun] : ended_)
    if (begun <= begun_) fail(ErrorKind::state, ended_early(rank));
  ++begun_;
}

void Peers::end() {
  if (!watching_) return;
  const auto tell_all = [this] {
    for (const auto& [rank, socket] : connections()) (void)send(socket, &begun_, sizeof(begun_), MSG_NOSIGNAL);
  };
  std::unique_lock lock(mutex_);
  tell_all();
  if (ranks().rank > 0) return noted_.wait(lock, [this] { return over_; });
  noted_.wait(lock, [this] { return ended_.size() == connections().size(); });
  over_ = true;
  tell_all();
}

void Peers::listen() {
  std::map<int, int> open = connections();
  while (!open.empty()) {
    std::vector<pollfd> sockets;
    for (const auto& [rank, socket] : open) sockets.push_back({socket, POLLIN, 0});
    poll(sockets.data(), sockets.size(), -1);
    for (auto it = open.begin(); it != open.end();) {
      uint64_t begun = 0;
      const ssize_t received = recv(it->second, &begun, sizeof(begun), MSG_DONTWAIT);
      if (received == sizeof(begun)) note(it->first, begun);
      const bool gone = received >= 0 ? received != sizeof(begun) : errno != EAGAIN && errno != EINTR;
      if (gone && !is_over())
        end_process(cat("rank ", it->first, " has died, and rank ", ranks().rank, " cannot go on without it"));
      it = gone ? open.erase(it) : std::next(it);
    }
  }
}

void Peers::note(int rank, uint64_t begun) {
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    over_ = over_ || !ended_.emplace(rank, begun).second;  // rank 0 says it again when all have ended
    waits = begun < begun_;
    noted_.notify_all();
  }
  if (waits) end_process(ended_early(rank));
}

bool Peers::is_over() {
  const std::lock_guard lock(mutex_);
  return over_;
}

}  // namespace ff::legion
