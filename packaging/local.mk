# Recipes for packages: debian/ for Debian's, spack/ for Spack's, wheel/ for pip. docs/building.md shows how they are used.
EXTRA_DIST += debian/README.source debian/changelog debian/control debian/copyright debian/libswitchyard-dev.install \
    debian/libswitchyard1.install debian/rules debian/source/format debian/source/options debian/switchyard.docs \
    debian/switchyard.install debian/tests/control debian/tests/installed \
    packaging/spack/spack_repo/switchyard/repo.yaml \
    packaging/spack/spack_repo/switchyard/packages/switchyard/package.py \
    packaging/wheel/build

# A wheel for pip, wheel/*.whl. WHEEL_LICENCES names a folder with the licences of hwloc, fmt, CLI11 and nlohmann-json where
# they are not where Debian has them.
WHEEL_LICENCES =
.PHONY: wheel
wheel: all
	@rm -rf wheel/installed && $(MAKE) $(AM_MAKEFLAGS) install DESTDIR='$(abs_builddir)/wheel/installed' >/dev/null
	@$(PYTHON3) $(top_srcdir)/packaging/wheel/build --installed 'wheel/installed$(prefix)' --version $(PACKAGE_VERSION) \
	    --source $(top_srcdir) --output wheel --licences '$(WHEEL_LICENCES)'
clean-local:
	rm -rf wheel
