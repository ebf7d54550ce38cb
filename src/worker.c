/*-------------------------------------------------------------------------
 *
 * worker.c
 *		What the two background workers share.
 *
 * A worker sleeps until somebody asks for something, without a timeout if
 * nothing is due, so an idle server does not wake up.  It notes an error in
 * shared memory for the sessions that wait, and tries again when one of them
 * asks again, so it does nothing for sessions that gave up.
 *
 * A worker that cannot connect to the home database ends, as PostgreSQL does
 * not let it try again, and is started again by the postmaster.  That it has
 * begun to connect is in shared memory, so the next start knows.
 *
 * Locking: see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/guc.h"
#include "utils/pidfile.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "compat.h"
#include "home.h"
#include "settings.h"
#include "utf8.h"
#include "waits.h"
#include "worker.h"

#define RESTART_S	1

/* It should have been started by then, when there is something to do. */
#define START_S		3

/* A worker that has not reacted for so long is not just busy. */
#define REACTS_US	(2 * USECS_PER_SEC)

/* After it could not connect, which is a line in the log each time. */
#define RECONNECT_S	5

volatile sig_atomic_t worker_ends_with_server = false;

/* Were there too few slots for background workers?  Set in the postmaster. */
static bool is_left_out = false;

void
worker_init_shmem(Worker *worker)
{
	pg_atomic_init_u32(&worker->proc, (uint32) -1);
	pg_atomic_init_u32(&worker->requested, 0);
	pg_atomic_init_u64(&worker->requested_at_us, 0);
	ConditionVariableInit(&worker->changed);
}

/*
 * A worker that starts writes its process number, and then looks what there is
 * to do.  Here a session has written what there is to do, and then reads the
 * process number.  At least one of the two has to see what the other wrote.
 * That takes a full barrier in each.  The barrier in SetLatch() comes too
 * late.  An atomic exchange is not enough: on some machines a later read may
 * overtake it.  See t/models/wake.pml.
 */
void
worker_wake(Worker *worker)
{
	uint32		proc;

	pg_memory_barrier();
	proc = pg_atomic_read_u32(&worker->proc);
	if (proc != (uint32) -1)
		SetLatch(&ProcGlobal->allProcs[proc].procLatch);
}

/*
 * The postmaster starts a worker that has ended, after a second.  In a smart
 * shutdown, while clients are left, it does so only when something wakes it.
 */
static void
let_start_again(void)
{
	static int64 asked_at = 0;	/* on the steady clock */

	if (is_left_out ||
		(pg_atomic_read_u32(&shared->mark_writer.proc) != (uint32) -1 &&
		 pg_atomic_read_u32(&shared->services.proc) != (uint32) -1) ||
		clock_read_steady() < asked_at + WAIT_SLICE_MS * 1000)
		return;
	asked_at = clock_read_steady();
	SendPostmasterSignal(PMSIGNAL_BACKGROUND_WORKER_CHANGE);
}

void
worker_ask(Worker *worker)
{
	if (pg_atomic_read_u32(&worker->requested) == 0)
		pg_atomic_write_u64(&worker->requested_at_us, (uint64) clock_read_steady());
	if (pg_atomic_exchange_u32(&worker->requested, 1) == 0)
		worker_wake(worker);
	let_start_again();
}

/*
 * How long ago it was asked for something that it has not begun to look at, in
 * microseconds; 0 for nothing.
 */
static int64
get_unanswered_us(Worker *worker)
{
	uint64		at = pg_atomic_read_u64(&worker->requested_at_us);

	if (at == 0 || pg_atomic_read_u32(&worker->requested) == 0)
		return 0;
	return Max(clock_read_steady() - (int64) at, 0);
}

/*
 * The last error, if the worker has done nothing since; and whether that error
 * passes by itself.
 */
static bool
describe_error(Worker *worker, const char *home, char **detail, char **hint, bool *passes)
{
	char		error[WORKER_ERROR_SIZE];
	char		error_hint[WORKER_ERROR_SIZE];
	int			encoding;

	LWLockAcquire(shared->lock, LW_SHARED);
	strlcpy(error, worker->error, sizeof(error));
	strlcpy(error_hint, worker->hint, sizeof(error_hint));
	encoding = worker->error_encoding;
	*passes = wait_error_passes(worker->error_sqlstate);
	LWLockRelease(shared->lock);
	if (error[0] == '\0')
		return false;

	*detail = psprintf("The background worker failed in database \"%s\": %s",
					   home, utf8_any_to_server(error, encoding));
	if (!may_read_all_stats())
		*hint = pstrdup("The server's log says why, and so does pg_stat_snowflake to roles with the privileges of pg_read_all_stats.");
	else if (error_hint[0] != '\0')
		*hint = pstrdup(utf8_any_to_server(error_hint, encoding));
	else
		*hint = pstrdup("Mend the cause. The background worker tries again when a session asks for an ID.");
	return true;
}

