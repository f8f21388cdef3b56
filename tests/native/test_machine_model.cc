// Ways through networks: against all simple paths of small random ones, and on shapes whose distances are known.
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "check.h"
#include "search/machine_model.h"

using namespace ff;

namespace {

double seconds_of(const Network& network, const std::vector<int>& way) {
  double seconds = 0;
  for (const int link : way) seconds += network.links()[link].latency + 1e6 / network.links()[link].bandwidth;
  return seconds;
}

bool leads(const Network& network, const std::vector<int>& way, int from, int to) {
  for (const int link : way) {
    if (network.links()[link].from != from) return false;
    from = network.links()[link].to;
  }
  return from == to;
}

// The fastest of all paths that visit nothing twice; infinite when there is none.
double fastest(const Network& network, int at, int to, std::vector<bool>& seen) {
  if (at == to) return 0;
  double best = std::numeric_limits<double>::infinity();
  seen[at] = true;
  for (size_t i = 0; i < network.links().size(); ++i) {
    const Link& link = network.links()[i];
    if (link.from != at || seen[link.to]) continue;
    best = std::min(best, link.latency + 1e6 / link.bandwidth + fastest(network, link.to, to, seen));
  }
  seen[at] = false;
  return best;
}

// Both directions of links between neighbours on a grid that closes on itself.
Network torus(int rows, int columns) {
  std::vector<Link> links;
  const auto at = [&](int r, int c) { return (r + rows) % rows * columns + (c + columns) % columns; };
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      for (const auto& [dr, dc] : {std::pair{0, 1}, {0, -1}, {1, 0}, {-1, 0}})
        links.push_back({at(r, c), at(r + dr, c + dc), 1e-6, 1e10});
  return {rows * columns, 0, links};
}

// Nodes of eight devices at a switch, and a switch between the nodes.
Network cluster(int nodes) {
  std::vector<Link> links;
  const int devices = nodes * 8;
  for (int d = 0; d < devices; ++d) {
    links.push_back({d, devices + d / 8, 1e-6, 3e11});
    links.push_back({devices + d / 8, d, 1e-6, 3e11});
  }
  for (int n = 0; n < nodes; ++n) {
    links.push_back({devices + n, devices + nodes, 2e-6, 2e11});
    links.push_back({devices + nodes, devices + n, 2e-6, 2e11});
  }
  return {devices, nodes + 1, links};
}

TEST(ways_are_the_fastest_of_all_paths) {
  std::mt19937 random(7);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int with_way = 0, without = 0;
  for (int round = 0; round < 200; ++round) {
    const int devices = 1 + draw(4), switches = draw(4), vertices = devices + switches;
    std::vector<Link> links;
    for (int i = draw(14); i > 0 && vertices > 1; --i) {
      const int from = draw(vertices), to = (from + 1 + draw(vertices - 1)) % vertices;
      links.push_back({from, to, draw(3) * 1e-4, 1e8 * (1 + draw(40))});
    }
    const Network network(devices, switches, links);
    for (int from = 0; from < devices; ++from)
      for (int to = 0; to < devices; ++to) {
        std::vector<bool> seen(vertices);
        const double best = fastest(network, from, to, seen);
        if (std::isinf(best)) {
          ++without;
          CHECK_THROWS(network.route(from, to), cat("no way leads from device ", from, " to device ", to));
          continue;
        }
        ++with_way;
        const std::vector<int>& way = network.route(from, to);
        CHECK(leads(network, way, from, to), round, " ", from, " ", to);
        CHECK(std::abs(seconds_of(network, way) - best) <= 1e-12 * best, seconds_of(network, way), " ", best);
        double latency = 0, bandwidth = std::numeric_limits<double>::infinity();
        for (const int link : way) {
          latency += links[link].latency;
          bandwidth = std::min(bandwidth, links[link].bandwidth);
        }
        CHECK(network.latency(from, to) == latency && network.bandwidth(from, to) == bandwidth);
      }
  }
  CHECK(with_way > 400 && without > 400, with_way, " ", without);
}

TEST(a_slow_direct_link_is_gone_around) {
  // 1 MB: 0.1 s directly, 0.02 s by the switch, 0.011 s by the second device.
  const Network network(3, 1, {{0, 2, 0, 1e7}, {0, 3, 0, 1e8}, {3, 2, 0, 1e8}, {0, 1, 1e-3, 2e8}, {1, 2, 0, 2e8}});
  CHECK((network.route(0, 2) == std::vector<int>{3, 4}));
  CHECK(network.latency(0, 2) == 1e-3 && network.bandwidth(0, 2) == 2e8);
  CHECK(network.route(1, 1).empty() && network.latency(1, 1) == 0 && std::isinf(network.bandwidth(1, 1)));
}

TEST(ways_on_a_torus_have_its_distances) {
  const int rows = 4, columns = 6;
  const Network network = torus(rows, columns);
  const auto around = [](int a, int b, int n) { return std::min((a - b + n) % n, (b - a + n) % n); };
  for (int a = 0; a < rows * columns; ++a)
    for (int b = 0; b < rows * columns; ++b) {
      const int distance = around(a / columns, b / columns, rows) + around(a % columns, b % columns, columns);
      CHECK(static_cast<int>(network.route(a, b).size()) == distance, a, " ", b);
    }
}

TEST(equal_ways_are_shared_out) {
  // Four devices at one switch and four at another, with four equal switches between these two.
  std::vector<Link> links;
  for (int d = 0; d < 8; ++d) {
    links.push_back({d, 8 + d / 4, 0, 1e9});
    links.push_back({8 + d / 4, d, 0, 1e9});
  }
  for (int spine = 10; spine < 14; ++spine)
    for (const auto& [from, to] : {std::pair{8, spine}, {spine, 9}, {9, spine}, {spine, 8}})
      links.push_back({from, to, 0, 1e9});
  const Network network(8, 6, links);
  std::vector<int> used(links.size());
  for (int d = 0; d < 4; ++d)
    for (const int link : network.route(d, 4 + d)) ++used[link];
  for (size_t i = 0; i < links.size(); ++i) CHECK(used[i] <= 1, i, " ", used[i]);
  // The same network asked in another order gives the same ways.
  const Network again(8, 6, links);
  for (int a = 7; a >= 0; --a)
    for (int b = 7; b >= 0; --b) CHECK(again.route(a, b) == network.route(a, b));
}

TEST(large_networks_are_quick) {
  const auto start = std::chrono::steady_clock::now();
  for (const Network& network : {cluster(128), torus(32, 32)})
    for (int d = 0; d < 1024; ++d) {
      CHECK(network.route(0, d).size() <= 32);
      CHECK(network.route(d, (d + 513) % 1024).size() >= 4);
    }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() < 60, took.count());  // a sanitizer's build takes ten times the usual two seconds
}

