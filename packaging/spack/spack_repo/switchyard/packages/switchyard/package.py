# Spack's recipe, for Spack 1.0 and newer. docs/building.md shows its use. From a clone of Switchyard:
#   spack repo add packaging/spack/spack_repo/switchyard
#   spack install switchyard
import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Switchyard(AutotoolsPackage):
    """MPI on GPU memory over NCCL, without changing the program: calls on device memory go over NCCL, calls on host
    memory to a stock Open MPI, untouched."""

    # The clone that this recipe lies in: what is committed there on branch main is built. The recipe that `make recipes`
    # writes has a release's archive instead.
    git = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))
    executables = ["^switchyard$"]

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("kernels", default=True, description="Compile the kernels for GPUs (by CUDA's nvcc)")
    variant("fortran", default=True, description="Bring swyfort, the compiler wrapper for Fortran")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("autoconf@2.71:", type="build", when="@main")
    depends_on("automake@1.16:", type="build", when="@main")
    depends_on("libtool", type="build", when="@main")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("cli11", type="build")
    depends_on("fmt", type="build")
    depends_on("nlohmann-json", type="build")

    depends_on("openmpi@4.1:5")
    depends_on("hwloc@2")
    # Of CUDA the headers alone: the driver and NCCL are loaded while programs run, those of Spack or others.
    depends_on("cuda@12.2:", type=("build", "run"))
    depends_on("nccl@2.18:", type="run")

    conflicts("%gcc@:11", msg="Switchyard is written in C++20: GCC 12 or newer")
    conflicts("%clang@:13", msg="Switchyard is written in C++20: clang 14 or newer")
    conflicts("platform=darwin", msg="Switchyard needs Linux")

    @classmethod
    def determine_version(cls, exe):
        words = Executable(exe)("--version", output=str, error=str).split()
        return words[1] if len(words) > 1 else None

    def autoreconf(self, spec, prefix):
        Executable("./bootstrap")()

    def configure_args(self):
        wrappers = self.spec["openmpi"].prefix.bin
        args = [
            f"MPICC={wrappers.mpicc}",
            f"MPICXX={wrappers.mpicxx}",
            f"MPIRUN={wrappers.mpirun}",
            f"--with-cuda={self.spec['cuda'].prefix}",
        ]
        args.append(f"MPIFORT={wrappers.mpifort}" if self.spec.satisfies("+fortran") else "MPIFORT=/bin/false")
        if not self.spec.satisfies("+kernels"):
            args.append("NVCC=/bin/false")
        return args

    # NCCL is loaded by its name. Behind what is there already: the virtual GPUs' stands in front.
    def setup_run_environment(self, env):
        env.append_path("LD_LIBRARY_PATH", self.spec["nccl"].prefix.lib)

    # With spack install --test=root. The project's own tests (make check) take an hour and more packages.
    def check(self):
        with working_dir(self.build_directory):
            self.try_out(Executable("./switchyard"))

    # With spack test run.
    def test_doctor(self):
        """two ranks on virtual GPUs exchange and sum device memory"""
        self.try_out(Executable(self.prefix.bin.switchyard))

    def try_out(self, command):
        mpirun = self.spec["openmpi"].prefix.bin.mpirun
        command("doctor", "--virtual-gpus", "2", "--mpirun", mpirun, "--timeout", "300")
