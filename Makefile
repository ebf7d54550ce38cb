# snowflake: 64-bit, time-ordered, globally unique IDs for PostgreSQL
#
#   make && sudo make install      build and install for the server of pg_config
#   scripts/test.sh                run all tests on a throwaway server
#   make fuzz                      build the fuzz target, see t/fuzz.c
#   make dist                      the last commit as an archive for PGXN

MODULE_big = snowflake
OBJS = \
	src/alarm.o \
	src/backfill.o \
	src/check.o \
	src/check_segments.o \
	src/check_tables.o \
	src/clock.o \
	src/codec.o \
	src/convert.o \
	src/ddl.o \
	src/dialect.o \
	src/explain.o \
	src/funcs.o \
	src/generator.o \
	src/home.o \
	src/key.o \
	src/key_formats.o \
	src/key_funcs.o \
	src/layout.o \
	src/lease.o \
	src/lifetime.o \
	src/link.o \
	src/module.o \
	src/partitions.o \
	src/pgedge.o \
	src/ranges.o \
	src/reading.o \
	src/registry.o \
	src/reserve.o \
	src/segment.o \
	src/segment_command.o \
	src/segment_fetch.o \
	src/segment_funcs.o \
	src/settings.o \
	src/shmem.o \
	src/slots.o \
	src/stats.o \
	src/steps.o \
	src/support.o \
	src/utf8.o \
	src/waits.o \
	src/worker.o

EXTENSION = snowflake snowflake_home snowflake_registry snowflake_segments
DATA = snowflake--1.0.sql snowflake_home--1.0.sql snowflake_registry--1.0.sql snowflake_segments--1.0.sql
PGFILEDESC = "snowflake - time-ordered unique IDs"

SHLIB_LINK_INTERNAL = $(libpq)

REGRESS = setup nextval statements parse check dialects explain codec keys ranges partitions convert settings stats backfill mark registry segments_registry segments
ISOLATION = sessions segment_race key_formats
ISOLATION_OPTS = --load-extension=snowflake
TAP_TESTS = 1

EXTRA_CLEAN = fuzz

# What the library says of itself is the version of its script.
PG_CPPFLAGS = -I$(libpq_srcdir) \
	-DSNOWFLAKE_VERSION='"$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" snowflake.control)"'

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# What the TAP tests share is beside them.
PROVE_FLAGS += -I t

# Headers are not in PGXS's own dependencies.
$(OBJS): $(wildcard src/*.h)
src/check.o: snowflake.control

# What is pure C, for libFuzzer.  Not position independent: at some addresses
# that Linux may choose, the address sanitizer of clang before 17 cannot start.
FUZZED = src/codec.c src/dialect.c src/key.c src/layout.c

fuzz: t/fuzz.c $(FUZZED) $(wildcard src/*.h)
	$(or $(CLANG),clang) -std=gnu11 -g -O1 -Wall -Wextra -no-pie \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-I src -o $@ t/fuzz.c $(FUZZED)

# Of the version that META.json says
DIST = snowflake-$(shell sed -n 's/^   "version": "\(.*\)",/\1/p' META.json)

dist:
	git archive --format=zip --prefix=$(DIST)/ -o $(DIST).zip HEAD

.PHONY: dist

# For scripts: the value of a variable.
print-%:
	@echo $($*)
