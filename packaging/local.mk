# Recipes for packages: debian/ for Debian's, spack/, conda/ and easybuild/ for theirs, wheel/ for pip. docs/building.md shows how they are used.
EXTRA_DIST += debian/README.source debian/changelog debian/control debian/copyright debian/libswitchyard-dev.install \
    debian/libswitchyard1.install debian/rules debian/source/format debian/source/options debian/switchyard.docs \
    debian/switchyard.install debian/tests/control debian/tests/installed \
    packaging/conda/recipe.yaml.in packaging/conda/variants.yaml packaging/easybuild/switchyard.eb.in packaging/recipes spack-repo-index.yaml \
    packaging/spack/spack_repo/switchyard/repo.yaml \
    packaging/spack/spack_repo/switchyard/packages/switchyard/package.py \
    packaging/wheel/build packaging/cmake/SwitchyardConfigVersion.cmake.in packaging/modulefile.in \
    packaging/Dockerfile packaging/apptainer.def packaging/site/build packaging/site/conf.py

# CMake's find_package(Switchyard), beside pkg-config's file.
cmakedir = $(libdir)/cmake/Switchyard
dist_cmake_DATA = packaging/cmake/SwitchyardConfig.cmake
nodist_cmake_DATA = packaging/cmake/SwitchyardConfigVersion.cmake
packaging/cmake/SwitchyardConfigVersion.cmake: packaging/cmake/SwitchyardConfigVersion.cmake.in install_folders
	$(AM_V_GEN)$(MKDIR_P) packaging/cmake && $(in_folders) \
	    $(top_srcdir)/packaging/cmake/SwitchyardConfigVersion.cmake.in >$@.tmp && mv $@.tmp $@
CLEANFILES += packaging/cmake/SwitchyardConfigVersion.cmake

# A modulefile, for Environment Modules and Lmod. Its file is called as the version, as they want it.
modulefiledir = $(datadir)/switchyard/modulefiles/switchyard
nodist_modulefile_DATA = packaging/modulefiles/$(PACKAGE_VERSION)
packaging/modulefiles/$(PACKAGE_VERSION): packaging/modulefile.in install_folders
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(in_folders) $(top_srcdir)/packaging/modulefile.in >$@.tmp && mv $@.tmp $@
CLEANFILES += packaging/modulefiles/$(PACKAGE_VERSION)

# A wheel for pip, wheel/*.whl. WHEEL_LICENCES names a folder with the licences of hwloc, fmt, CLI11 and nlohmann-json where
# they are not where Debian has them.
WHEEL_LICENCES =
.PHONY: wheel
wheel: all
	@rm -rf wheel/installed && $(MAKE) $(AM_MAKEFLAGS) install DESTDIR='$(abs_builddir)/wheel/installed' >/dev/null
	@$(PYTHON3) $(top_srcdir)/packaging/wheel/build --installed 'wheel/installed$(prefix)' --version $(PACKAGE_VERSION) \
	    --source $(top_srcdir) --output wheel --licences '$(WHEEL_LICENCES)'

# The recipes of this release, recipes/*, with the checksum of the archive that make dist makes. RECIPES_FROM is the address of
# the folder that users fetch it from.
RECIPES_FROM = file://$(abs_builddir)
.PHONY: recipes
recipes: dist
	@$(PYTHON3) $(top_srcdir)/packaging/recipes --archive $(distdir).tar.xz --version $(PACKAGE_VERSION) \
	    --from '$(RECIPES_FROM)' --source $(top_srcdir) --output recipes

# The documents as a site, site/html.
.PHONY: site
site: $(nodist_man_MANS)
	@$(PYTHON3) $(top_srcdir)/packaging/site/build --source $(top_srcdir) --manual man --output site
clean-local:
	rm -rf wheel site recipes
