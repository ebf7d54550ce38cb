/*-------------------------------------------------------------------------
 *
 * segment_registry.pml
 *		Model of how segments of several servers stay apart: max_id, the
 *		reports, the deadline, and what is kept while a server is stopped.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run, and segment.pml for what a server does with
 * a segment.
 *
 * Each atomic block is one step: one transaction of the registry, one message,
 * or what the worker does under the lock.  Between any two steps, all others
 * may do any number of their own, time may pass, and a server may crash.
 *
 *	Here						In src/ and snowflake_segments--1.0.sql
 *	Run: draw					segment.c segment_take(): is_valid(), take()
 *	Run: ask, heed				segment_fetch.c build_take(),
 *								segment_fetch_handle_rows()
 *	Run: keep					segment_keep.c build_keep()
 *	arrive(), serve(), serve_keep()	snowflake_segments_arrive(),
 *								_take_segments(), _keep_segments()
 *	World: drop, create			snowflake_drop_tag(), _make_segment()
 *
 * There are two servers, a tag, and its numbers 1 to NUMBERS, of which one is
 * watched, any one.  With PROMOTION there is one, and others of which nothing
 * matters but that they take segments: what one of them has drawn before, and
 * who is next, would be the same with the parts exchanged.  A segment is any of the next numbers.  A server knows the
 * highest number that it saw given out, and whether it has the watched one.
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
 *	- A server that has drawn numbers which the promotion has lost, neither
 *	  stops nor crashes before it has asked the new primary, and does so before
 *	  that opens.  -DISOLATED is without that.
 *	- A backend that finds the deadline not passed, draws before it passes.
 *
 * -DPROMOTION lets the registry be promoted, up to so many times, to a standby
 * that stopped receiving at any time before.  -DDROP has tags dropped and
 * created again.  All else that can be defined leaves out something, see
 * 030_model.pl.  -DNEVER=condition asserts that the watched number is not
 * issued under that condition.
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
	byte sent_incarnation;
	byte sent_seen;
	byte to_incarnation;
	byte to_seen;
	bool to_has;
	byte to_place;

	/* The last words of a server that was stopped. */
	byte keeps;					/* of this incarnation, 0: none */
	byte keeps_place;

#ifdef LATE
	/* A request that was given up is on its way. */
	byte late;					/* 0, or with seen + 1 */
	byte late_incarnation;
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

/* The registry: the tag's row, and what was kept. */
byte max_id;
byte incarnation = 1;
byte made = 1;					/* incarnations so far; none comes again */
bool dropped;
bool kept[2];
byte here = 1;
byte noted = 1;
byte closed_until;

byte now = 1;
byte watched;
bool issued;

#ifdef PROMOTION
/* The standby, once it has stopped receiving. */
bool cut;
byte standby_max_id;
byte standby_incarnation;
bool standby_dropped;
bool standby_kept[2];
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
bool was_kept;
#ifdef NEVER
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
	S[s].sent_incarnation = 0;
	S[s].sent_seen = 0;
	S[s].to_incarnation = 0;
	S[s].to_seen = 0;
	S[s].to_has = false;
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
	note(S[s].restarted = true)
}

/*
 * The registry
 */
inline arrive()
{
	if
	:: noted != here ->
		noted = here;
#ifndef NO_CLOSING
		closed_until = MAX(closed_until, now + TTL);
#endif
#ifndef KEPT_STAYS
		kept[0] = false;
		kept[1] = false
#endif
	:: else
	fi
}

