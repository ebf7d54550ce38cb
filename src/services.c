/*-------------------------------------------------------------------------
 *
 * services.c
 *		The background worker for everything but the mark: backfilling,
 *		segments, the lease, keeping records, and a check of reloaded settings.
 *
 * Nothing here can keep the mark writer from its work, nor sessions from
 * drawing IDs; with a leased number, while the lease holds.  It sleeps without
 * a timeout where nothing is asked of it and no registry is used.
 *
 * Locking: none of its own; see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "backfill.h"
#include "clock.h"
#include "compat.h"
#include "lease.h"
#include "record.h"
#include "registry_link.h"
#include "segment_fetch.h"
#include "settings.h"
#include "waits.h"
#include "worker.h"

PGDLLEXPORT void snowflake_services_main(Datum arg);

/* What is done in the home database.  After a failure some time passes. */
typedef struct Service
{
	/* When to do it, by the steady clock; PG_INT64_MAX for not now. */
	int64		(*due) (void);

	/* Called in a worker_attempt(). */
	void		(*serve) (void);

	/* It has failed: forget requests that sessions may have given up. */
	void		(*failed) (void);

	int			retry_s;
	bool		is_noted;		/* sessions that wait look at the worker's
								 * error */
	LogKind	alarm;
	int64		retry_at;		/* steady clock */
} Service;

/* For snowflake_check(). */
static void
record_failed(void)
{
	pg_atomic_fetch_or_u32(&shared->mark.to_record, RECORD_FAILED);
}

static Service services[] = {
	{backfill_due, backfill_serve, backfill_abandon, 1, true, LOG_OF_BACKFILL},
	{segment_due_at_home, segment_serve_at_home, NULL, 0, false, LOG_OF_SEGMENT},
	{record_due, record_serve, record_failed, 10, false, LOG_OF_RECORD}
};

/* What is asked of the registry. */
static RegistryLink *const links[] = {&lease_link, &segment_link};

/* To the home database; without it nothing is asked of the registry. */
static bool is_connected = false;

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

/* When the next service is to be done. */
static int64
next_due(void)
{
	int64		next = PG_INT64_MAX;

	for (int i = 0; i < (int) lengthof(services); i++)
	{
		int64		due = services[i].due();

		next = Min(next, Max(due, services[i].retry_at));
	}
	return next;
}

static void
call_serve(void *service)
{
	((Service *) service)->serve();
}

static void
serve_services(void)
{
	Worker	   *me = &shared->services;

	for (int i = 0; i < (int) lengthof(services); i++)
	{
		Service    *service = &services[i];

		if (Max(service->due(), service->retry_at) > clock_read_steady())
			continue;
		if (worker_attempt(service->is_noted ? me : NULL, service->alarm,
						   call_serve, service) == NULL)
		{
			if (service->is_noted)
				worker_clear_error(me);
			continue;
		}
		service->retry_at = clock_read_steady() + service->retry_s * USECS_PER_SEC;
		if (service->failed != NULL)
			service->failed();
	}
}

static void
call_link(void *link)
{
	registry_link_serve(link);
}

static void
serve_links(void)
{
	for (int i = 0; i < (int) lengthof(links); i++)
	{
		if (worker_attempt(NULL, LOG_OF_REGISTRY, call_link, links[i]) != NULL)
			registry_link_pause(links[i]);
	}
}

/*
 * Wait until the latch is set, something has come from the registry, or for a
 * while, in ms, -1 for ever.  The set is made each time, as the sockets are
 * others with each connection.
 */
static void
wait_for_events(long timeout_ms)
{
	WaitEvent	events[lengthof(links) + 1];
	WaitEventSet *set = CreateWaitEventSet(NULL, lengthof(links) + 2);
	int			n;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; is_connected && i < (int) lengthof(links); i++)
	{
		long		link_ms = registry_link_wait(links[i], set);

		if (link_ms >= 0 && (timeout_ms < 0 || link_ms < timeout_ms))
			timeout_ms = link_ms;
	}

	n = WaitEventSetWait(set, timeout_ms, events, lengthof(events),
						 wait_event_worker(&shared->services));
	FreeWaitEventSet(set);
	for (int i = 0; i < n; i++)
	{
		if (events[i].events & WL_SOCKET_MASK)
			((RegistryLink *) events[i].user_data)->is_ready = true;
	}
}

/* Sleep until there is something to do, or for a while. */
static void
sleep_and_check(long timeout_ms)
{
	char	   *registry = pstrdup(snowflake_registry);

	wait_for_events(timeout_ms);
	if (worker_after_sleep())
	{
		settings_file_log();
		segment_leave_home();
		for (int i = 0; i < (int) lengthof(links); i++)
		{
			if (strcmp(registry, snowflake_registry) != 0)
				registry_link_reset(links[i]);
			else
				registry_link_retry(links[i]);
		}
	}
	pfree(registry);
}

static void
remember_lease(int code, Datum arg)
{
	if (worker_ends_with_server)
		lease_remember_at_exit();
}

void
snowflake_services_main(Datum arg)
{
	Worker	   *me = &shared->services;
	int64		connect_at = worker_begin(me);	/* on the steady clock */
	bool		is_asked = connect_at == 0;
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "snowflake services",
												  ALLOCSET_DEFAULT_SIZES);

	segment_begin();
	for (;;)
	{
		int64		due = PG_INT64_MAX;
		long		pause_ms = -1;

		MemoryContextSwitchTo(context);
		is_asked |= worker_take_request(me);
		lease_settle();

		/* after a failed attempt, only when something is asked or used */
		if (!is_connected && (is_asked || links_are_used()))
			due = connect_at;
		if (!is_connected && due <= clock_read_steady())
		{
			worker_connect(me);
			worker_clear_error(me);
			before_shmem_exit(remember_lease, (Datum) 0);
			is_connected = true;
		}
		if (is_connected)
		{
			serve_services();
			serve_links();
			due = next_due();
		}
		MemoryContextReset(context);

		if (due != PG_INT64_MAX)
			pause_ms = (long) Max((due - clock_read_steady() + 999) / 1000, 0);

		/* also without a pause: only there it learns that it is to end */
		sleep_and_check(pause_ms);
	}
}
