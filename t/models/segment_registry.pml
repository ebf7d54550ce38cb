/*-------------------------------------------------------------------------
 *
 * segment_registry.pml
 *		Model of how segments of several servers stay apart: max_id, the
 *		reports, and the deadline.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run, and segment.pml for what a server does with
 * a segment.
 *
 * Each atomic block is one step: one transaction of the registry, one message,
 * or what the worker does under the lock.  Between any two steps, all others
 * may do any number of their own, time may pass, and a server may crash.
 *
 *	Here						In src/ and install/snowflake_segments.sql
 *	Run: draw					segment.c segment_take(): is_valid(), take()
 *	Run: ask, heed				segment_fetch.c build_take(),
 *								segment_fetch_handle_rows()
 *	arrive(), serve()			snowflake_segments_arrive(), _serve()
 *	World: drop, create			snowflake_drop_tag(), _make_segment()
 *
 * There are two servers, a tag, and its numbers 1 to NUMBERS, of which one is
 * watched, any one.  With PROMOTION there is one, and others of which nothing
 * matters but that they take segments: what one of them has drawn before, and
 * who is next, would be the same with the parts exchanged.  A segment is any of
 * the next numbers.  A server knows the highest number that it saw given out,
 * and whether it has the watched one.
 *
 * Time is real, 1 to TIMES, and passes at the same rate for all.  "hold" is the
 * same for all servers, TTL.
 *
 * Where the model simplifies, it allows more than the code does:
 *
 *	- A server asks at any time, and in any request may leave the tag out, as
 *	  when it asks for others.
 *	- A request is answered, or is served and the answer is lost, or is lost;
 *	  with LATE one that was given up may be served at any later time.
 *
 * What it takes for granted, as the documentation has to say:
 *
 *	- The old primary is down when the new one is first asked.
 *	- A server that has drawn numbers which the promotion or the restore has
 *	  lost, neither stops nor crashes before it has asked the registry, and does
 *	  so before a closing is over, or a guard that runs out.  -DISOLATED is
 *	  without that.
 *	- A backend that finds the deadline not passed, draws before it passes.
 *
 * -DPROMOTION lets the registry be promoted, up to so many times, to a standby
 * that stopped receiving at any time before.  -DDROP has tags dropped and
 * created again.  A shutdown is a crash here: what was in memory is lost.
 *
 * -DRESTORE has a restore in place of the promotion, to where the registry takes
 * itself for the same, so that it only sees that it was restarted.  Then it is
 * guarded: nothing is given out.  There is a row
 * for each start of a server, which counts how often it was written: when
 * something is taken, or when it is older than LAG, a fraction of "hold".  The
 * server is told the count, and reports it for as long as its numbers are valid.
 *
 *	ahead		The server reports more than its row has, or there is none, or it
 *				has seen more than max_id: the registry closes, until the guard
 *				would have ended, or when it was open, for TTL.
 *	proved		A server reports what its row has.
 *	awaited		A row by which its server may have had valid numbers when the
 *				guard began, and which was not written since the last start.
 *	opens		The guard ends when it is proved and no row is awaited.
 *	runs out	Else it ends as a closing does.
 *
 * While guarded, a request that reports no count writes no row, and is told of
 * none.  So each count that is reported then goes back to before the guard, and
 * a server that has lost its own is still awaited.  After each closing, and each
 * guard that has run out, servers are told another place: one that was cut off
 * all the while forgets its numbers.
 *
 * Counts are not in the model, but whether a server knows more than there is in
 * its row.  The others have no rows, but one of them may do what proves it, for
 * as long as an answer of before the backup, or LAG later, is valid; and one, the
 * witness, whose row is awaited, may be ahead.  It can also have lost its count,
 * or not come.  Answers that are under way at the restore are lost, as those that
 * are heeded later could be heeded before.
 *
 * What no design can exclude is that nobody who is asked knows of what was lost.
 * So when the backup is younger than TTL and LAG, and a server has numbers that
 * it lacks, one of the servers whose rows are awaited was told after the backup
 * that its row was written after the backup.  -DUNTOLD is without that.
 *
 * With it, -DAGAIN lets the registry be started once more, and -DUNNOTICED has a
 * restore that it does not see at all, where the first that asks is ahead.
 *
 * All else that can be defined leaves out something, see 030_model.pl.
 * -DNEVER=condition asserts that the watched number is not issued under that
 * condition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIMES
#define TIMES		4
#endif
#ifndef TTL
#define TTL			1
#endif
#ifndef NUMBERS
#define NUMBERS		2
#endif
#ifndef INCARNATIONS
#define INCARNATIONS	2
#endif

#ifdef RESTORE
#define PROMOTION	1			/* to a place that looks like the same */
#endif

