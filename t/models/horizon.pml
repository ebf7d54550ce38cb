/*-------------------------------------------------------------------------
 *
 * horizon.pml
 *		Model of snowflake_horizon(): a row whose ID is below it is seen by each
 *		snapshot taken after the call, or is never there.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run.
 *
 * Each atomic block or statement is one step: at most one access to what others
 * write.  Between any two steps, all others may do any number of their own, the
 * clock may be set back, and the server may crash, with any clock afterwards.
 *
 *	Here						In src/
 *	Writer: note				open_draws_note(), called by take() in generator.c
 *	Writer: swap				take(), whose compare-and-swap is the step
 *	Writer: prepare				keep_note() in open_draws.c
 *	Reader: raise				generator_horizon() in generator.c
 *	Reader: look				open_draws_oldest() in open_draws.c
 *	World: raise the mark		publish() in mark_writer.c, after its commit
 *
 * There are two writers, of which the first prepares transactions too, with
 * TRANSACTIONS that draw an ID each, one reader, SLOTS, and time units 1 to TIMES
 * of two sequence numbers.  A transaction that ends leaves its process in the same
 * step in which others see its row.
 *
 * -DNOTE_LATE, -DLOOK_EARLY, -DNO_RAISE, -DNO_LIMIT, -DNOT_KEPT, -DKEPT_LATE,
 * -DPREPARED_FIRST and -DSNAPSHOT_EARLY each break the protocol; see where they
 * are.  -DNEVER=condition asserts that no horizon is told under
 * that condition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIMES
#define TIMES	2
#endif
#ifndef TRANSACTIONS
#define TRANSACTIONS	2		/* of each writer */
#endif

#ifndef SLOTS
#define SLOTS	1
#endif

#define SEQUENCES	2			/* of a time unit */
#define NONE		15			/* above all time units */

#define least(a, b)		((a) < (b) -> (a) : (b))
#define most(a, b)		((a) > (b) -> (a) : (b))

byte clock = 1;
byte limit = 1;					/* which the mark is, too: see mark.pml */
byte word[SLOTS] = SEQUENCES - 1;
byte crashes;

/* Of a writer: its transaction, 0 for none; and its note */
byte running[2];
byte noted_in[2];
byte noted[2];

/* Of the first one's prepared transaction */
bool is_prepared;
byte kept = NONE;				/* the note */
byte first;						/* the unit of its ID */

byte told;						/* the highest horizon whose snapshot was taken */
#ifdef SNAPSHOT_EARLY
byte committed = NONE;			/* the lowest unit of a row since a snapshot */
#endif

inline commit(unit)
{
	assert(unit >= told);
#ifdef SNAPSHOT_EARLY
	committed = least(committed, unit)
#endif
}

proctype Writer(bit me)
{
	byte transaction;
	byte unit;
	byte old;
#if SLOTS > 1
	bit slot;
#else
#define slot 0
#endif
	byte lives;

	do
	:: {
		do
		:: transaction < TRANSACTIONS ->
			atomic { transaction++; running[me] = transaction };

			/* the clock's unit, if it is reserved */
			unit = clock;
			if
			:: unit >= limit -> goto ends
			:: else
			fi;

			/* note */
#ifndef NOTE_LATE
			noted_in[me] = transaction;
			noted[me] = unit;
#endif

			/* swap, which fails if the word is another one meanwhile */
#if SLOTS > 1
			if
			:: slot = 0
			:: slot = 1
			fi;
#endif
			old = word[slot];
			atomic {
				if
				:: word[slot] != old || old >= unit * SEQUENCES + SEQUENCES - 1 -> goto ends
				:: else -> word[slot] = most(old + 1, unit * SEQUENCES)
				fi;
				old = 0
			};
#ifdef NOTE_LATE
			noted_in[me] = transaction;
			noted[me] = unit;
#endif

			if
			:: atomic { commit(unit); running[me] = 0 }
			:: me == 0 && !is_prepared ->
				/* prepare */
#ifndef NOT_KEPT
#ifndef KEPT_LATE
				kept = noted[me];
#endif
#endif
				atomic { first = unit; is_prepared = true };
				running[me] = 0;
#ifdef KEPT_LATE
				kept = noted[me]
#endif
			:: skip				/* rolled back */
			fi;
ends:
			atomic { running[me] = 0; unit = 0; old = 0 }
		:: else -> break
		od;
		break
	} unless {
		atomic { crashes != lives -> lives = crashes; unit = 0; old = 0 }
	}
	od
}

/* Somebody ends a prepared transaction, before or after a crash. */
proctype Committer()
{
end:
	do
	:: atomic {
		is_prepared ->
		if
		:: commit(first)
		:: skip				/* rolled back */
		fi;
		is_prepared = false;
		kept = NONE;
		first = 0
	}
	od
}

inline raise()
{
	skip;
#ifndef NO_RAISE
	atomic { word[0] = most(word[0], horizon * SEQUENCES - 1) };
#if SLOTS > 1
	atomic { word[1] = most(word[1], horizon * SEQUENCES - 1) };
#endif
#endif
}

inline look(writer)
{
	in = noted_in[writer];
	unit = noted[writer];
	atomic {
		horizon = (in != 0 && in == running[writer] -> least(horizon, unit) : horizon);
		in = 0;
		unit = 0
	}
}

inline look_at_prepared()
{
	if
	:: is_prepared -> atomic { horizon = least(horizon, kept) }
	:: else
	fi
}

proctype Reader()
{
	byte horizon;
	byte in;
	byte unit;
	byte lives;

	do
	:: {
end:
		do
		:: horizon = clock;
#ifdef SNAPSHOT_EARLY
			committed = NONE;
#endif
#ifndef NO_LIMIT
			atomic { horizon = least(horizon, limit) };
#endif
#ifdef PREPARED_FIRST
			look_at_prepared();
#endif
#ifdef LOOK_EARLY
			look(0);
			look(1);
#endif
			raise();
#ifndef LOOK_EARLY
			look(0);
			look(1);
#endif
#ifndef PREPARED_FIRST
			look_at_prepared();
#endif
			atomic {
#ifdef SNAPSHOT_EARLY
				assert(committed >= horizon);
#endif
#ifdef NEVER
				assert(!(NEVER));
#endif
				told = most(told, horizon);
				horizon = 0
			}
		od
	} unless {
		atomic { crashes != lives -> lives = crashes; horizon = 0; in = 0; unit = 0 }
	}
	od
}

proctype World()
{
end:
	do
	:: clock < TIMES -> clock++
	:: clock > 1 -> clock = 1

	/* raise the mark */
	:: limit <= TIMES -> limit++

	/* shared memory is lost, and the mark is read */
	:: atomic {
		crashes < 1 ->
		crashes++;
		running[0] = 0;
		running[1] = 0;
		noted_in[0] = 0;
		noted_in[1] = 0;
		noted[0] = 0;
		noted[1] = 0;
		kept = 0;
		word[0] = limit * SEQUENCES - 1;
#if SLOTS > 1
		word[1] = limit * SEQUENCES - 1
#endif
	}
	od
}

init
{
	atomic {
		run Writer(0);
		run Writer(1);
		run Reader();
		run Committer();
		run World()
	}
}
