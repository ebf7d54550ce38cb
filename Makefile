# snowflake: 64-bit, time-ordered, globally unique IDs for PostgreSQL
#
#   make && sudo make install      build and install for the server of pg_config
#   scripts/test.sh                run the tests on a throwaway server
#   make installcheck              run them on servers of the installed version
#   make fuzz                      build the fuzz target, see t/fuzz/fuzz.c
#   make image                     lay the files out for a container image that has
#                                  nothing else, see packaging/Containerfile
#   make dist                      the last commit as an archive for PGXN

MODULE_big = snowflake
# All of src/, sorted, as the order of linking must not be that of a folder
OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/src/*.c)))

EXTENSION = snowflake snowflake_home snowflake_registry

# The install scripts of this version are put together from files of one subject
# each, in this order.  Those of older ones are committed whole, for the tests.
SUBJECTS = drawing reading explain periods partitions convert segments keys dump statistics check running
REGISTRY_SUBJECTS = place nodes segments
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(srcdir)/snowflake.control)
DATA = $(patsubst $(srcdir)/%,%,$(sort $(wildcard $(srcdir)/install/*--*--*.sql)))
DATA_built = $(EXTENSION:%=%--$(EXTVERSION).sql)
PGFILEDESC = "snowflake - time-ordered unique IDs"

SHLIB_LINK_INTERNAL = $(libpq)

REGRESS = setup nextval statements parse horizon check dialects explain codec keys ranges partitions convert citus settings stats backfill mark registry nodes segments_registry segments_state segments
ISOLATION = sessions segment_race key_formats
ISOLATION_OPTS = --load-extension=snowflake
TAP_TESTS = 1

# also of files that are gone, and of other versions
EXTRA_CLEAN = fuzz image src/*.[do] src/*.bc src/*.gc* *.gcov snowflake*--*.sql

# What the library says of itself is the version of its script.
PG_CFLAGS = -MMD -MP
PG_CPPFLAGS = -I$(libpq_srcdir) \
	-DSNOWFLAKE_VERSION='"$(EXTVERSION)"'

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

snowflake--$(EXTVERSION).sql: $(SUBJECTS:%=install/%.sql) install/names.sql install/rights.sql install/grants.sql
snowflake_home--$(EXTVERSION).sql: install/snowflake_home.sql install/names.sql install/rights.sql
snowflake_registry--$(EXTVERSION).sql: $(REGISTRY_SUBJECTS:%=install/registry_%.sql) \
	install/names.sql install/rights.sql install/registry_grants.sql

$(DATA_built):
	@{ printf '%s\n' '/* $@ */' '' \
		'-- complain if script is sourced in psql, rather than via CREATE EXTENSION' \
		'\echo Use "CREATE EXTENSION $(@:%--$(EXTVERSION).sql=%)" to load this file. \quit'; \
		for file in $^; do echo; cat $$file; done; } | \
		sed 's/@extension@/$(@:%--$(EXTVERSION).sql=%)/' >$@

# What the TAP tests share
PROVE_FLAGS += -I t/lib

# Which headers an object is made of, the compiler writes beside it.
-include $(OBJS:.o=.d)
$(OBJS:.o=.bc): %.bc: %.o
src/check.o: snowflake.control

# Objects go into a folder, which a build elsewhere than here (VPATH) has to make;
# its whole path, as else the one here would be found.
$(OBJS): | $(CURDIR)/src
$(CURDIR)/src:
	mkdir $@

# What is pure C, for libFuzzer.  Not position independent: at some addresses
# that Linux may choose, the address sanitizer of clang before 17 cannot start.
FUZZED = src/codec.c src/dialect.c src/key.c src/layout.c

fuzz: t/fuzz/fuzz.c $(FUZZED) $(wildcard src/*.h)
	$(or $(CLANG),clang) -std=gnu11 -g -O1 -Wall -Wextra -no-pie \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-I src -o $@ t/fuzz/fuzz.c $(FUZZED)

# The folders that CloudNativePG expects; of the Debian package $(DEB), if that is
# given.  A server has no use for bitcode that is not in its own folder.
image: $(if $(DEB),,all)
	rm -rf $@
ifdef DEB
	mkdir -p $@/share $@/licenses
	dpkg-deb -x $(DEB) $@/deb
	rm -r $@/deb/usr/lib/postgresql/*/lib/bitcode
	mv $@/deb/usr/lib/postgresql/*/lib $@/
	mv $@/deb/usr/share/postgresql/*/extension $@/share/
	mv $@/deb/usr/share/doc/*/copyright $@/licenses/snowflake
	rm -r $@/deb
else
	$(MAKE) install with_llvm=no DESTDIR= pkglibdir=$(CURDIR)/$@/lib datadir=$(CURDIR)/$@/share
	$(INSTALL_DATA) -D $(srcdir)/LICENSE $@/licenses/snowflake
endif
	chmod -R a+rX $@

.PHONY: image

# Of the version that META.json says
DIST = snowflake-$(shell sed -n 's/^   "version": "\(.*\)",/\1/p' META.json)

dist:
	git archive --format=zip --prefix=$(DIST)/ -o $(DIST).zip HEAD

.PHONY: dist

# For scripts: the value of a variable.
print-%:
	@echo $($*)
