#include "vgpu/core/topology.hpp"

#include <algorithm>
#include <tuple>

#include <dlfcn.h>
#include <hwloc.h>

#include "vgpu/core/settings.hpp"

namespace vgpu {
namespace {

// The few functions used of hwloc, by the types that its header gives them.
struct Hwloc {
    decltype(&hwloc_topology_init) init = nullptr;
    decltype(&hwloc_topology_destroy) destroy = nullptr;
    decltype(&hwloc_topology_set_xml) set_xml = nullptr;
    decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter = nullptr;
    decltype(&hwloc_topology_load) load = nullptr;
    decltype(&hwloc_get_type_depth) get_type_depth = nullptr;
    decltype(&hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;

    bool open(std::string& problem) {
        void* library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            problem = dlerror();
            return false;
        }
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        problem = "the libhwloc.so.15 found lacks a function";
        return find(init, "hwloc_topology_init") && find(destroy, "hwloc_topology_destroy") &&
               find(set_xml, "hwloc_topology_set_xml") &&
               find(set_io_types_filter, "hwloc_topology_set_io_types_filter") && find(load, "hwloc_topology_load") &&
               find(get_type_depth, "hwloc_get_type_depth") && find(get_obj_by_depth, "hwloc_get_obj_by_depth");
    }
};

bool is_nvidia_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
    const bool display = pci.class_id == 0x0300 || pci.class_id == 0x0302;  // VGA or 3D controller
    return pci.vendor_id == 0x10de && display;
}

}  // namespace

std::vector<PciAddress> gpus_of_topology(const std::string& file, std::string& problem) {
    std::vector<PciAddress> gpus;
    Hwloc hwloc;
    if (!hwloc.open(problem)) {
        problem = complaint("VGPU_TOPOLOGY", file, "hwloc is needed to read it: " + problem, "install libhwloc15");
        return gpus;
    }
    hwloc_topology_t topology = nullptr;
    hwloc.init(&topology);
    // By default hwloc drops all PCI devices.
    hwloc.set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc.set_xml(topology, file.c_str()) != 0 || hwloc.load(topology) != 0) {
        problem =
            complaint("VGPU_TOPOLOGY", file, "hwloc cannot load it", "name an XML file written by `lstopo FILE.xml`");
        hwloc.destroy(topology);
        return gpus;
    }
    const int depth = hwloc.get_type_depth(topology, HWLOC_OBJ_PCI_DEVICE);
    for (unsigned i = 0; hwloc_obj_t object = hwloc.get_obj_by_depth(topology, depth, i); ++i)
        if (is_nvidia_gpu(object->attr->pcidev))
            gpus.push_back({object->attr->pcidev.domain, object->attr->pcidev.bus, object->attr->pcidev.dev});
    hwloc.destroy(topology);
    std::sort(gpus.begin(), gpus.end(), [](const PciAddress& a, const PciAddress& b) {
        return std::tie(a.domain, a.bus, a.device) < std::tie(b.domain, b.bus, b.device);
    });
    if (gpus.empty())
        problem = complaint("VGPU_TOPOLOGY", file, "it lists no NVIDIA GPU among its PCI devices",
                            "record it with I/O devices (`lstopo --whole-io`), or unset it and set VGPU_COUNT");
    return gpus;
}

}  // namespace vgpu
