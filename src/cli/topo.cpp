#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/node.hpp"
#include "cli/probe.hpp"
#include "device/listing.hpp"
#include "topology/devices.hpp"
#include "topology/lists.hpp"

namespace swy::cli {

namespace {

constexpr const char* kTopoNotes =
    "LIST has one entry for each rank, separated by ; (quote it for the shell); one entry alone serves all ranks.\n"
    "\nExamples:\n"
    "  switchyard topo\n"
    "  switchyard topo -n 4 --bind '0-11;12-23;24-35;36-47'\n"
    "  switchyard topo --xml node.xml -n 2 --visible '0,1;2,3' --format=json\n";

// Replaces the GPUs that hwloc lists by those that a program started here would see. Without a driver hwloc's list of
// this machine stands; where that is empty, the machine has no GPU.
void take_driver(Node& node, topology::Lists& lists) {
    DriverFound driver;
    probe_driver(driver);
    const std::vector<topology::Device> devices = device::driver_devices();
    if (driver.state == "usable" || driver.state == "no device")
        lists.all = topology::take_devices(devices, node.machine);
    const char* file = std::getenv("HWLOC_XMLFILE");
    if (file == nullptr || *file == '\0' || !devices.empty())
        node.machine.lists_pci = true;  // what is not there is known not to be
}

}  // namespace

int topo(std::span<const std::string> arguments) {
    std::string xml;
    std::string format = "text";
    topology::Lists lists;
    CLI::App app("Draws a node with its GPUs and network devices, and says which GPU suits which rank, and why.",
                 "switchyard topo");
    app.add_option("--xml", xml, "a machine that hwloc recorded (lstopo FILE.xml) in place of this one")
        ->type_name("FILE");
    app.add_option("-n,--np", lists.ranks, "ranks on the node (default: as many as a list has, or as there are GPUs)")
        ->type_name("NP")
        ->check(CLI::Range(1, topology::kMostRanks).description(""));
    app.add_option("--bind", lists.bind, "what each rank is bound to: PUs as 0-5,48-53, or - for not bound")
        ->type_name("LIST");
    app.add_option("--visible", lists.visible, "the GPUs that each rank sees: their places in PCI order as 2,3, or all")
        ->type_name("LIST");
    app.add_option("--format", format, "text, json, or svg (a picture)")
        ->type_name("WORD")
        ->check(CLI::IsMember({"text", "json", "svg"}).description(""));
    app.footer(kTopoNotes);
    if (const auto status = read_arguments(app, arguments))
        return *status;
    Node node;
    if (const std::string problem = topology::read_machine(xml, node.machine); !problem.empty())
        return refuse(app, problem, kProblem);
    if (xml.empty())
        take_driver(node, lists);
    if (const std::string problem = topology::add_ranks(lists, node.machine, node.facts); !problem.empty())
        return refuse(app, problem, kUsage);
    node.choices = topology::choose(node.facts);
    node.shares = topology::share_out(node.facts, node.choices);
    std::fputs((format == "json"  ? node_as_json(node)
                : format == "svg" ? node_as_svg(node)
                                  : node_as_text(node))
                   .c_str(),
               stdout);
    return kDone;
}

}  // namespace swy::cli
