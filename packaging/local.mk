# Recipes for packages: debian/ for Debian's, spack/ for Spack's. docs/building.md shows how they are used.
EXTRA_DIST += debian/README.source debian/changelog debian/control debian/copyright debian/libswitchyard-dev.install \
    debian/libswitchyard1.install debian/rules debian/source/format debian/source/options debian/switchyard.docs \
    debian/switchyard.install debian/tests/control debian/tests/installed \
    packaging/spack/spack_repo/switchyard/repo.yaml \
    packaging/spack/spack_repo/switchyard/packages/switchyard/package.py