#define MAX(a, b)	((a) > (b) -> (a) : (b))

mtype = { idle, sent, answered };

typedef Server
{
	/* Shared memory; incarnation and place 0 for not known. */
	byte incarnation;
	byte seen;
	bool has;					/* the watched number */
	byte deadline;
	byte place;

	/* The request, and the answer. */
	mtype stage;
	byte sent_at;
	bool is_full;				/* the tag is in it */
	bool wants;
#ifdef RESTORE
	bool sent_reports;
#endif
	byte sent_incarnation;
	byte sent_seen;
	byte to_incarnation;
	byte to_seen;
	bool to_has;
	byte to_place;
#ifdef RESTORE
	bool to_knows;
	bool to_knows_more;
#endif

#ifdef LATE
	/* A request that was given up is on its way. */
	byte late;					/* 0, or with seen + 1 */
	byte late_incarnation;
#ifdef RESTORE
	bool late_reports;
#endif
#endif

#ifdef RESTORE
	/*
	 * Its row, of this life.  It knows more than the row has when that was
	 * written since the backup, and the server was told.
	 */
	byte row_at;				/* in the backup it is of then, 0: none */
	bool row_is_newer;			/* it was written since */
	bool knows;					/* what is in the row ... */
	bool knows_more;			/* ... and more */

	/* After the restore. */
	bool has_row;
	bool is_live;				/* by the row, at the start or later */
	bool has_asked;				/* since the start, as the row says */
#endif

	/* It has drawn the watched number, in any life. */
	bool drew;
	/* It had an answer of this place. */
	bool contacted;

#ifdef NEVER
	bool restarted;
#endif
};
Server S[2];
#define my			S[me]

/* The registry: the tag's row. */
byte max_id;
byte incarnation = 1;
byte made = 1;					/* incarnations so far; none comes again */
bool dropped;
byte here = 1;
byte noted = 1;
byte closed_until;

#ifdef RESTORE
/* It was started again, in the same place. */
bool guarded;
byte guarded_until;
bool proved;
bool awaits_witness;
bool awaits_gone;				/* a row of a server that is gone */
byte cut_at;
#ifdef AGAIN
bool again;
#endif
#endif

byte now = 1;
byte watched;
bool issued;

#ifdef PROMOTION
/* The standby, once it has stopped receiving. */
bool cut;
byte standby_max_id;
byte standby_incarnation;
bool standby_dropped;
byte standby_noted;
byte standby_closed;
byte promoted;
#endif

/* In serve(). */
byte known;
byte above;
byte last;
bool is_open;
bool wanted;

/* For NEVER. */
#ifdef NEVER
#ifdef RESTORE
bool opened_early;
bool ran_out;
#endif
#define note(what)	what
#else
#define note(what)	skip
#endif

/* What has been drawn here is not known to the registry; see above. */
#ifdef PROMOTION
#ifdef ISOLATED
#define owes(s)		false
#else
#define owes(s)		(S[s].drew && ((cut && standby_max_id < watched) || \
	(promoted > 0 && !S[s].contacted)))
