/*-------------------------------------------------------------------------
 *
 * worker.c
 *		The background worker: connect to the home database, sleep until
 *		something is asked for, do it.
 *
 * It sleeps without a timeout, so an idle server does not wake up.  An error
 * is left in shared memory for sessions that wait, and the worker goes on
 * RETRY_S seconds later if something is asked for then.
 *
 * It ends when it cannot connect, is told to, or has failed RECONNECT_AFTER
 * times in a row, since settings of the database count from connecting on.
 * The postmaster starts it again RETRY_S seconds later.  Its first start in the
 * life of the server reads the mark at once; later ones wait until something
 * is asked for before they connect, so that a home database that cannot be
 * reached does not fill the log of an idle server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/pidfile.h"
#include "utils/wait_event.h"

#include "alarm.h"
#include "backfill.h"
#include "clock.h"
#include "compat.h"
#include "home.h"
#include "lease.h"
#include "lease_fetch.h"
#include "mark.h"
#include "registry_link.h"
#include "segment.h"
#include "settings.h"
#include "shmem.h"
#include "waits.h"
#include "worker.h"

#define WORKER_NAME	"snowflake mark writer"
#define RETRY_S		1
#define RECONNECT_AFTER	60

PGDLLEXPORT void snowflake_worker_main(Datum arg);

/* What is asked of the registry. */
static RegistryLink *const links[] = {&lease_link, &segment_link};

static emit_log_hook_type prev_emit_log_hook = NULL;

/* At work for segments, whose errors are not those of the mark. */
static bool serving_segments = false;

/* Told to end, and not ending because of an error. */
static volatile sig_atomic_t terminated = false;

/*
 * The file that this code was loaded from.  By its name alone the server would
 * find the first one in dynamic_library_path, which may be another copy.
 *
 * There is little room for it before 17, so there it may be shortened by the
 * server's own folder.
 */
static void
set_library(BackgroundWorker *worker)
{
	char	   *name = worker->bgw_library_name;
	int			room = sizeof(worker->bgw_library_name);
	size_t		folder = strlen(pkglib_path);
	Dl_info		me;

	if (dladdr((void *) worker_register, &me) == 0)
		elog(ERROR, "could not find the file of the library");
	if (strlcpy(name, me.dli_fname, room) < room)
		return;
	if (strncmp(me.dli_fname, pkglib_path, folder) == 0 &&
		snprintf(name, room, "$libdir%s", me.dli_fname + folder) < room)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("path of library is too long: \"%s\"", me.dli_fname),
			 errdetail("A background worker of this server version can have a library whose path has at most %d bytes.",
					   room - 1),
			 errhint("Move it to a folder with a shorter path.")));
}

void
worker_register(void)
{
	BackgroundWorker worker = {0};

	strlcpy(worker.bgw_name, WORKER_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_type, WORKER_NAME, BGW_MAXLEN);
	set_library(&worker);
	strlcpy(worker.bgw_function_name, "snowflake_worker_main",
			sizeof(worker.bgw_function_name));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RETRY_S;
	RegisterBackgroundWorker(&worker);
}

/*
 * Leave the reason of a failure for sessions that wait, and keep it out of
 * the log if it is the same again.
 *
 * That it was told to end is no failure.
 */
static void
note_error(ErrorData *edata)
{
	uint64		left_out;

	if (edata->elevel < ERROR || edata->message == NULL ||
		edata->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		return;
	if (serving_segments)
		edata->output_to_server = alarm_is_due(ALARM_SEGMENT, &left_out);
	else
	{
		bool		is_new = mark_note_error(edata);

		if (!alarm_is_due(ALARM_WORKER, &left_out) && !is_new)
			edata->output_to_server = false;
	}
}

/*
 * By way of the log's hook, as an error when connecting cannot be caught.
 */
static void
before_log(ErrorData *edata)
{
	note_error(edata);
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
}

/*
 * Is the server shutting down, or is it the worker alone that has to end?
 * The postmaster says so in its file, for pg_ctl.
 */
static bool
server_is_stopping(void)
{
	char		line[MAXPGPATH];
	bool		stopping = false;
	FILE	   *file = AllocateFile("postmaster.pid", "r");

	if (file == NULL)
		return false;
	for (int i = 1; fgets(line, sizeof(line), file) != NULL; i++)
	{
		if (i == LOCK_FILE_LINE_PM_STATUS)
			stopping = strncmp(line, PM_STATUS_STOPPING,
							   strlen(PM_STATUS_STOPPING)) == 0;
	}
	FreeFile(file);
	return stopping;
}

static void
retire(int code, Datum arg)
{
	pg_atomic_write_u32(&shared->mark.worker, (uint32) -1);
}

/*
 * Only when the server needs the worker no more.  With an error the worker
 * may come back, even in a shutdown that waits for its clients.
 */
static void
close_mark(int code, Datum arg)
{
	if (terminated && server_is_stopping())
	{
		lease_remember_at_exit();
		mark_close();
	}
}

/*
 * After that, as an error here ends the worker.
 */
static void
keep_segments(int code, Datum arg)
{
	if (terminated && server_is_stopping())
		segment_keep_at_exit();
}

static void
terminate(SIGNAL_ARGS)
{
	terminated = true;
	die(SIGNAL_ARGS_PASSED);
}

static bool
links_are_used(void)
{
	for (int i = 0; i < (int) lengthof(links); i++)
	{
		if (links[i]->client->is_used())
			return true;
	}
	return false;
}

/*
 * Wait until the latch is set, something has come from the registry, or for a
 * while, in ms, -1 for ever.
 *
 * The sockets are others with each connection, so the set is made each time.
 */
static void
wait_for_events(long timeout_ms)
{
	WaitEvent	events[lengthof(links) + 1];
	WaitEventSet *set = CreateWaitEventSet(NULL, lengthof(links) + 2);
	int			n;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < (int) lengthof(links); i++)
	{
		LinkWait	wait;

		registry_link_wait(links[i], &wait);
		if (wait.socket != PGINVALID_SOCKET)
			AddWaitEventToSet(set, wait.events, wait.socket, NULL, links[i]);
		if (wait.timeout_ms >= 0 && (timeout_ms < 0 || wait.timeout_ms < timeout_ms))
			timeout_ms = wait.timeout_ms;
	}

	n = WaitEventSetWait(set, timeout_ms, events, lengthof(events),
						 wait_event_worker());
	FreeWaitEventSet(set);
	for (int i = 0; i < n; i++)
	{
		if (events[i].events & WL_SOCKET_MASK)
			registry_link_is_ready(events[i].user_data);
	}
}