TEST(threads_ask_for_ways_at_once) {
  const Network network = torus(8, 8), copy = network;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 64 * 64; ++i) {
        const int pair = (i * 37 + t * 1000) % (64 * 64), from = pair / 64, to = pair % 64;
        wrong += !leads(network, (t % 2 ? network : copy).route(from, to), from, to);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0, wrong);
  CHECK(&network.route(3, 40) == &copy.route(3, 40));
}

TEST(bad_links_are_named) {
  const double nan = std::nan("");
  CHECK_THROWS(Network(2, 1, {{0, 1, 0, 1e9}, {0, 3, 0, 1e9}}),
               "link 1, from 0 to 3: there is no 3; expected one of 2");
  CHECK_THROWS(Network(2, 1, {{-1, 1, 0, 1e9}}), "link 0, from -1 to 1: there is no -1");
  CHECK_THROWS(Network(2, 1, {{1, 1, 0, 1e9}}), "it ends where it begins");
  for (const double latency : {-1e-6, nan, HUGE_VAL}) CHECK_THROWS(Network(2, 0, {{0, 1, latency, 1e9}}), "latency is");
  for (const double bandwidth : {-1.0, 0.0, nan, HUGE_VAL})
    CHECK_THROWS(Network(2, 0, {{0, 1, 0, bandwidth}}), "bandwidth is");
  CHECK_THROWS(Network(-1, 0, {}), "-1 devices");
  const Network network(2, 1, {{0, 1, 0, 1e9}});
  for (const int device : {-1, 2}) {
    CHECK_THROWS(network.route(device, 0), "there are 2 devices");
    CHECK_THROWS(network.latency(0, device), "there are 2 devices");
  }
}

TEST(bad_machines_are_named) {
  MachineModel good;
  good.machine.devices.resize(2, {.kind = "cpu", .memory = 1});
  good.rates.resize(2, {.flops = {{DType::float32, 1e12}}, .bandwidth = 1e11});
  good.network = Network(2, 0, {{0, 1, 0, 1e9}});
  ff::check(good);
  CHECK(good.rates[0].flops_in(DType::float16) == 1e12);
  const auto changed = [&](const std::function<void(MachineModel&)>& change) {
    MachineModel model = good;
    change(model);
    ff::check(model);
  };
  CHECK_THROWS(ff::check(MachineModel()), "no devices");
  CHECK_THROWS(changed([](auto& m) { m.rates.pop_back(); }), "2 devices has rates of 1");
  CHECK_THROWS(changed([](auto& m) { m.network = Network(3, 0, {}); }), "a network of 3");
  CHECK_THROWS(changed([](auto& m) { m.machine.devices[1].kind = ""; }), "device 1: it has no kind");
  CHECK_THROWS(changed([](auto& m) { m.machine.devices[1].memory = 0; }), "device 1: memory is 0");
  CHECK_THROWS(changed([](auto& m) { m.machine.devices[0].threads = 0; }), "device 0: threads is 0");
  CHECK_THROWS(changed([](auto& m) { m.machine.devices[0].node = -2; }), "device 0: node is -2");
  CHECK_THROWS(changed([](auto& m) { m.rates[1].bandwidth = 0; }), "device 1: bandwidth is 0");
  CHECK_THROWS(changed([](auto& m) { m.rates[1].launch = -1; }), "device 1: launch is -1");
  CHECK_THROWS(changed([](auto& m) { m.rates[0].flops = {{DType::float16, 1}}; }), "no rate for float32");
  CHECK_THROWS(changed([](auto& m) { m.rates[0].flops[DType::float64] = -3; }), "its rate for float64 is -3");
}

}  // namespace