WorkerState
worker_describe(Worker *worker, char **detail, char **hint)
{
	uint32		number = pg_atomic_read_u32(&worker->proc);
	const char *home = utf8_any_to_server(snowflake_database, PG_SQL_ASCII);
	const char *name = worker == &shared->services ? SERVICES_NAME : MARK_WRITER_NAME;
	int64		unanswered_us = get_unanswered_us(worker);
	StringInfoData said;
	bool		passes;
	PGPROC	   *proc;
	uint32		wait;
	const char *type;

	if (describe_error(worker, home, detail, hint, &passes))
		return passes ? WORKER_HINDERED : WORKER_FAILS;
	if (number == (uint32) -1)
	{
		bool		closed = pg_atomic_read_u64(&SLOT(0)->word) == SLOT_CLOSED;

		*detail = closed ? pstrdup("The server is shutting down.") :
			psprintf("The background worker \"%s\" is not running.", name);
		*hint = pstrdup(closed ? "Connect again when it has been started." :
						"The server starts it within a second. If it does not, see the server's log; \"max_worker_processes\" may be too small.");
		return worker->started || unanswered_us < START_S * USECS_PER_SEC ?
			WORKER_STARTS : WORKER_ABSENT;
	}

	proc = &ProcGlobal->allProcs[number];
	wait = *(volatile uint32 *) &proc->wait_event_info;
	type = pgstat_get_wait_event_type(wait);
	initStringInfo(&said);
	appendStringInfo(&said, "The background worker \"%s\", PID %d, ", name, proc->pid);
	if (unanswered_us >= REACTS_US)
		appendStringInfo(&said, "has not reacted for %d s", (int) (unanswered_us / USECS_PER_SEC));
	else
		appendStringInfo(&said, "is at work on it in database \"%s\"", home);
	if (type != NULL && wait != wait_event_worker(worker))
		appendStringInfo(&said, " and waits for %s:%s", type, pgstat_get_wait_event(wait));
	appendStringInfoChar(&said, '.');
	*detail = said.data;
	if (unanswered_us >= REACTS_US)
	{
		*hint = pstrdup("Find out what blocks it: a stopped process, a lock, a disk or a synchronous standby. You can end it with pg_terminate_backend(); the server starts it again.");
		return WORKER_HANGS;
	}
	*hint = pstrdup("Check the disk and, if there are any, the synchronous standbys: the background worker waits for them to commit.");
	return wait == wait_event_worker(worker) ? WORKER_SLEEPS : WORKER_WORKS;
}

bool
worker_is_refusing(const Worker *worker)
{
	return worker->error_sqlstate == ERRCODE_CONFIG_FILE_ERROR;
}

void
worker_report(Worker *worker, const char *failure)
{
	bool		final = worker_is_refusing(worker);
	WorkerState state;
	char	   *detail;
	char	   *hint;

	ConditionVariableCancelSleep();

	state = worker_describe(worker, &detail, &hint);
	ereport(ERROR,
			(errcode(wait_sqlstate(state < WORKER_ABSENT)),
			 errmsg("%s", failure),
			 final ?
			 errdetail("%s", text_shown(detail)) :
			 errdetail("%s Waited for \"snowflake.max_wait\", %d ms.",
					   text_shown(detail), snowflake_max_wait),
			 errdetail_log("%s", detail),
			 errhint("%s", hint)));
}

void
worker_await(Worker *worker, Wait *wait, const char *failure)
{
	int64		left_ms = wait_left_ms(wait);

	worker_ask(worker);
	if (left_ms <= 0)
		worker_report(worker, failure);
	(void) ConditionVariableTimedSleep(&worker->changed,
									   Min(left_ms, WAIT_SLICE_MS),
									   wait_event(WAIT_MARK));
}

/* Returns whether it is another error than the last one. */
static bool
note_error(Worker *worker, int sqlstate, const char *error, const char *hint)
{
	TimestampTz now = GetCurrentTimestamp();
	int			error_len;
	int			hint_len;
	bool		is_new;

	/* cut to whole characters: views show it */
	error_len = pg_mbcliplen(error, (int) strlen(error), WORKER_ERROR_SIZE - 1);
	hint_len = pg_mbcliplen(hint, (int) strlen(hint), WORKER_ERROR_SIZE - 1);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	strlcpy(worker->error, error, error_len + 1);
	strlcpy(worker->hint, hint, hint_len + 1);
	worker->error_sqlstate = sqlstate;
	worker->error_encoding = GetDatabaseEncoding();
	is_new = strcmp(worker->last_error, worker->error) != 0;
	strlcpy(worker->last_error, worker->error, sizeof(worker->last_error));
	worker->last_error_at = now;
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&worker->changed);
	return is_new;
}