#endif
#else
#define owes(s)		false
#endif

#ifdef RESTORE
#define is_awaited(s)	(S[s].is_live && !S[s].has_asked)
#endif

/* The place that servers are told is another one after each closing. */
#ifdef RESTORE
#define told	2				/* and what they were told before is 1 */
#else
#define told	here
#endif

inline issue()
{
#ifdef NEVER
	assert(!(NEVER));
#endif
	assert(!issued);
	issued = true
}

inline forget(s)
{
	S[s].incarnation = 0;
	S[s].seen = 0;
	S[s].has = false
}

inline forget_request(s)
{
	S[s].stage = idle;
	S[s].sent_at = 0;
	S[s].is_full = false;
	S[s].wants = false;
#ifdef RESTORE
	S[s].sent_reports = false;
#endif
	S[s].sent_incarnation = 0;
	S[s].sent_seen = 0;
	S[s].to_incarnation = 0;
	S[s].to_seen = 0;
	S[s].to_has = false;
#ifdef RESTORE
	S[s].to_knows = false;
	S[s].to_knows_more = false;
#endif
	S[s].to_place = 0
}

/* What was in memory is lost. */
inline restart(s)
{
	forget_request(s);
	forget(s);
	S[s].seen = 0;
	S[s].deadline = 0;
	S[s].place = 0;
#ifdef RESTORE
	/* it has another row from now on; this one is still waited for */
	awaits_gone = awaits_gone || is_awaited(s);
	S[s].row_at = 0;
	S[s].row_is_newer = false;
	S[s].knows = false;
	S[s].knows_more = false;
	S[s].has_row = false;
	S[s].is_live = false;
	S[s].has_asked = false;
#endif
	note(S[s].restarted = true)
}

/*
 * The registry
 */
#ifdef RESTORE
inline end_guard()
{
	guarded = false;
	guarded_until = 0;
	proved = false;
	awaits_gone = false;
	awaits_witness = false;
	cut_at = 0
}

#ifdef PLACE_ALONE
#define moved(place)	place
#else
#define moved(place)	(place > 1 -> 1 : place)
#endif

inline close_until(until)
{
	closed_until = MAX(closed_until, until);
	S[0].place = moved(S[0].place);
	S[0].to_place = moved(S[0].to_place);
	end_guard()
}

#ifdef NO_WAIT
#define awaits		false
#else
#define awaits		(awaits_witness || awaits_gone || is_awaited(0) || is_awaited(1))
#endif
#ifdef NO_PROOF
#define may_open	(!awaits)
#else
#define may_open	(proved && !awaits)
#endif

#ifdef SEEN_ALONE
#define reports_more(s)		false
#else
#define reports_more(s)		(S[s].knows_more || !S[s].has_row)
#endif
#ifdef REPORTS_ALONE
#define saw_more(number)	false
#else
#define saw_more(number)	((number) > max_id)
#endif

/* A server knows more than the registry. */
inline close_down()
{
#ifndef AHEAD_GOES_ON
	if
	:: guarded -> close_until(guarded_until)
	:: else -> close_until(now + TTL)
	fi
#else
	skip
#endif
}

inline look_at_guard()
{
	if
	:: guarded && may_open -> end_guard(); note(opened_early = true)
	:: else
	fi
}

/* What a server reports is compared with its row, and with max_id. */
inline compare(s, reports, number)
{
	if
	:: promoted > 0 && ((reports && reports_more(s)) || saw_more(number)) ->
		close_down();
		S[s].knows_more = false
	:: promoted > 0 && guarded && reports && !reports_more(s) && !saw_more(number) ->
		proved = true
	:: else
	fi;
	if
#ifdef ROW_ANYWAY
	:: promoted > 0 ->
#else
	:: promoted > 0 && (reports || !guarded) ->
#endif
		S[s].has_row = true;
		S[s].is_live = true;
		S[s].has_asked = true
	:: else
	fi;
	look_at_guard()
}

