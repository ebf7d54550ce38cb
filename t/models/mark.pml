/*-------------------------------------------------------------------------
 *
 * mark.pml
 *		Model of how IDs stay unique over crashes, restarts and promotions:
 *		the durable mark, the limit, and the words of the slots.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run.
 *
 * Each atomic block is one step: at most one access to shared memory, or one
 * write of the worker to the database.  Between any two steps, every other
 * process may do any number of its own, and the server may crash.
 *
 *	Here						In src/
 *	Backend: move				generator.c take_anywhere(), move_to(), and
 *								mark.h mark_covers()
 *	Backend: read, swap			generator.c take(): read, compare-and-swap
 *	Backend: exit				generator.c
 *	Worker: recover				mark.c recover()
 *	Worker: renew, advance		mark.c mark_serve()
 *	Worker: close				mark.c mark_close()
 *	write_mark(), commit(), raise_words(), publish()	the same in mark.c
 *
 * Where the model simplifies, it allows more than the code does:
 *
 *	- The clock shows anything at each reading, so all steps of it are there,
 *	  and neither max_drift nor max_wait is.
 *	- The worker renews at any time and up to any time, so wanted,
 *	  reserve_window and who wakes whom are not there.
 *	- A backend may draw from any slot, at any time unit and slot that is not
 *	  before where it was: this is sharing, hopping and borrowing in one.  It
 *	  draws any number of IDs at once, from any first sequence number.
 *	- The worker alone may end after any step, and starts again on the same
 *	  shared memory; it may close at any time, and a backend may exit.
 *	- A record of WAL that was written and not committed may or may not have
 *	  been flushed along with another process's.
 *	- A standby stops receiving WAL at any moment, and is promoted at any
 *	  later one, with the WAL up to there: mark and rows.  A row's commit
 *	  record stands in it as soon as the ID is drawn: the hardest case, as a
 *	  later one would only be missing on more standbys.
 *	- At promotion of an asynchronous standby, the IDs of rows it does not
 *	  have are forgotten; otherwise all issued IDs count, of committed rows or
 *	  not.
 *
 * Crashes, restarts, promotions and exits are not bounded in number.  Bounded
 * are TIMES, SEQUENCES, SLOTS, and that there are two backends.  Not modelled:
 * weakly ordered memory, and that anything ever gets done.
 *
 * To be unique, each single ID must be.  So one ID is watched, any one, and
 * there is no need to remember all.
 *
 * -DSYNC is with a synchronous standby, -DASYNC with an asynchronous one,
 * -DADVANCE with snowflake_advance().  -DPUBLISH_FIRST, NO_FLOOR, RESET_WORD,
 * NO_CLOSE, CLOSE_UNKNOWN, CLOSE_AGAIN, ASYNC_COMMIT, NO_RAISE and TRUST_FLOOR
 * each leave out something that the promise depends on.  With -DUNIQUE_ONLY
 * nothing else is asserted.  -DNEVER=condition asserts that no ID is issued
 * under that condition, to show that some are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIMES
#define TIMES		3			/* times 1 to 3; time 0 is not used */
#endif
#ifndef SEQUENCES
#define SEQUENCES	2			/* sequence numbers in a time unit */
#endif
#ifndef SLOTS
#define SLOTS		1
#endif
#define BACKENDS	2
#define END			(TIMES + 1) /* the lifetime's end, as a limit or a mark */

/* What snowflake_advance() may need to be committed. */
#ifdef ADVANCE
#define NEEDED		END
#else
#define NEEDED		0
#endif

/* A word is time and sequence of the last ID drawn from a slot. */
#define first_word(time)	((time) * SEQUENCES)
#define last_word(time)		((time) * SEQUENCES + SEQUENCES - 1)
#define time_of(word)		((word) / SEQUENCES)
#define CLOSED				255

/* An ID as one number, in the order of IDs: time, slot, sequence. */
#define id(slot, word)	((time_of(word) * SLOTS + slot) * SEQUENCES + (word) % SEQUENCES)

#define MAX(a, b)		((a) > (b) -> (a) : (b))

/* The home database: the mark as written, and as a crash would leave it. */
byte mark = 1;
byte flushed = 1;

