/*-------------------------------------------------------------------------
 *
 * wake.pml
 *		Model of how a process of the server that may sleep for ever is woken,
 *		where a store may become visible after a later load.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run, and wake.litmus for the two instructions that
 * matter.
 *
 * Each atomic block or statement is one step: at most one access to shared
 * memory.
 *
 *	Here						In src/
 *	Session: exchange, wake		waits.c wait_wake_worker()
 *	Worker: start				worker.c snowflake_worker_main()
 *	Worker: look, serve			mark.c mark_is_asked(), mark_serve()
 *	Worker: sleep				WaitEventSetWait(), ResetLatch()
 *
 * Who asks writes "requested" and reads the number of the worker; the worker, at
 * its start, writes its number and reads "requested".  If neither sees what the
 * other has written, "requested" stays: nobody who asks later wakes the worker,
 * and it sleeps.  Each store is made in two steps: the process does it and goes
 * on, and later it is in memory.  Both have to wait for that before they read.
 *
 * -DPLAIN is the other way in which processes ask: by a plain store, not an
 * exchange, and whoever does it always wakes the other.  So services offer a
 * number to the writer of the mark, and so that tells services that it has
 * taken it (lease.pml).  There is one asker then, who asks again only when it
 * was heard.
 *
 * Of weakly ordered memory there is this much only, as the rest is given: an
 * exchange is one step between those of others, and what the process wrote
 * before it is seen by who sees it; SetLatch() and ResetLatch() are barriers; a
 * process that ends has written all.
 *
 * Where the model simplifies, it allows more than the code does: anybody asks at
 * any time, and the worker ends at any time and starts again.  But nobody asks
 * again after a while, and nobody sleeps with a timeout.  When nothing happens
 * any more, nobody may wait.
 *
 * -DNO_BARRIER and -DNO_START_BARRIER each leave out one of the two barriers;
 * -DLOOK_FIRST has the worker look before it writes its number, and
 * -DRESET_LATE reset the latch after it has looked.
 *
 *-------------------------------------------------------------------------
 */
#define NOBODY		0

/* Shared memory. */
bool requested;
byte worker = NOBODY;
bool latch[3];					/* of the processes 1 and 2 */

/* Stores on their way there. */
bool storing[2];				/* of "requested" */
byte number = NOBODY;			/* of the worker */

/* Who has asked, and was not served. */
bool waits[2];

bool quiet;						/* nobody begins anything any more */

#define none_storing	(!storing[0] && !storing[1])

proctype Memory()
{
end:
	do
	:: atomic { storing[0] -> requested = true; storing[0] = false }
	:: atomic { storing[1] -> requested = true; storing[1] = false }
	:: atomic { number != NOBODY -> worker = number; number = NOBODY }
	od
}

proctype Session(byte me)
{
	byte woken;
	bool was_set;

end:
	do
#ifdef PLAIN
	:: atomic {
		!quiet && !waits[me] && none_storing && !requested ->
		waits[me] = true;
		storing[me] = true
	}
#else
	:: atomic { !quiet -> waits[me] = true }
		/* exchange: no store of another process comes between load and store */
		atomic {
			none_storing ->
			was_set = requested;
			storing[me] = true
		}
#endif
		if
		:: was_set
		:: else ->
			/* wake */
#ifndef NO_BARRIER
			!storing[me];
#endif
			woken = worker;
			if
			:: woken != NOBODY ->
				!storing[me];
				latch[woken] = true
			:: else
			fi
		fi;
		atomic { was_set = false; woken = NOBODY }
	od
}

proctype Worker()
{
	byte me = 1;

start:
	atomic {
		me = 3 - me;
		latch[me] = false
#ifdef LOOK_FIRST
	};
	if
	:: requested -> goto serve
	:: else
	fi;
	atomic {
#endif
		number = me
	};
#ifndef NO_START_BARRIER
	number == NOBODY;
#endif
#ifdef LOOK_FIRST
	goto end_sleep;
#endif

look:
	if
	:: requested -> goto serve
	:: else -> goto end_sleep
	/* it ends */
	:: atomic { !quiet -> goto retire }
	fi;

serve:
	atomic { none_storing -> requested = false };
	/* or it fails, and then they ask again, which is no other thing */
	atomic { waits[0] = false; waits[1] = false; goto look };

end_sleep:
	if
	:: atomic { latch[me] && number == NOBODY };
#ifdef RESET_LATE
		if
		:: requested -> latch[me] = false; goto serve
		:: else -> latch[me] = false; goto end_sleep
		fi
#else
		latch[me] = false;
		goto look
#endif
	:: atomic { !quiet -> goto retire }
	fi;

retire:
	atomic { number = NOBODY; worker = NOBODY; goto start }
}

proctype World()
{
end:
	atomic { quiet = true };
	/* nothing happens any more */
	atomic { timeout -> assert(!waits[0] && !waits[1]) }
}

init
{
	atomic {
		run Memory();
		run Session(0);
#ifndef PLAIN
		run Session(1);
#endif
		run Worker();
		run World()
	}
}