/*
 * Before the restore: the row is written when there is none, it is old, or
 * something is taken.
 */
#define LAG			1
#define is_recent(time)		((time) > 0 && (time) + LAG >= now)

inline record(s, takes)
{
	if
	:: promoted == 0 && !cut -> S[s].row_at = now
	:: promoted == 0 && cut -> S[s].row_is_newer = true
	:: promoted > 0 || (!(takes) && (S[s].row_is_newer || is_recent(S[s].row_at)))
	fi
}

#ifdef TELL_ANYWAY
#define is_told(s)		S[s].has_row
#else
#define is_told(s)		S[s].has_asked
#endif

inline answer_reports(s)
{
	S[s].to_knows = (promoted == 0 || is_told(s));
	S[s].to_knows_more = (promoted == 0 && S[s].row_is_newer)
}

#define is_guarded			guarded
#else
#define compare(s, reports, number)		skip
#define is_guarded			false
#endif

inline arrive()
{
#ifdef RESTORE
	if
	:: guarded && now >= guarded_until -> close_until(guarded_until); note(ran_out = true)
	:: else
	fi;
#endif
	if
	:: noted != here ->
		noted = here;
#ifdef RESTORE
#ifndef NO_GUARD
		guarded = true;
		guarded_until = now + TTL;
		proved = false
#endif
#else
#ifndef NO_CLOSING
		closed_until = MAX(closed_until, now + TTL)
#endif
#endif
	:: else
	fi
}

inline serve(s, from_incarnation, from_seen, from_wants, reports)
{
	arrive();
	known = (!dropped && from_incarnation == incarnation -> from_seen : 0);
	compare(s, reports, known);
	is_open = (now >= closed_until && !is_guarded);
#ifdef NO_REPORT
	known = 0;
#endif
	wanted = from_wants && !dropped && is_open &&
		(from_incarnation == 0 || from_incarnation == incarnation);
	above = MAX(max_id, known);
	last = above;
	if
	:: wanted ->
		do
		:: last < NUMBERS -> last++
		:: break
		od;
		S[s].to_has = (above < watched && watched <= last);
		above = last
	:: else
	fi;
	S[s].to_seen = (wanted -> last : 0);
	S[s].to_incarnation = (dropped -> 0 : incarnation);
	S[s].to_place = told;
#ifdef RESTORE
	record(s, S[s].to_has || above > max_id);
	answer_reports(s);
#endif
	if
	:: max_id = above
#ifdef EARLY_ANSWER
	:: skip						/* the commit fails */
#endif
	fi;
	known = 0;
	above = 0;
	last = 0;
	is_open = false;
	wanted = false
}

#ifdef NO_DEADLINE
#define valid	true
#else
#define valid	(now < my.deadline)
#endif

#ifdef RESTORE
#define reports_now		my.sent_reports
#define reports_late	my.late_reports
#else
#define reports_now		false
#define reports_late	false
#endif

#ifdef PARTIAL_FIRST
#define may_be_partial	true
#else
#define may_be_partial	(promoted == 0 || my.contacted)
#endif

#ifdef FROM_ANSWER
#define to_the_deadline	(now + TTL)
#else
#define to_the_deadline	(my.sent_at + TTL)
#endif