/* Shared memory. */
byte limit;
byte word[SLOTS];

/* What a process has for itself; here so that a crash can clear it. */
typedef Own
{
	byte time;					/* where it draws, 0: nowhere yet */
	byte slot;
	byte word;					/* as it was read */
	bool drew;					/* the watched ID, in this life */
};
Own own[BACKENDS];
#define my own[me]

byte target;					/* the worker's: the next limit */
byte raise_to;					/* time to raise the words to */
byte committed;					/* the mark, as this process has committed it */
byte last;						/* time of the last ID issued */
byte slot;

/* Who has been told to end by a crash, and has not done so yet. */
bool ends[BACKENDS + 1];
#define WORKER		BACKENDS
#define all_ended	(!ends[0] && !ends[1] && !ends[WORKER])

/* The standby, once it has stopped receiving. */
bool cut;
byte standby_mark;
bool standby_issued;

/* The watched ID, and whether it must not be issued any more. */
byte watched;
bool issued;

/* For NEVER. */
mtype = { setup, crash, stop, promotion };
#ifdef NEVER
mtype started_by = setup;
bool advanced;					/* in this life of the server */
bool worker_ended;				/* alone, since it started */
#define note(what)	what
#else
#define note(what)	skip
#endif

/*
 * A process of the server ends, whatever it was at.  Shared memory is made
 * anew when all have.
 */
inline stop_server(reason)
{
	note(started_by = reason);
	note(advanced = false);
	note(worker_ended = false);
	limit = 0;
	slot = 0;
	do
	:: slot < SLOTS -> word[slot] = 0; slot++
	:: else -> break
	od;
	own[0].time = 0; own[0].slot = 0; own[0].word = 0; own[0].drew = false;
	own[1].time = 0; own[1].slot = 0; own[1].word = 0; own[1].drew = false;
	target = 0; raise_to = 0; committed = 0; last = 0; slot = 0;
	ends[0] = true; ends[1] = true; ends[WORKER] = true
}

/*
 * A backend has just moved the word of its slot from before my.word, its
 * first new ID, to the last one.
 */
inline issue()
{
#ifdef NEVER
	assert(!(NEVER));
#endif
#ifndef UNIQUE_ONLY
	/* reserved, and durably so; when the limit is 0, the server is closing */
	assert(my.time < flushed);
	assert(limit == 0 || (my.time < limit && limit <= flushed));
	/* the IDs of one backend increase; with one slot, those of the server */
	assert(!my.drew || id(my.slot, my.word) > watched);
	assert(SLOTS > 1 || !issued || id(my.slot, my.word) > watched);
#endif
	if
	:: id(my.slot, my.word) <= watched && watched <= id(my.slot, word[my.slot]) ->
		assert(!issued);
		issued = true;
		my.drew = true
	:: else
	fi
}

proctype Backend(byte me)
{
start:
	{
		all_ended;
		do
		/* move: the clock and the limit are read */
		:: atomic {
			limit > my.time ->
			do
			:: my.time < limit - 1 -> my.time++; my.slot = 0
			:: my.slot < SLOTS - 1 -> my.slot++
			:: break
			od
		}

		/* read, when there is something left, and swap */
		:: atomic {
			my.time > 0 && word[my.slot] < last_word(my.time) ->
			my.word = word[my.slot]
		}
		atomic {
			if
			:: word[my.slot] == my.word ->
				if
				:: my.word >= first_word(my.time) -> my.word++
				:: else ->
					my.word = first_word(my.time);
					do
					:: my.word < last_word(my.time) -> my.word++
					:: break
					od
				fi;
				word[my.slot] = my.word;
				do
				:: word[my.slot] < last_word(my.time) -> word[my.slot]++
				:: break
				od;
				issue()
			:: else
			fi;
			my.word = 0
		}

		/* exit: the next backend begins in its place */
		:: atomic {
			my.time > 0 ->
#ifdef RESET_WORD
			word[my.slot] = 0;
#endif
			my.time = 0;
			my.slot = 0;
			my.drew = false
		}
		od
	} unless { atomic { ends[me] -> ends[me] = false } };
	goto start
}