/*
 * Only the worker itself writes its error, so it may look at it without the
 * lock.  So no lock is taken where all goes well.
 */
void
worker_clear_error(Worker *worker)
{
	if (worker->error[0] == '\0')
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	worker->error[0] = '\0';
	worker->error_sqlstate = 0;
	LWLockRelease(shared->lock);
}

ErrorData *
worker_attempt(Worker *worker, LogKind alarm, void (*task) (void *), void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorData  *volatile edata = NULL;

	PG_TRY();
	{
		task(arg);
	}
	PG_CATCH();
	{
		bool		is_new;
		uint64		left_out;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(caller);
		edata = CopyErrorData();
		is_new = worker != NULL &&
			note_error(worker, edata->sqlerrcode,
					   edata->detail == NULL ? psprintf("%s.", edata->message) :
					   psprintf("%s. %s", edata->message, edata->detail),
					   edata->hint ? edata->hint : "");

		if (log_is_due(alarm, &left_out) || is_new)
			EmitErrorReport();
		home_abort();
		LWLockReleaseAll();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();

	/* not where the end of a transaction may leave it: in TopMemoryContext */
	MemoryContextSwitchTo(caller);
	return edata;
}

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
worker_register(const char *name, const char *function)
{
	BackgroundWorker worker = {0};
	int			registered = compat_background_workers();

	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, name, BGW_MAXLEN);
	set_library(&worker);
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	/* not INTERRUPTIBLE (19): a copy of the database would end it for good */
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_S;
	RegisterBackgroundWorker(&worker);
	/* under EXEC_BACKEND, in each process: there nothing is registered */
	is_left_out |= IsPostmasterEnvironment && !IsUnderPostmaster &&
		compat_background_workers() == registered;
}

bool
worker_is_left_out(void)
{
	return is_left_out;
}

/*
 * By the postmaster, or by an administrator who ends this process alone: then
 * sessions go on, also in a smart shutdown, and it is started again.
 */
static void
terminate(int signo, siginfo_t *info, void *context)
{
	int			save_errno = errno;

	if (info->si_pid == PostmasterPid)
		worker_ends_with_server = true;
	die_by(signo, info);
	errno = save_errno;
}

static void
retire(int code, Datum arg)
{
	pg_atomic_write_u32(&((Worker *) DatumGetPointer(arg))->proc, (uint32) -1);
}

int64
worker_begin(Worker *worker)
{
	struct sigaction on_term = {.sa_sigaction = terminate, .sa_flags = SA_SIGINFO | SA_RESTART};

	/* home.c lets statements be cancelled, but no commit */
	pqsignal(SIGINT, PG_SIG_IGN);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	sigaction(SIGTERM, &on_term, NULL);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(retire, PointerGetDatum(worker));
	pg_atomic_write_u32(&worker->proc, (uint32) MyProcNumber);
	pg_memory_barrier();		/* see worker_wake() */

	worker->started = true;
	if (!worker->connecting)
		return 0;
	worker->connecting = false;
	(void) note_error(worker, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "It could not connect.",
					  "The server's log says why. Mend the cause; the background worker tries again when a session asks for an ID.");
	return clock_read_steady() + RECONNECT_S * USECS_PER_SEC;
}

void
worker_connect(Worker *worker)
{
	worker->connecting = true;
	home_connect();
	worker->connecting = false;
}

bool
worker_take_request(Worker *worker)
{
	bool		asked;

	/* first, as the next one to ask writes it again */
	pg_atomic_write_u64(&worker->requested_at_us, 0);
	asked = pg_atomic_exchange_u32(&worker->requested, 0) != 0;

	/* what is asked is read after that */
	pg_memory_barrier();
	return asked;
}

/*
 * A shutdown that waits for its clients would wait for a session of ours, too,
 * where the registry is in this server.  (The PID may be that of another
 * server's process.)  That there is one the postmaster says in the last line
 * of its file, for pg_ctl.
 */
bool
worker_holds_up_stop(int pid)
{
	char		line[MAXPGPATH] = "";
	FILE	   *file;

	if (worker_ends_with_server || BackendPidGetProc(pid) == NULL ||
		(file = AllocateFile("postmaster.pid", "r")) == NULL)
		return false;
	while (fgets(line, sizeof(line), file) != NULL)
		;
	FreeFile(file);
	return strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

bool
worker_after_sleep(void)
{
	bool		reload = ConfigReloadPending;

	ResetLatch(MyLatch);

	/* before the shutdown, which may have been requested after the reload */
	if (reload)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}

	/* a stop of the server is no error, so no line in the log */
	if (worker_ends_with_server)
		proc_exit(0);
	CHECK_FOR_INTERRUPTS();
	return reload;
}
