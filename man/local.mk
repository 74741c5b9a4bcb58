# Manual pages. switchyard(7) gets its tables of settings and reasons from the program while building.
dist_man_MANS += man/switchyard.1 man/switchyard-doctor.1 man/switchyard-info.1 man/switchyard-report.1 man/switchyard-run.1 man/switchyard-status.1 man/switchyard-topo.1 \
    man/switchyard-tune.1 \
    man/swycc.1 man/vgpu.7 \
    man/MPIX_Allreduce_multi.3 man/MPIX_Send_multi.3 \
    man/MPIX_AVG.3 man/MPIX_Allreduce_enqueue.3 man/MPIX_Comm_from_name.3 man/MPIX_Device_suggest.3 man/MPIX_FLOAT16.3 man/MPIX_Send_enqueue.3 man/MPIX_Send_message.3 man/MPIX_Stream_create.3
nodist_man_MANS += man/switchyard.7 man/switchyard-routes.7
EXTRA_DIST += man/switchyard.7.in
CLEANFILES += man/switchyard.7 man/switchyard-routes.7

# Only written when its text changes: hence the touch.
man/switchyard-routes.7: $(GENERATOR) $(CALL_TABLE)
	@$(MKDIR_P) man
	$(AM_V_GEN)$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --manual $@ && touch $@

man/switchyard.7: man/switchyard.7.in switchyard$(EXEEXT)
	@$(MKDIR_P) man
	$(AM_V_GEN)$(EMULATOR) ./switchyard settings --roff >$@.settings && $(EMULATOR) ./switchyard settings --roff-reasons >$@.reasons && \
	sed -e '/^@SETTINGS@$$/{r $@.settings' -e 'd;}' -e '/^@REASONS@$$/{r $@.reasons' -e 'd;}' $(srcdir)/man/switchyard.7.in >$@.tmp && \
	rm -f $@.settings $@.reasons && mv $@.tmp $@

# The three wrappers have one page. Taken away again by uninstall-hook.
install-data-hook:
	cd '$(DESTDIR)$(man1dir)' && ln -sf swycc.1 swycxx.1 && ln -sf swycc.1 swyfort.1
