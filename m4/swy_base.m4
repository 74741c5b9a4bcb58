# The frame of configure's checks: missing parts are collected and told all at once, found parts end in a table.

# SWY_MISSING(WHAT, DEBIAN-PACKAGE): notes a required part that is not there. The package is empty where Debian has none.
AC_DEFUN([SWY_MISSING],[
  swy_missing="$swy_missing
    - $1"
  swy_packages="$swy_packages $2"
])

# SWY_REPORT_MISSING: ends configure when a required part is not there.
AC_DEFUN([SWY_REPORT_MISSING],[
  AS_IF([test -n "$swy_missing"],[
    swy_packages=`echo " $swy_packages" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/ *$//'`
    AS_IF([test -n "$swy_packages"],[swy_missing="$swy_missing
  On Debian: apt-get install$swy_packages"])
    AC_MSG_ERROR([required parts are missing:$swy_missing])
  ])
])

# SWY_FOUND(LABEL, TEXT): one line of the closing table.
AC_DEFUN([SWY_FOUND],[
  swy_table="$swy_table
$(printf '  %-16s %s' "$1" "$2")"
])

AC_DEFUN([SWY_SUMMARY],[
  cat <<SWY_END

switchyard $PACKAGE_VERSION is configured:
$swy_table
$(printf '  %-16s %s' 'install to' "$prefix")

Next: make -j2 && make install    (make check runs the tests)
SWY_END
])