/*
 * Sleep until there is something to do, or for a while, and do what every
 * process has to.
 */
static void
sleep_and_check(long timeout_ms)
{
	wait_for_events(timeout_ms);
	ResetLatch(MyLatch);

	/* first, as a shutdown that was requested after it is to handle it */
	if (ConfigReloadPending)
	{
		char	   *registry = pstrdup(snowflake_registry);

		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		if (strcmp(registry, snowflake_registry) != 0)
		{
			for (int i = 0; i < (int) lengthof(links); i++)
				registry_link_reset(links[i]);
		}
		pfree(registry);
	}

	/* quietly, where it is nothing to tell of */
	if (ProcDiePending && server_is_stopping())
		proc_exit(0);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Whatever is set for the database or the role, these the mark depends on.
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"synchronous_commit", "on"},
		{"timezone", "UTC"},	/* what is recorded is compared as text */
		{"default_transaction_read_only", "off"},
		{"search_path", "pg_catalog, pg_temp"},
		{"lock_timeout", "0"},
		{"statement_timeout", "0"},
		{"transaction_timeout", "0"}	/* from 17 on */
	};

	for (int i = 0; i < (int) lengthof(settings); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1],
							PGC_SUSET, PGC_S_OVERRIDE);
	}
}

/*
 * Do something.  Where that fails, say so and leave things as they were.
 * Returns whether it did not.
 */
static bool
attempt(void (*task) (void *), void *arg)
{
	volatile bool done = false;

	PG_TRY();
	{
		task(arg);
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);

		/*
		 * what log_min_messages keeps out of the log does not come to its
		 * hook
		 */
		edata = CopyErrorData();
		if (!edata->output_to_server)
			note_error(edata);
		FreeErrorData(edata);
		EmitErrorReport();
		AbortOutOfAnyTransaction();
		LWLockReleaseAll();
		FlushErrorState();
		home_idle();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	return done;
}

static void
serve_mark(void *arg)
{
	mark_serve();
	backfill_serve();
}

static void
serve_segments(void *arg)
{
	segment_serve_at_home();
}

static void
serve_link(void *link)
{
	registry_link_serve(link);
}

void
snowflake_worker_main(Datum arg)
{
	Mark	   *state = &shared->mark;
	MemoryContext context;
	bool		is_asked = true;	/* to read the mark at the start */
	int			failures = 0;	/* in a row */
	int64		retry_at = 0;	/* on the steady clock */

	/*
	 * No cancelling: a commit whose wait for a synchronous standby was
	 * cancelled looks like any other.
	 */
	pqsignal(SIGINT, PG_SIG_IGN);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, terminate);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(retire, (Datum) 0);
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = before_log;
	pg_atomic_write_u32(&state->worker, (uint32) MyProcNumber);
	pg_memory_barrier();

	while (state->started && !mark_is_asked() && !links_are_used() &&
		   segment_due_at_home() == PG_INT64_MAX)
		sleep_and_check(-1);
	state->started = true;

	BackgroundWorkerInitializeConnection(snowflake_database, NULL, 0);
	override_settings();
	before_shmem_exit(keep_segments, (Datum) 0);
	before_shmem_exit(close_mark, (Datum) 0);
	segment_begin();
	home_idle();
	context = AllocSetContextCreate(TopMemoryContext, "snowflake mark writer",
									ALLOCSET_DEFAULT_SIZES);

	/*
	 * Look whether something is asked for before each sleep: the latch may
	 * have been reset in the wait for a lock or a standby.
	 */
	for (;;)
	{
		long		pause = -1;
		int64		due;

		if (is_asked && clock_read_steady() >= retry_at)
		{
			MemoryContextSwitchTo(context);
			if (attempt(serve_mark, NULL))
				failures = 0;
			else if (++failures >= RECONNECT_AFTER)
				proc_exit(1);
			else
				retry_at = clock_read_steady() + RETRY_S * USECS_PER_SEC;
		}

		if (segment_due_at_home() <= clock_read_steady())
		{
			MemoryContextSwitchTo(context);
			serving_segments = true;
			(void) attempt(serve_segments, NULL);
			serving_segments = false;
		}

		for (int i = 0; i < (int) lengthof(links); i++)
		{
			MemoryContextSwitchTo(context);
			if (!attempt(serve_link, links[i]))
				registry_link_pause(links[i]);
		}
		MemoryContextReset(context);

		due = segment_due_at_home();
		is_asked = mark_is_asked();
		if (is_asked)
			due = Min(due, retry_at);
		if (due != PG_INT64_MAX)
			pause = (long) Max((due - clock_read_steady() + 999) / 1000, 0);
		if (pause != 0)
			sleep_and_check(pause);
		is_asked = mark_is_asked();
	}
}