proctype Run(byte me)
{
	do
	/* draw */
	:: atomic {
		my.has && valid ->
		issue();
		my.drew = true;
		my.has = false
	}

	/* ask */
	:: atomic {
		my.stage == idle ->
		my.stage = sent;
		my.sent_at = now;
#ifdef RESTORE
		my.sent_reports = (my.knows && valid);
#endif
		if
		:: my.is_full = true;
			my.sent_incarnation = my.incarnation;
			my.sent_seen = my.seen;
			if
			:: my.wants = true
			:: true
			fi
#ifdef RESTORE
		/* a new connection begins with a report of all */
		:: may_be_partial -> true
#elif defined(PROMOTION)
		:: true
#endif
		fi
	}
	:: atomic {
		my.stage == sent ->
		if
		:: my.is_full ->
			serve(me, my.sent_incarnation, my.sent_seen, my.wants, reports_now)
		:: else ->
			arrive();
#ifdef RESTORE
			compare(me, my.sent_reports, 0);
			record(me, false);
			answer_reports(me);
#endif
			my.to_place = told
		fi;
		my.wants = false;
#ifdef RESTORE
		my.sent_reports = false;
#endif
		my.sent_incarnation = 0;
		my.sent_seen = 0;
		if
		:: my.stage = answered
		:: forget_request(me)
		fi
	}
#ifdef LATE
	:: atomic {
		my.stage == sent && my.is_full && my.late == 0 ->
		my.late = my.sent_seen + 1;
		my.late_incarnation = my.sent_incarnation;
#ifdef RESTORE
		my.late_reports = my.sent_reports;
#endif
		forget_request(me)
	}
	:: atomic {
		my.late > 0 && my.stage == idle ->
		serve(me, my.late_incarnation, my.late - 1, true, reports_late);
		my.late = 0;
		my.late_incarnation = 0;
#ifdef RESTORE
		my.late_reports = false;
#endif
		forget_request(me)
	}
#endif

	/* heed */
	:: atomic {
		my.stage == answered ->
		if
#ifndef HEED_ANYWHERE
		/* it has moved, and was not told all: no answer */
		:: !my.is_full && my.to_place != my.place
#endif
		:: else ->
#ifdef RESTORE
			my.contacted = my.contacted || my.is_full;
			my.knows = my.to_knows;
			my.knows_more = my.to_knows_more;
#else
			my.contacted = my.contacted || my.to_place == here;
#endif
#ifndef NO_FORGET
			if
			:: my.place != 0 && my.place != my.to_place && now >= my.deadline -> forget(me)
			:: else
			fi;
#endif
			my.place = my.to_place;
			my.deadline = to_the_deadline;
			if
			:: my.is_full ->
				if
				:: my.to_incarnation != my.incarnation ->
					forget(me);
					my.incarnation = my.to_incarnation
				:: else
				fi;
				my.seen = MAX(my.seen, my.to_seen);
				my.has = my.has || my.to_has
			:: else
			fi
		fi;
		forget_request(me)
	}

	/* a crash, or a shutdown */
	:: atomic { !owes(me) && (my.place != 0 || my.stage != idle) -> restart(me) }

	od
}

#ifdef PROMOTION
inline no_standby()
{
	cut = false;
	standby_max_id = 0;
	standby_incarnation = 0;
	standby_dropped = false;
	standby_noted = 0;
	standby_closed = 0
}

/* Requests to the old primary are lost, answers of it may be under way. */
inline move(s)
{
	S[s].contacted = false;
#ifdef RESTORE
	forget_request(s);
#ifdef LATE
	S[s].late = 0;
	S[s].late_incarnation = 0;
	S[s].late_reports = false;
#endif
#else
	if
	:: S[s].stage == sent -> forget_request(s)
	:: else
	fi;
#endif
}
#endif

#ifdef RESTORE
#define ends_with(time)	(closed_until == (time) || (guarded && guarded_until == (time)))

/* See above. */
#define lost \
	((S[0].has || S[0].drew) && standby_max_id < watched)
#define was_live(time)	((time) > 0 && (time) + TTL >= now)
#define is_old			(now >= cut_at + LAG + TTL)
#ifdef UNTOLD
#define has_witness		false
#define assumed			true
#else
#define has_witness		was_live(cut_at)
#define assumed \
	(!lost || is_old || (was_live(S[0].row_at) && S[0].knows_more))