inline serve(s, from_incarnation, from_seen, from_wants)
{
	arrive();
	is_open = (now >= closed_until);
	known = (!dropped && from_incarnation == incarnation -> from_seen : 0);
#ifdef NO_REPORT
	known = 0;
#endif
	if
	:: known >= watched -> kept[s] = false
	:: else
	fi;
	wanted = from_wants && !dropped && is_open &&
		(from_incarnation == 0 || from_incarnation == incarnation);
	above = MAX(max_id, known);
	last = above;
	if
	:: wanted && kept[s] ->
#ifndef CLAIM_STAYS
		kept[s] = false;
#endif
		last = watched;
		S[s].to_has = true;
		note(was_kept = true)
	:: wanted && !kept[s] ->
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
	S[s].to_place = here;
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

inline serve_keep(s)
{
	arrive();
	if
	:: !dropped && S[s].keeps == incarnation ->
		max_id = MAX(max_id, watched);
#ifdef KEEP_ANYWHERE
		kept[s] = true
#else
		kept[s] = kept[s] || S[s].keeps_place == here
#endif
	:: else
	fi;
#ifdef RETRY_KEEP
	/* the answer is lost, and it is sent again */
	if
	:: true
	:: S[s].keeps = 0; S[s].keeps_place = 0
	fi
#else
	S[s].keeps = 0;
	S[s].keeps_place = 0
#endif
}

#ifdef NO_DEADLINE
#define valid	true
#else
#define valid	(now < my.deadline)
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
		if
		:: my.is_full = true;
			my.sent_incarnation = my.incarnation;
			my.sent_seen = my.seen;
			if
			:: my.wants = true
			:: true
			fi
#ifdef PROMOTION
		:: true
#endif
		fi
	}
	:: atomic {
		my.stage == sent ->
		if
		:: my.is_full ->
			serve(me, my.sent_incarnation, my.sent_seen, my.wants)
		:: else ->
			arrive();
			my.to_place = here
		fi;
		my.wants = false;
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
		forget_request(me)
	}
	:: atomic {
		my.late > 0 && my.stage == idle ->
		serve(me, my.late_incarnation, my.late - 1, true);
		my.late = 0;
		my.late_incarnation = 0;
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
			my.contacted = my.contacted || my.to_place == here;
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
#ifdef KEEP_INCARNATION
					my.incarnation = 0;
					my.seen = 0;
#else
					forget(me);
#endif
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

	/* a crash */
	:: atomic { !owes(me) && (my.place != 0 || my.stage != idle) -> restart(me) }

	/* a shutdown: what is left is closed, and kept */
	:: atomic {
		!owes(me) && my.has && my.keeps == 0 ->
		my.keeps = my.incarnation;
		my.keeps_place = my.place;
#ifdef DRAW_AFTER_KEEP
		forget_request(me)
#else
		restart(me)
#endif
	}
	:: atomic { my.keeps != 0 -> serve_keep(me) }
	:: atomic { my.keeps != 0 -> my.keeps = 0; my.keeps_place = 0 }
	od
}

#ifdef PROMOTION
inline no_standby()
{
	cut = false;
	standby_max_id = 0;
	standby_incarnation = 0;
	standby_dropped = false;
	standby_kept[0] = false;
	standby_kept[1] = false;
	standby_noted = 0;
	standby_closed = 0
}

/* Requests to the old primary are lost, answers of it may be under way. */
inline move(s)
{
	S[s].contacted = false;
	if
	:: S[s].stage == sent -> forget_request(s)
	:: else
	fi;
	S[s].keeps = 0;
	S[s].keeps_place = 0
}
#endif

proctype World()
{
	do
	:: atomic {
		now < TIMES && !(now + 1 == closed_until && (owes(0) || owes(1))) ->
		now++
	}
#ifdef DROP
	:: atomic {
		!dropped && made < INCARNATIONS ->
		dropped = true;
		kept[0] = false;
		kept[1] = false
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
		serve(1, 0, 0, true);
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
		standby_kept[0] = kept[0];
		standby_kept[1] = kept[1];
		standby_noted = noted;
		standby_closed = closed_until
	}
	:: atomic {
		cut ->
		max_id = standby_max_id;
		incarnation = standby_incarnation;
		dropped = standby_dropped;
		kept[0] = standby_kept[0];
		kept[1] = standby_kept[1];
		noted = standby_noted;
		closed_until = standby_closed;
		here++;
		promoted++;
		no_standby();
		move(0)
	}
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
