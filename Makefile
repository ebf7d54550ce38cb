# snowflake: 64-bit, time-ordered, globally unique IDs for PostgreSQL
#
#   make && sudo make install      build and install for the server of pg_config
#   scripts/test.sh                run the tests on a throwaway server
#   make installcheck              run them on servers of the installed version
#   make fuzz                      build the fuzz target, see t/fuzz/fuzz.c
#   make dist                      the last commit as an archive for PGXN

MODULE_big = snowflake
OBJS = \
	src/alarm.o \
	src/backfill.o \
	src/check.o \
	src/check_replication.o \
	src/check_rows.o \
	src/check_segments.o \
	src/check_standby.o \
	src/check_tables.o \
	src/citus.o \
	src/clock.o \
	src/clock_steps.o \
	src/codec.o \
	src/codec_funcs.o \
	src/compose_funcs.o \
	src/convert_funcs.o \
	src/copy_default.o \
	src/ddl.o \
	src/dialect.o \
	src/explain.o \
	src/generator.o \
	src/generator_funcs.o \
	src/home.o \
	src/home_guard.o \
	src/instance.o \
	src/key.o \
	src/key_formats.o \
	src/key_funcs.o \
	src/layout.o \
	src/layout_funcs.o \
	src/lease.o \
	src/lease_fetch.o \
	src/lifetime.o \
	src/mark.o \
	src/mark_funcs.o \
	src/mark_writer.o \
	src/module.o \
	src/parse.o \
	src/partition_bounds.o \
	src/partition_steps.o \
	src/partitions.o \
	src/pgedge.o \
	src/preload.o \
	src/progress.o \
	src/ranges.o \
	src/ranges_support.o \
	src/record.o \
	src/registry_link.o \
	src/segment.o \
	src/segment_command.o \
	src/segment_fetch.o \
	src/segment_funcs.o \
	src/segment_home.o \
	src/segment_keep.o \
	src/segment_registry.o \
	src/segment_request.o \
	src/services.o \
	src/settings.o \
	src/settings_file.o \
	src/shmem.o \
	src/slots.o \
	src/stats.o \
	src/utf8.o \
	src/waits.o \
	src/worker.o

EXTENSION = snowflake snowflake_home snowflake_nodes snowflake_segments

# Install scripts of released versions are committed whole.  That of the version
# under way is put together from files of one subject each, in this order.
SUBJECTS = drawing reading periods partitions convert segments keys dump statistics running
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(srcdir)/snowflake.control)
DATA = $(wildcard $(srcdir)/install/*--*.sql)
DATA_built = $(filter-out $(notdir $(DATA)), $(EXTENSION:%=%--$(EXTVERSION).sql))
PGFILEDESC = "snowflake - time-ordered unique IDs"

SHLIB_LINK_INTERNAL = $(libpq)

REGRESS = setup nextval statements parse check dialects explain codec keys ranges partitions convert citus settings stats backfill mark registry nodes segments_registry segments_state segments
ISOLATION = sessions segment_race key_formats
ISOLATION_OPTS = --load-extension=snowflake
TAP_TESTS = 1

EXTRA_CLEAN = fuzz $(OBJS:.o=.d)

# What the library says of itself is the version of its script.
PG_CFLAGS = -MMD -MP
PG_CPPFLAGS = -I$(libpq_srcdir) \
	-DSNOWFLAKE_VERSION='"$(EXTVERSION)"'

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

snowflake--$(EXTVERSION).sql: $(SUBJECTS:%=install/%.sql)
$(filter-out snowflake--%, $(DATA_built)): %--$(EXTVERSION).sql: install/%.sql

$(DATA_built):
	@echo "install/*.sql -> $@"
	@{ printf '%s\n' '/* $@ */' '' \
		'-- complain if script is sourced in psql, rather than via CREATE EXTENSION' \
		'\echo Use "CREATE EXTENSION $(@:%--$(EXTVERSION).sql=%)" to load this file. \quit'; \
		for file in $^; do echo; cat $$file; done; } >$@

# What the TAP tests share
PROVE_FLAGS += -I t/lib

# Which headers an object is made of, the compiler writes beside it.
-include $(OBJS:.o=.d)
$(OBJS:.o=.bc): %.bc: %.o
src/check.o: snowflake.control

# What is pure C, for libFuzzer.  Not position independent: at some addresses
# that Linux may choose, the address sanitizer of clang before 17 cannot start.
FUZZED = src/codec.c src/dialect.c src/key.c src/layout.c

fuzz: t/fuzz/fuzz.c $(FUZZED) $(wildcard src/*.h)
	$(or $(CLANG),clang) -std=gnu11 -g -O1 -Wall -Wextra -no-pie \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-I src -o $@ t/fuzz/fuzz.c $(FUZZED)

# Of the version that META.json says
DIST = snowflake-$(shell sed -n 's/^   "version": "\(.*\)",/\1/p' META.json)

dist:
	git archive --format=zip --prefix=$(DIST)/ -o $(DIST).zip HEAD

.PHONY: dist

# For scripts: the value of a variable.
print-%:
	@echo $($*)
