// What processes tell each other at their ends, so that none waits for one that is no more. Without connections of our
// own (rendezvous.h) who started the processes sees to that.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

namespace ff::legion {

class Peers {
 public:
  // Lives as long as the process.
  static Peers& get();
  // From now on: this process ends, too, when another one has died, or has come to its end and this one goes on.
  void watch();
  // Before something in which all take part; throws an Error when another one has come to its end.
  void begin();
  // This process begins no more: returns when no other does.
  void end();

 private:
  Peers() = default;
  void listen();
  void note(int rank, uint64_t begun);
  bool is_over();

  std::mutex mutex_;
  std::condition_variable noted_;
  bool watching_ = false;
  uint64_t begun_ = 0;             // here
  std::map<int, uint64_t> ended_;  // what ranks had begun that have ended; they hear of rank 0 alone
  bool over_ = false;              // all have
};

}  // namespace ff::legion
