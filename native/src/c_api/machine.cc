// Machine models, as plain arrays.
#include "search/machine_model.h"

#include <algorithm>

#include "c_api/objects.h"

using namespace ff;
using namespace ff::c_api;

namespace {

// What an array holds; one that is empty may be anywhere.
template <class T>
std::vector<T> items(const T* first, size_t n, const char* what) {
  if (n == 0) return {};
  required(first, what);
  return {first, first + n};
}

MachineModel model_of(const std::vector<ff_device>& devices, const std::vector<ff_rate>& rates, int32_t switches,
                      const std::vector<ff_link>& links) {
  MachineModel model;
  for (const ff_device& device : devices) {
    const char* kind = device.kind == nullptr ? "" : device.kind;
    model.machine.devices.push_back({kind, device.threads, device.memory, device.node, device.space});
    model.rates.push_back({.flops = {}, .bandwidth = device.bandwidth, .launch = device.launch});
  }
  const auto n = static_cast<int>(devices.size());
  for (const ff_rate& rate : rates) {
    if (rate.device < 0 || rate.device >= n)
      bad_value("a rate of device ", rate.device, ": there are ", n, " devices, counted from 0");
    if (!model.rates[rate.device].flops.emplace(dtype_of(rate.dtype), rate.flops).second)
      bad_value("device ", rate.device, ": a second rate for ", name_of(dtype_of(rate.dtype)));
  }
  std::vector<Link> ways;
  for (const ff_link& link : links) ways.push_back({link.from, link.to, link.latency, link.bandwidth});
  model.network = Network(n, switches, std::move(ways));
  return model;
}

}  // namespace

extern "C" ff_status ff_machine_create(const char* name, const ff_device* devices, size_t n_devices,
                                       const ff_rate* rates, size_t n_rates, int32_t switches, const ff_link* links,
                                       size_t n_links, int32_t overlap, ff_handle* machine) {
  return guarded([&] {
    required(machine, "machine");
    auto model =
        std::make_shared<MachineModel>(model_of(items(devices, n_devices, "devices"), items(rates, n_rates, "rates"),
                                                switches, items(links, n_links, "links")));
    model->name = &required(name, "name");
    model->overlap = overlap != 0;
    check(*model);
    *machine = keep(std::shared_ptr<const MachineModel>(std::move(model)));
  });
}

extern "C" ff_status ff_machine_route(ff_handle machine, int32_t from, int32_t to, int32_t* links, size_t capacity,
                                      size_t* n_links, double* latency, double* bandwidth) {
  return guarded([&] {
    required(n_links, "n_links");
    required(latency, "latency");
    required(bandwidth, "bandwidth");
    const auto model = machine_of(machine);
    const std::vector<int>& way = model->network.route(from, to);
    if (capacity > 0) required(links, "links");
    std::copy_n(way.begin(), std::min(capacity, way.size()), links);
    *n_links = way.size();
    *latency = model->network.latency(from, to);
    *bandwidth = model->network.bandwidth(from, to);
  });
}
