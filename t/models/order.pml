/*-------------------------------------------------------------------------
 *
 * order.pml
 *		Model of the order of all sessions' IDs: none is more than max_drift
 *		below one that was drawn before, whatever the clock does.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run.
 *
 * Each atomic block or statement is one step: at most one access to what others
 * write.  Between any two steps, all others may do any number of their own, and
 * the clock may be set to any time.
 *
 *	Here						In src/generator.c
 *	Session: fast				generator_take()
 *	Session: slow				take_anywhere()
 *	Session: take				take(), and is_left_behind() after its compare-and-swap,
 *								which is the step: what is found left behind is given up
 *
 * There are two sessions, and time units 0 to TIMES.  The clock has TICKS in a
 * unit, and DRIFT, which is max_drift, is counted in these: it need not be whole
 * units.  A session has a unit that it has gone to, and goes on there by the fast
 * path if the clock shows it.  That no ID comes twice is for the words of the
 * slots, which are not here: a session may find its slots empty at any time, and
 * then borrows.
 *
 * -DNO_LOOK and -DRAISE_LATE each break the protocol; see where they are.  -DNEVER=condition asserts that no ID is drawn under that
 * condition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIMES
#define TIMES	3
#endif
#ifndef TICKS
#define TICKS	1
#endif
#ifndef DRIFT
#define DRIFT	1
#endif

/* The last unit that may be drawn in, by the clock; and by a unit itself. */
#define latest_unit(clock)	(((clock) + DRIFT) / TICKS)
#define others_unit(time)	((time) + DRIFT / TICKS)

#define is_below	(time < drawn)	/* for NEVER */

byte clock;						/* in ticks */
byte latest;					/* unit that a session has gone to */
byte drawn;						/* the latest unit of an ID */

proctype Session()
{
	byte time;					/* that it has gone to */
	byte next;					/* and that it may go to */
	byte now;
	byte last;

called:
	/* fast */
	if
	:: clock / TICKS != time -> goto slow
	:: else
	fi;
	if
	:: goto take
	:: skip						/* no number left there */
	fi;

slow:
	now = clock;
	last = latest;
	atomic {
		if
		:: last > latest_unit(now) -> goto waits
		:: else -> next = (time > now / TICKS -> time : now / TICKS)
		fi;
		next = (last > others_unit(next) -> last - DRIFT / TICKS : next);
		last = 0
	};

borrow:
	if
	:: next > latest_unit(now) || next > TIMES -> goto waits
	:: else -> time = next
	fi;
#ifndef RAISE_LATE
	atomic { latest = (latest > time -> latest : time) };
#endif
	if
	:: goto take
	:: atomic { next++; goto borrow }
	fi;

waits:
	atomic { now = 0; last = 0; next = 0 };
	/* for as long as it likes, or fails and is called again */
	if
	:: goto slow
	:: goto called
	fi;

take:
	atomic {
#ifndef NO_LOOK
		if
		:: latest > others_unit(time) -> goto slow
		:: else
		fi;
#endif
		assert(time * TICKS + DRIFT >= drawn * TICKS);
#ifdef NEVER
		assert(!(NEVER));
#endif
		drawn = (drawn > time -> drawn : time);
		now = 0;
		next = 0
	};
#ifdef RAISE_LATE
	atomic { latest = (latest > time -> latest : time) };
#endif
	goto called
}

proctype World()
{
	do
	:: clock < TIMES * TICKS -> clock++
	:: clock > 0 -> clock = 0
	od
}

init
{
	atomic {
		run Session();
		run Session();
		run World()
	}
}