#endif
#ifdef ROW_LEFT
#define another_proves	true
#else
#define another_proves	(cut_at > 0 && !is_old)
#endif
#else
#define ends_with(time)	(closed_until == (time))
#endif

proctype World()
{
	do
	:: atomic {
		now < TIMES && !(ends_with(now + 1) && (owes(0) || owes(1))) ->
		now++
	}
#ifdef DROP
	:: atomic {
		!dropped && made < INCARNATIONS ->
		dropped = true
	}
	:: atomic {
		dropped && made < INCARNATIONS ->
		dropped = false;
		made++;
		incarnation = made;
#ifdef NO_TOMBSTONE
		max_id = 0
#endif
	}
#endif
#ifdef PROMOTION
	/* the others take a segment, and draw it at once or never */
	:: atomic {
#ifdef AGAIN
		serve(1, 0, 0, true, S[1].knows);
		S[1].knows = S[1].to_knows;
#else
		serve(1, 0, 0, true, false);
#endif
		if
		:: S[1].to_has && promoted == PROMOTION -> issue()
		:: true
		fi;
		forget_request(1)
	}
	:: atomic {
		!cut && promoted < PROMOTION ->
		cut = true;
		standby_max_id = max_id;
		standby_incarnation = incarnation;
		standby_dropped = dropped;
		standby_noted = noted;
#ifdef RESTORE
		cut_at = now;
#endif
		standby_closed = closed_until
	}
#ifdef RESTORE
	:: atomic {
#ifdef UNNOTICED
		cut ->
#else
		cut && (has_witness || assumed) ->
		if
		:: has_witness -> awaits_witness = true
		:: assumed
		fi;
#endif
		above = max_id;
		S[0].has_row = (S[0].row_at > 0);
		S[0].is_live = was_live(S[0].row_at);
		S[0].row_is_newer = false;
		S[0].row_at = 0;
		cut_at = (is_old -> 0 : cut_at);
		max_id = standby_max_id;
#else
	:: atomic {
		cut ->
		max_id = standby_max_id;
#endif
		incarnation = standby_incarnation;
		dropped = standby_dropped;
		noted = standby_noted;
		closed_until = standby_closed;
		promoted++;
#ifdef UNNOTICED
		/* the first that asks knows more: of its row, or it has seen more */
		if
#if defined(SEEN_ALONE) || defined(UNTOLD)
		:: true
#else
		:: close_down()
#endif
		:: saw_more(above) -> close_down(); max_id++
#ifdef REPORTS_ALONE
		:: above > max_id -> max_id++
#endif
		fi;
#else
		here++;
#endif
#ifdef RESTORE
		above = 0;
#endif
		no_standby();
		move(0)
	}
#endif
#ifdef RESTORE
	/* the witness asks: it knows more, or has been away for too long */
	:: atomic {
		promoted > 0 && awaits_witness ->
		arrive();
		if
#ifdef SEEN_ALONE
		:: proved = guarded
#else
		:: close_down()
#endif
			;
			awaits_witness = false
		:: true
#if defined(ROW_ANYWAY)
			;
			awaits_witness = false
#elif defined(TELL_ANYWAY)
			;
			awaits_witness = false;
			proved = guarded
#endif
		fi;
		look_at_guard()
	}
	/* another server, which was answered last before the backup or soon after */
	:: atomic {
		guarded && !proved && another_proves ->
		proved = true;
		look_at_guard()
	}
#ifdef AGAIN
	:: atomic {
		promoted > 0 && !again ->
		again = true;
		here++;
#ifdef FROM_NOW
		awaits_witness = false;
		S[0].is_live = S[0].has_asked;
#endif
		S[0].has_asked = false;
		S[1].has_asked = false
	}
#endif
#endif
	od
}

init
{
	atomic {
		S[0].stage = idle;
		S[1].stage = idle;
		select(watched : 1 .. NUMBERS);
		run Run(0);
#ifndef PROMOTION
		run Run(1);
#endif
		run World()
	}
}