/* The worker alone may end here. */
inline may_end()
{
	if
	:: skip
	:: goto ended
	fi
}

inline write_mark(value)
{
	mark = value;
	if
	:: flushed = mark
	:: skip
	fi
}

inline commit()
{
	atomic {
#if defined(SYNC) && !defined(ASYNC_COMMIT)
		!cut ->
#endif
		flushed = mark;
		may_end()
	}
}

inline raise_words()
{
	do
	:: atomic {
		slot < SLOTS ->
		word[slot] = MAX(word[slot], last_word(raise_to - 1));
		slot++;
		may_end()
	}
	:: atomic { slot == SLOTS -> slot = 0; break }
	od
}

inline publish()
{
	atomic {
#ifndef UNIQUE_ONLY
		assert(target >= limit);	/* it never goes down */
#endif
		limit = target;
		target = 0;
		raise_to = 0
	}
}

proctype Worker()
{
start:
	{
		all_ended;
		do
		/* recover */
		:: atomic {
			limit == 0 ->
			target = mark;
			raise_to = mark
		}
#ifndef NO_FLOOR
		raise_words();
#endif
#ifdef TRUST_FLOOR
		atomic { committed = target };
#endif
		publish()

		/* renew */
		:: atomic {
			limit > 0 && (mark < END || committed < NEEDED) ->
			select(target : mark .. END);
			write_mark(target);
			may_end()
		}
#ifdef PUBLISH_FIRST
		atomic { limit = target };
#endif
		commit();
#ifdef ADVANCE
		atomic { committed = target };
#endif
		publish()

#ifdef ADVANCE
		/*
		 * advance, up to what it has committed itself: all IDs before that
		 * time are as good as issued
		 */
		:: atomic {
			limit > 0 && committed > 1 ->
			select(raise_to : 2 .. committed)
		}
#ifndef NO_RAISE
		raise_words();
#endif
		atomic {
			issued = issued || watched < id(0, first_word(raise_to));
			raise_to = 0;
			note(advanced = true)
		}
#endif

		/* close */
		:: atomic {
#ifndef CLOSE_UNKNOWN
			limit > 0 ->
#endif
			limit = 0;
			may_end()
		}
		do
		:: atomic {
			slot < SLOTS ->
#ifdef CLOSE_AGAIN
			if
			:: word[slot] != CLOSED -> last = MAX(last, time_of(word[slot]))
			:: else
			fi;
#else
			last = MAX(last, time_of(word[slot]));
#endif
#ifndef NO_CLOSE
			word[slot] = CLOSED;
#endif
			slot++;
			may_end()
		}
		:: atomic { slot == SLOTS -> slot = 0; break }
		od;
		atomic {
			if
			/* not when a word was closed before: its last time is lost */
			:: last + 1 < mark -> write_mark(last + 1)
			:: else
			fi;
			last = 0;
			may_end()
		}
		/* the server stops, with all WAL flushed, and starts again */
		atomic { flushed = mark; stop_server(stop) }

ended:	atomic {
			target = 0; raise_to = 0; committed = 0; last = 0; slot = 0;
			note(worker_ended = true)
		}
		od
	} unless { atomic { ends[WORKER] -> ends[WORKER] = false } };
	goto start
}

proctype World()
{
	do
	/* The server crashes, or a backend, which makes shared memory anew too. */
	:: atomic { all_ended -> mark = flushed; stop_server(crash) }

#if defined(SYNC) || defined(ASYNC)
	/* What is sent to a standby is flushed. */
	:: atomic {
		all_ended && !cut ->
		cut = true;
		flushed = mark;
		standby_mark = mark;
		standby_issued = issued
	}
	:: atomic {
		all_ended && cut ->
		cut = false;
		mark = standby_mark;
		flushed = mark;
		standby_mark = 0;
#ifdef ASYNC
		issued = standby_issued;	/* no row has the others */
#endif
		standby_issued = false;
		stop_server(promotion)
	}
#endif
	od
}

init
{
	atomic {
		select(watched : id(0, first_word(1)) .. id(SLOTS - 1, last_word(TIMES)));
		run Backend(0);
		run Backend(1);
		run Worker();
		run World()
	}
}
