# swycc, swycxx and swyfort: one script, three names.
bin_SCRIPTS += src/wrappers/swycc src/wrappers/swycxx
if HAVE_FORTRAN
bin_SCRIPTS += src/wrappers/swyfort
endif
EXTRA_DIST += src/wrappers/wrapper.sh.in
CLEANFILES += src/wrappers/swycc src/wrappers/swycxx src/wrappers/swyfort

make_wrapper = $(MKDIR_P) src/wrappers && $(in_folders) -e 's|@name[@]|$(@F)|g' $(wrapper_is) \
    $(top_srcdir)/src/wrappers/wrapper.sh.in >$@.tmp && chmod +x $@.tmp && mv $@.tmp $@

src/wrappers/swycc: wrapper_is = -e 's|@wraps[@]|mpicc|g;s|@wrapper[@]|$(MPICC)|g'
src/wrappers/swycxx: wrapper_is = -e 's|@wraps[@]|mpicxx|g;s|@wrapper[@]|$(MPICXX)|g'
src/wrappers/swyfort: wrapper_is = -e 's|@wraps[@]|mpifort|g;s|@wrapper[@]|$(MPIFORT)|g'
src/wrappers/swycc src/wrappers/swycxx src/wrappers/swyfort: src/wrappers/wrapper.sh.in install_folders
	$(AM_V_GEN)$(make_wrapper)
